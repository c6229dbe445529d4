"""The quickstart of the page and the example, executed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import playwright
import pytest

from helpers.shell import Shell

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.system


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    found = Shell(tmp_path)
    try:
        yield found
    finally:
        found.type("gauss db shutdown", check=False)
        found.close()


def commands(page: str) -> list[str]:
    block = re.search(r"```\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert block is not None
    return [line.partition("    #")[0].strip() for line in block[1].splitlines()]


def test_the_quickstart_runs_what_it_says(shell: Shell) -> None:
    printed = {line: shell.type(line) for line in commands("docs/database-states.md")}
    assert "seed.sql:2 was" in str(printed), printed
    states = next(text for line, text in printed.items() if line.startswith("gauss db states"))
    assert [row.split()[1] for row in states.splitlines()[1:4]] == ["schema.sql", "seed.sql", "seed.sql"]
    assert printed["gauss db shutdown"] == "stopped, with 3 instances"


def test_the_example_gives_each_test_its_database(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "example"
    shutil.copytree(ROOT / "examples" / "database-states", folder)
    shell.type(f"cd {folder}")
    printed = [shell.type(line) for line in commands("examples/database-states/README.md")]
    assert printed[0] != printed[1]
    assert "3 passed" in printed[2]
    assert printed[4] == "stopped, with 2 instances"


def test_the_snippet_for_other_languages_gives_a_database(shell: Shell, tmp_path: Path) -> None:
    text = re.search(
        r"<!-- file: database.js -->\n```js\n(.*?)```", (ROOT / "docs/database-states.md").read_text(), re.DOTALL
    )
    assert text is not None
    used = 'const db = database("-c", "CREATE TABLE a (b int)"); console.log(db.dsn); console.log(db.drop().status);\n'
    (tmp_path / "database.js").write_text(text[1] + used)
    node = Path(playwright.__file__).parent / "driver" / "node"
    dsn, status = shell.type(f"{node} database.js").split()
    assert dsn.startswith("postgresql://postgres:")
    assert status == "0"
    assert json.loads(shell.type("gauss db instances --json")) == {"instances": []}
