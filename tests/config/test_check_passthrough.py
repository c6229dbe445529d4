"""`mode = "passthrough"` and topics with `framing = "none"`: valid and invalid combinations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Judge

TOPICS = """
[[topics]]
name = "captures"
storage = "file"
storage_config = { framing = "none"MORE }

[[topics]]
name = "records"
storage = "memory"
"""


def source(config: str, target: str = "captures") -> str:
    line = f'target = {{ topic = "{target}" }}\n' if target else ""
    return f'[[processors]]\nname = "p"\nplugin = "tcp-source"\n{line}config = {{ port = 9200, {config} }}\n'


def sink(read: str, config: str) -> str:
    read = f'source = {{ topic = "captures", read = "{read}" }}'
    return f'[[processors]]\nname = "s"\nplugin = "tcp-sink"\n{read}\nconfig = {{ port = 9201, {config} }}\n'


RAW = 'mode = "passthrough"'
CUT = 'input = { framing = "newline" }'


@pytest.mark.parametrize(
    "text",
    [
        source(RAW),
        source(f'{RAW}, forward = "db.example:5432"'),
        source(f'{RAW}, forward = "[::1]:5432", idle_timeout = "5s"', target=""),
        source(RAW) + sink("raw", RAW),
    ],
)
def test_sound_passthrough_has_no_fault(judge: Judge, text: str) -> None:
    assert judge(TOPICS.replace("MORE", "") + text).errors == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (source(f"{RAW}, {CUT}"), '"input" cannot be used'),
        (source(f'{RAW}, tls = {{ cert = "c", key = "k" }}'), '"tls" cannot be used'),
        (source(f'{RAW}, compression = "gzip"'), '"compression" cannot be used'),
        (source(f'{RAW}, ack = "count"'), '"ack" cannot be used'),
        (source(RAW, target=""), "needs a target, a forward address, or both"),
        (source(RAW, target="records"), "its target must be a topic"),
        (source(CUT), "which hold no records"),
        (source(CUT, target=""), '"target" is missing'),
        (source(f'{CUT}, forward = "a:1"', target="records"), '"forward" needs mode'),
        (source(f'{RAW}, forward = "nowhere"'), 'expects "host:port"'),
        (source(RAW) + sink("raw", 'output = { framing = "newline" }'), "go together"),
        (source(RAW) + sink("offset", 'output = { framing = "newline" }'), 'can\'t be read by "offset"'),
        (source(RAW) + sink("raw", f'{RAW}, start = "end"'), '"start" cannot be used'),
    ],
)
def test_each_fault_is_told(judge: Judge, text: str, told: str) -> None:
    (fault,) = judge(TOPICS.replace("MORE", "") + text).errors
    assert told in str(fault)


@pytest.mark.parametrize(
    "key", ['segment_bytes = "1MiB"', 'fsync = "always"', 'write_full = "drop"', 'delimiter = "x"']
)
def test_settings_of_records_are_refused_for_captures(judge: Judge, key: str) -> None:
    (fault,) = judge(TOPICS.replace("MORE", f", {key}") + source(RAW)).errors
    assert 'framing = "none"' in str(fault)


def test_an_unknown_target_is_one_fault(judge: Judge) -> None:
    [fault] = judge(TOPICS.replace("MORE", "") + source(RAW, target="capture")).errors
    assert 'unknown topic "capture"' in fault.message
    assert fault.hint == 'did you mean "captures"?'
