"""Faults of `[[syncs]]` are reported with their line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gauss.config.spec import Pipeline
from gauss.config.sync_rules import last_part

if TYPE_CHECKING:
    from .conftest import Judge

CONNECTORS = """
class Source:
    def __init__(self, host): ...
    def run_read(self, stream): ...

class Destination:
    def __init__(self, host): ...
    def run_write(self, stream): ...
"""
SOUND = """\
[[syncs]]
name = "people"
source = { connector = "own:Source", dsn = "x" }
destination = { connector = "own:Destination" }
streams = [{ name = "public.people", mode = "incremental", cursor = "id", write = "upsert", key = ["id"] }]
every = "5m"
deadline = "1h"
"""


@pytest.fixture(autouse=True)
def connectors(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(CONNECTORS)


def test_a_pipeline_of_syncs_alone_is_sound_and_survives_json(judge: Judge) -> None:
    checked = judge(SOUND)
    assert checked.faults == [] and checked.pipeline is not None
    [sync] = checked.pipeline.syncs
    assert sync.source.config == {"dsn": "x"} and sync.every == 300_000
    assert Pipeline.model_validate_json(checked.pipeline.model_dump_json()) == checked.pipeline


def test_every_is_a_duration_or_a_cron_expression(judge: Judge) -> None:
    checked = judge(SOUND.replace('"5m"', '"0 * * * *"'))
    assert checked.pipeline is not None and checked.pipeline.syncs[0].every == "0 * * * *"
    [fault] = judge(SOUND.replace('"5m"', '"often"')).errors
    assert "cron expression" in fault.expected and fault.line == 6


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        (
            'connector = "postgres"',
            ['sync "people": stream "public.people": postgres needs a cursor for an increment'],
        ),
        ('connector = "file", path = "data", format = "csv"', []),
        ('connector = "own:Source"', []),
    ],
)
def test_a_source_without_positions_of_its_own_needs_a_cursor(judge: Judge, source: str, faults: list[str]) -> None:
    text = SOUND.replace('connector = "own:Source", dsn = "x"', source).replace('cursor = "id", ', "")
    assert [each.message for each in judge(text).errors] == faults


@pytest.mark.parametrize(("also", "found"), [("", 0), ('every = "5m"', 1), ('deadline = "1h"', 1)])
def test_a_sync_that_follows_never_ends(judge: Judge, also: str, found: int) -> None:
    cdc = SOUND.replace('mode = "incremental", cursor = "id"', 'mode = "cdc"').replace(
        'every = "5m"\ndeadline = "1h"\n', ""
    )
    checked = judge(f"{cdc}follow = true\n{also}\n")
    assert len(checked.errors) == found and all("follows" in str(each) for each in checked.errors)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            'mode = "incremental", cursor = "id"',
            'mode = "cdc", transform = { sql = "SELECT 1" }',
            "only through a program",
        ),
        ('mode = "incremental", ', "", "a full refresh has no cursor"),
        (', key = ["id"]', "", 'write = "upsert" needs a key'),
        ('write = "upsert"', 'write = "append"', 'a key goes with write = "upsert"'),
        ('write = "upsert", key = ["id"]', 'write = "replace"', 'write = "replace" goes with a full refresh'),
        ('connector = "own:Source"', 'connector = "nowhere"', 'unknown source "nowhere"'),
        ('connector = "own:Source"', 'connector = "own:Nothing"', "has no Nothing"),
        ('connector = "own:Source"', 'connector = "gone.wasm"', "the module does not exist"),
        ('mode = "incremental"', 'mode = "sometimes"', '"streams[0].mode" is not valid'),
        ('name = "people"', 'name = "people"\nstrems = 1', 'unknown key "strems"'),
        ('every = "5m"', "limits = { max_batch_bytes = 5 }", '"limits.max_batch_bytes" is not valid'),
        ('every = "5m"', 'policies = { on_data_error = "ignore" }', '"policies.on_data_error" is not valid'),
        ('every = "5m"', "checkpoint = { rows = 0 }", '"checkpoint.rows" is not valid'),
        ("streams = [", "streams = []#", "is not valid"),
        (
            'mode = "incremental", cursor = "id", write = "upsert", key = ["id"] }]',
            'transform = { sql = "SELECT 1" } }]\nruns_on = "local"',
            'the query of stream "public.people" runs on Spark only',
        ),
        ('every = "5m"', 'runs_on = "cluster"', '"runs_on" is not valid'),
        ('every = "5m"', "follow = true", "follow is for streams of mode cdc only"),
    ],
)
def test_each_fault_has_its_sentence(judge: Judge, before: str, after: str, message: str) -> None:
    assert before in SOUND
    faults = judge(SOUND.replace(before, after)).errors
    assert any(message in fault.message for fault in faults), [fault.message for fault in faults]
    assert all('sync "people"' in fault.message and fault.line > 1 for fault in faults)


def test_a_fault_inside_a_stream_is_not_reported_for_all_streams_as_well(judge: Judge) -> None:
    [fault] = judge(SOUND.replace('"incremental"', '"increment"')).errors
    assert "streams[0].mode" in fault.message and fault.hint == 'did you mean "incremental"?'
    [fault] = judge(SOUND.replace("streams = [", "streams = 5 #")).errors
    assert fault.expected == 'an array or "*"'


def test_two_streams_for_one_table_are_a_fault_unless_one_is_renamed(judge: Judge) -> None:
    both = SOUND.replace("streams = [", 'streams = [{ name = "other.people" }, ')
    [fault] = judge(both).errors
    assert '"other.people" and "public.people" would both be written to "people"' in fault.message
    assert judge(both.replace('"other.people" }', '"other.people", table = "more" }')).errors == []
    tables = 'Destination", tables = { "public.people" = "x" }'
    assert judge(both.replace('Destination"', tables)).errors == []
    [fault] = judge(both.replace('Destination"', tables.replace('"x" }', '"x", "other.people" = "x" }'))).errors
    assert "would both be written to" in fault.message
    assert (
        judge(
            both.replace('"own:Destination"', '"file", path = "out"').replace('"upsert", key = ["id"]', '"append"')
        ).errors
        == []
    )


def test_two_syncs_of_one_name_are_a_fault(judge: Judge) -> None:
    [fault] = judge(SOUND + SOUND).errors
    assert "this sync is defined twice" in fault.message


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("people", "people"),
        ("public.people", "people"),
        ('public."a.b"', "a.b"),
        ('"x""y"."z""w"', 'z"w'),
        ("a.b.c", "c"),
        ('"open', '"open'),
    ],
)
def test_a_stream_lands_as_its_last_part(name: str, table: str) -> None:
    assert last_part(name) == table
