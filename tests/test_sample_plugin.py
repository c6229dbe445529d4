"""The sample third-party package is installed as by a user and found only by its entry points."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.feeds import send
from helpers.run import Run, free_port
from helpers.waiting import wait_until

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[1]
SUITE = ROOT / "tests" / "helpers" / "sample_plugin_suite.py"

USE = """
import json, sys
from gauss import registry
from gauss.contracts.framing import FramingSpec
from gauss.contracts.processor import LintContext, ProcessorSpec
from gauss.contracts.transform import Schemas
uppercase = registry.spec(ProcessorSpec, "uppercase")
config = uppercase.validate({"input": {"format": "json"}, "output": {"format": "json"}, "field": "word"})
light = sorted({"pyarrow", "numpy", "pyspark"} & set(sys.modules))
transform = registry.build(uppercase, config)
print(json.dumps({
    "framings": registry.names(FramingSpec),
    "heavy": light,
    "fields": [field.name for field in transform.bind(Schemas()).fields],
    "lint": uppercase.lint(config, LintContext(input_fields=("other",))),
}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process with the package on its path."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    made = subprocess.run(
        [*command, "--target", str(target), str(ROOT / "examples" / "plugin")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    return {**os.environ, "PYTHONPATH": str(target)}


def test_the_netstring_framing_passes_the_conformance_suite(installed: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(SUITE)]
    run = subprocess.run(
        [*command, "-o", "python_files=*_suite.py", "--basetemp", str(tmp_path / "base")],
        check=False,
        cwd=ROOT,
        env=installed,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "passed" in run.stdout


def test_the_plugins_are_found_by_name_and_their_specs_load_nothing_heavy(installed: dict[str, str]) -> None:
    run = subprocess.run(
        [sys.executable, "-c", USE], check=False, cwd=ROOT, env=installed, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout)
    assert "netstring" in seen["framings"]
    assert "newline" in seen["framings"]
    assert seen["heavy"] == []
    assert seen["fields"] == ["word"]
    assert seen["lint"] == ['field: the input format has no field "word" (it has: other)']


def test_the_pipeline_in_its_readme_passes_the_check(installed: dict[str, str], tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", (ROOT / "examples" / "plugin" / "README.md").read_text(), re.DOTALL)
    assert found is not None
    pipeline = tmp_path / "pipeline.toml"
    pipeline.write_text(found[1])
    run = subprocess.run(
        [sys.executable, "-m", "gauss.cli.main", "check", "--offline", str(pipeline)],
        check=False,
        env=installed,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.spark
def test_pipeline_of_its_readme_runs_with_both_plugins(installed: dict[str, str], tmp_path: Path) -> None:
    readme = (ROOT / "examples" / "plugin" / "README.md").read_text()
    found = re.search(r"```toml\n(.*?)```", readme, re.DOTALL)
    assert found is not None
    port = free_port()
    run = Run(tmp_path, found[1].replace("9100", str(port)))
    run.environment = installed
    try:
        run.start()
        send(port, b'16:{"word":"hello"},16:{"word":"world"},')
        wait_until(lambda: run.topic("shouted")["end"] == 2, 180, "two shouted words")
        lines = run.cli("query", "shouted", "--json").stdout.splitlines()
        assert [json.loads(json.loads(line)["data"])["word"] for line in lines] == ["HELLO", "WORLD"]
    finally:
        run.end()
