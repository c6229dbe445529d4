"""Faults of topics in which a processor keeps its state."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.config.check import check

KEYED = 'mode = "table", key_field = "window_key"'
TOPICS = {
    "in": ("memory", ""),
    "out": ("memory", ""),
    "other": ("memory", ""),
    "ring": ("memory", "storage_size = 10"),
    "log": ("file", ""),
    "table": ("memory", f'{KEYED}, format = "json"'),
    "lines": ("memory", f'{KEYED}, format = "lines"'),
    "by-key": ("memory", 'mode = "table", key_field = "key", format = "json"'),
    "clicks": ("clickhouse", 'host = "db.example"'),
}
FORMAT = """
[[formats]]
name = "lines"
plugin = "csv"
config = { fields = [{ name = "window_key", type = "string" }] }
"""
PROCESSOR = """
[[processors]]
name = "{name}"
plugin = "ohlc"
source = {{ topic = "in", read = "offset" }}
target = {{ topic = "{target}" }}
config = {{ input = {{ format = "json" }}, intervals = ["1m"], {config} }}
"""


def errors(tmp_path: Path, config: str, other: str = "") -> list[str]:
    topics = [
        f'[[topics]]\nname = "{name}"\nstorage = "{storage}"\nstorage_config = {{ {given} }}\n'
        for name, (storage, given) in TOPICS.items()
    ]
    text = FORMAT + "".join(topics) + PROCESSOR.format(name="p", target="out", config=config)
    if other:
        text += PROCESSOR.format(name="q", target="other", config=other)
    file = tmp_path / "pipeline.toml"
    file.write_text(text)
    return [str(fault) for fault in check(file).errors]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('state_topic = "table"', ""),
        ('state_topic = "table", state_format = "json"', ""),
        ('state_topic = "log"', ""),
        ('state_topic = "nowhere"', 'unknown topic "nowhere"'),
        ('state_topic = "out"', '"state_topic" is the target'),
        ('state_topic = "ring"', 'topic "ring" (memory) can\'t store state: it would drop the oldest rows'),
        ('state_topic = "clicks"', 'topic "clicks" (clickhouse) can\'t store state: the rows are in a table'),
        ('state_topic = "by-key"', 'expected key_field = "window_key", found "key"'),
        ('state_topic = "lines"', 'table "lines" reads its keys as "lines", but the state is written as "json"'),
    ],
)
def test_a_state_topic_must_be_able_to_give_the_state_back(config: str, said: str, tmp_path: Path) -> None:
    found = errors(tmp_path, config)
    assert [said in message for message in found] == [True] * bool(said), found


def test_two_states_in_one_topic_are_refused_at_both(tmp_path: Path) -> None:
    found = errors(tmp_path, 'state_topic = "log"', 'state_topic = "log"')
    assert len(found) == 2 and all('topic "log" is also written by processor' in message for message in found), found
