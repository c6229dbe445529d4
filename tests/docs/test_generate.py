from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tomli

from gauss import registry
from gauss.config.check import check
from gauss.config.spec import ProcessorDef
from gauss.config.topics import topics_of
from gauss.contracts.processor import ProcessorSpec, Role

ROOT = Path(__file__).parents[2]
TRANSFORMS = [
    name for name in registry.names(ProcessorSpec) if registry.spec(ProcessorSpec, name).role is Role.TRANSFORM
]


def test_reference_pages_are_what_the_models_say() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "docs.generate", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [name for name in TRANSFORMS if registry.spec(ProcessorSpec, name).example])
def test_the_example_of_a_processor_passes_the_check(name: str, tmp_path: Path) -> None:
    example = registry.spec(ProcessorSpec, name).example
    given = tomli.loads(example)
    [entry] = given["processors"]
    assert entry["plugin"] == name
    sources, targets = topics_of(ProcessorDef.model_validate(entry))
    own = {topic["name"] for topic in given.get("topics", ())}
    topics = {source.topic for source in sources} | set(targets)
    file = tmp_path / "pipeline.toml"
    file.write_text("".join(f'[[topics]]\nname = "{each}"\nstorage = "memory"\n' for each in topics - own) + example)
    assert [fault.message for fault in check(file).errors] == []


def test_every_transform_has_an_example() -> None:
    lacking = {name for name in TRANSFORMS if not registry.spec(ProcessorSpec, name).example}
    assert lacking == set()
