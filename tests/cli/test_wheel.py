"""Docs and examples that hints name exist in an installation from a wheel."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "gauss").rglob("*.py"))
Installed = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed wheel of this tree, without its dependencies."""
    made, target = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", made, ROOT], check=True, timeout=300)
    [wheel] = made.glob("gauss-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", target, wheel], check=True, timeout=300)
    return target


@pytest.fixture(scope="module")
def installed(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("elsewhere")

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gauss.cli.main", *args]
        env = {**os.environ, "PYTHONPATH": str(place)}
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)

    return run


def told() -> Iterator[tuple[Path, str]]:
    """All strings of the sources that are not docstrings."""
    for file in SOURCES:
        tree = ast.parse(file.read_text())
        docs = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                yield file, node.value


def test_pages_named_by_hints_are_printed(installed: Installed) -> None:
    pages = {page for _, text in told() for page in re.findall(r"gauss docs ([a-z][\w/-]*)", text)}
    assert {"testing", "scan-programs"} <= pages
    for page in pages:
        done = installed("docs", page)
        assert done.returncode == 0 and done.stdout.startswith(("# ", "<!--")), page


def test_no_hint_names_a_path_of_the_checkout() -> None:
    named = [f"{file.name}: {text}" for file, text in told() if re.search(r"\b(docs|examples)/[\w-]+\.\w+", text)]
    assert named == []


def test_commands_named_by_hints_exist(installed: Installed) -> None:
    from gauss.cli.main import COMMANDS

    words = {
        word
        for _, text in told()
        for word in re.findall(r"(?:^|[`;:(,] ?|with |by |use |in the run: )gauss ([a-z]+)\b", text)
    }
    assert words & set(COMMANDS)
    listed = installed("--help").stdout
    assert [word for word in sorted(words) if word not in listed] == []


def test_examples_are_listed_and_copied_and_pass_the_check(installed: Installed, tmp_path: Path) -> None:
    assert "01-passthrough" in installed("examples").stdout
    done = installed("examples", "--to", str(tmp_path / "examples"))
    assert done.returncode == 0, done.stderr
    copied = sorted((tmp_path / "examples").glob("*/pipeline.toml"))
    assert [file.parent.name for file in copied] == sorted(
        file.parent.name for file in (ROOT / "examples").glob("*/pipeline.toml")
    )
    for file in copied:
        checked = installed("check", "--offline", str(file))
        assert checked.returncode == 0, checked.stdout
    again = installed("examples", "--to", str(tmp_path / "examples"))
    assert again.returncode == 1 and "already exists" in again.stderr


def test_every_page_comes_with_the_wheel(installed: Installed, place: Path) -> None:
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    shared = place / "gauss" / "share" / "docs"
    assert {str(page.relative_to(shared)) for page in shared.rglob("*.md")} == pages
    unknown = installed("docs", "nothing")
    assert unknown.returncode == 3 and "pages: " in unknown.stderr
