"""Faults of joins: tables that can be looked up in, keys and topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.config.check import check

TOPICS = """
[[topics]]
name = "in"
storage = "memory"
[[topics]]
name = "out"
storage = "memory"
[[topics]]
name = "rows"
storage = "memory"
storage_config = { mode = "table", format = "json", key_field = "k" }
[[topics]]
name = "clicks"
storage = "clickhouse"
storage_config = { host = "db.example" }
"""


def errors(tmp_path: Path, plugin: str, config: str) -> list[str]:
    file = tmp_path / "pipeline.toml"
    ends = 'source = { topic = "in", read = "offset" }\ntarget = { topic = "out" }\n'
    file.write_text(f'{TOPICS}\n[[processors]]\nname = "p"\nplugin = "{plugin}"\n{ends}config = {{ {config} }}\n')
    return [str(fault) for fault in check(file).errors]


JOIN = 'input = { format = "json" }, join_key = "k"'


@pytest.mark.parametrize(
    ("plugin", "config", "said"),
    [
        ("join", f'{JOIN}, join_topic = "rows"', []),
        ("join", f'{JOIN}, join_topic = "row"', ['unknown topic "row"']),
        ("join", f'{JOIN}, join_topic = "in"', ["not the newest one of each key"]),
        ("join", f'{JOIN}, join_topic = "clicks"', ["without versions"]),
        ("join", 'input = {}, join_key = "k", join_topic = "rows"', ["needs a format"]),
        ("join", f'{JOIN}, join_topic = "rows", join_type = "full"', ["join_type"]),
        ("enrich", 'input = { format = "json" }, lookup = { key = "k", topic = "rows" }', []),
        ("enrich", 'input = { format = "json" }, lookup = { key = "k", topic = "row" }', ['unknown topic "row"']),
        (
            "enrich",
            'input = { format = "json" }, lookup = { key = "k", topic = "in" }',
            ["not the newest one of each key"],
        ),
        ("enrich", 'input = { format = "json" }, lookup = { key = "k", topic = "clicks" }', ["without versions"]),
        ("window-join", f'{JOIN}, join_topic = "out", window = "5s"', ["cycle"]),
        ("window-join", f'{JOIN}, join_topic = "rows", window = "5s"', ["can't be read by"]),
        ("window-join", f'{JOIN}, join_topic = "in", window = "0s"', ['"window" is not valid']),
        ("dedup", 'within = "10m"', []),
        ("dedup", 'within = "10m", key = "id"', ["needs a format"]),
        ("dedup", 'within = "10m", key = [], input = { format = "json" }', ["at least 1"]),
        ("dedup", "", ["within"]),
    ],
)
def test_a_join_is_judged_before_anything_starts(plugin: str, config: str, said: list[str], tmp_path: Path) -> None:
    found = errors(tmp_path, plugin, config)
    assert len(found) >= len(said) and bool(found) == bool(said)
    assert all(any(part in message for message in found) for part in said), found
