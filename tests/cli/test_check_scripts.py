"""`gauss check` runs every schema map against its format, and is safe against hostile scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gauss.cli.main import main

CONFIG = """
[[formats]]
name = "rows"
plugin = "json"
config = { fields = [{ name = "n", type = "int64" }] }

[[schema_maps]]
name = "map"
script = "map.star"

[[topics]]
name = "table"
storage = "STORAGE"
storage_config = { format = "rows", schema_map = "map" }

[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "table" }
config = { port = 12001, input = { framing = "newline" } }
"""
HEAD = "def map_schema(source, target):\n"


def tables(folder: Path, capsys: pytest.CaptureFixture[str], script: str, storage: str = "postgres") -> tuple[int, str]:
    """The exit code, and the messages about tables."""
    (folder / "map.star").write_text(script)
    (folder / "gauss.toml").write_text(CONFIG.replace("STORAGE", storage))
    with pytest.raises(SystemExit) as ended:
        main(["check", str(folder), "--offline", "--json", "--data-dir", str(folder / "none")])
    found = json.loads(capsys.readouterr().out)
    return int(ended.value.code or 0), next(p["detail"] for p in found["phases"] if p["name"] == "tables")


@pytest.mark.parametrize("storage", ["postgres", "clickhouse"])
def test_a_sound_script_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str], storage: str) -> None:
    kind = {"postgres": "BIGINT", "clickhouse": "Int64"}[storage]
    script = f'{HEAD}    target["fields"].append(column("n", "{kind}", "n"))\n    return target\n'
    assert tables(tmp_path, capsys, script, storage) == (0, "table: 1 column")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (HEAD + "    fail('no')\n", "map.star:2:5: no"),
        (HEAD + "    while True:\n", "map.star:2:5: "),
        (HEAD + "    for i in range(1000000000):\n        pass\n    return target\n", "did not end within"),
        (HEAD + "    return open('/etc/passwd')\n", "map.star:2:12: Variable `open` not found"),
        (HEAD + "    x = 'a' * 2000000000\n    return target\n", "took more than 384 MiB of memory"),
        (
            HEAD + '    target["fields"].append(column("n", "TEXT)", "n"))\n    return target\n',
            "'TEXT)' is not a Postgres type",
        ),
    ],
)
def test_a_script_that_is_wrong_or_hostile_is_a_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str, told: str
) -> None:
    code, detail = tables(tmp_path, capsys, script)
    assert (code, told in detail) == (1, True), detail
