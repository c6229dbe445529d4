"""`from`, `to` and `every` of a source: where they are allowed, and which ranges are valid."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from gauss.config.spec import Pipeline

if TYPE_CHECKING:
    from .conftest import Judge

COPY = """
[[topics]]
name = "kept"
storage = "file"

[[processors]]
name = "copy"
plugin = "passthrough"
source = { topic = "quotes", SOURCE }
target = { topic = "kept" }
"""


def with_source(sound: str, source: str) -> str:
    return sound + COPY.replace("SOURCE", source)


@pytest.mark.parametrize(
    "source",
    [
        'read = "query"',
        'read = "query", from = 0, to = 1700000000000',
        'read = "query", from = "2023-11-14T22:13:20Z", to = "2023-11-14T22:13:20Z"',
        'read = "query", from = 2023-11-14T22:13:20Z, to = "now"',
        'read = "query", from = "-1h", to = "-10s", every = "1m"',
        'read = "query", to = "2999-01-01"',
    ],
)
def test_bounded_read_is_sound(judge: Judge, sound: str, source: str) -> None:
    checked = judge(with_source(sound, source))
    assert not checked.errors
    assert checked.pipeline is not None
    assert Pipeline.model_validate_json(checked.pipeline.model_dump_json()) == checked.pipeline


def test_times_are_kept_as_milliseconds_and_those_that_count_from_now_as_text(judge: Judge, sound: str) -> None:
    source = 'read = "query", from = "2023-11-14T22:13:20Z", to = "-10s", every = "1m"'
    checked = judge(with_source(sound, source))
    assert checked.pipeline is not None
    found = checked.pipeline.processors[-1].source
    assert found is not None
    assert (found.from_, found.to, found.every) == (1700000000000, "-10s", 60_000)


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        ('read = "offset", from = 5', '"from" does not apply to read = "offset"', 'read by "query"'),
        ('read = "latest", to = "now"', '"to" does not apply to read = "latest"', 'read by "query"'),
        ('read = "offset", every = "1m"', '"every" does not apply', 'read by "query" or "snapshot"'),
        ('read = "query", from = 10, to = 9', '"from" is after "to"', ""),
        ('read = "query", from = "-1m", to = "-1h"', '"from" is after "to"', ""),
        ('read = "query", from = "2999-01-01"', '"from" is in the future', 'use read = "offset"'),
        ('read = "query", start = "end"', '"start" does not apply to read = "query"', ""),
    ],
)
def test_key_that_does_not_fit_is_named_with_its_line(
    judge: Judge, sound: str, source: str, message: str, hint: str
) -> None:
    [fault] = judge(with_source(sound, source)).errors
    assert message in fault.message
    assert hint in fault.hint
    assert fault.line == len(sound.splitlines()) + 9


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('read = "query", from = "yesterday"', "an ISO time"),
        ('read = "query", to = -5', "an ISO time"),
        ('read = "query", to = true', "an ISO time"),
        ('read = "query", every = 60', "a duration"),
        ('read = "query", every = "0s"', "greater than 0"),
    ],
)
def test_value_of_another_kind_says_what_is_expected(judge: Judge, sound: str, source: str, expected: str) -> None:
    [fault] = judge(with_source(sound, source)).errors
    assert expected in fault.expected


def test_misspelt_key_is_told_apart_from_from(judge: Judge, sound: str) -> None:
    [fault] = judge(with_source(sound, 'read = "query", form = 5')).errors
    assert fault.hint == 'did you mean "from"?'


def test_future_is_told_by_the_clock(judge: Judge, sound: str) -> None:
    soon = int(time.time() * 1000) + 3_600_000
    assert len(judge(with_source(sound, f'read = "query", from = {soon}')).errors) == 1


@pytest.mark.parametrize("read", ['read = "query", from = "-1h"', 'read = "snapshot", every = "1m"'])
def test_a_transform_reads_a_table_whole_or_by_times(judge: Judge, sound: str, read: str) -> None:
    table = 'storage = "memory"\nstorage_config = { mode = "table", key_field = "symbol", format = "json" }'
    copied = COPY.replace('topic = "quotes"', 'topic = "live"').replace("SOURCE", read)
    assert judge(f'{sound}\n[[topics]]\nname = "live"\n{table}\n{copied}').errors == []


def test_a_transform_subscribes_to_snapshots_and_not_to_changes(judge: Judge) -> None:
    text = """
[[topics]]
name = "rows"
storage = "memory"
storage_config = { mode = "table", format = "json", key_field = "k" }
[[topics]]
name = "out"
storage = "memory"
[[processors]]
name = "p"
plugin = "passthrough"
source = { topic = "rows", read = "subscribe"MORE }
target = { topic = "out" }
"""
    assert judge(text.replace("MORE", "")).errors == []
    [fault] = judge(text.replace("MORE", ', subscribe = "changes"')).errors
    assert '"changes" is only for sinks' in fault.message
