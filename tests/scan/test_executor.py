"""Batches, codes, positions and fuel depend only on the steps, not on the batches of a provider."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import cast

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.cursor import Capabilities, Code, Mode, Output, Program, Provider, Seq, Step
from gauss.model.errors import ConfigError
from gauss.scan import row_executor
from gauss.scan.log_cursor import LogProvider
from gauss.scan.program.parse import parse_scan
from gauss.scan.sources import SourceTask
from gauss.scan.table_provider import TableProvider
from gauss.scan.tasks import TaskCursor
from helpers.cases import cases
from helpers.keyed_records import KeyedProvider, headers_of, key_of, keyed_batch
from helpers.logs import lines, numbered, open_log, put
from helpers.scan_items import decode_item
from helpers.scan_worlds import JsonLog, doc, make_world
from helpers.tables import open_table, record, upsert

TEXTS = (
    "seq | select(.n % 3 == 0) | {n, symbol}",
    "seq | select(.n < 0) | .n",
    'seq | select(.symbol == "BTC")',
    "seq | .symbol",
)
records = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40)), min_size=1, max_size=60)
cuts = st.lists(st.integers(1, 9), min_size=1, max_size=6)
steps = st.lists(st.builds(Step, st.integers(1, 20), st.integers(1, 400)), min_size=1, max_size=12)


def _provider(data: list[bytes], sizes: list[int], limits: Capabilities) -> JsonLog:
    log = open_log("memory", Path())
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        put(log, lines(*data[at : at + size], ts_ms=5))
        at, turn = at + size, turn + 1
    provider = JsonLog(log)
    provider.capabilities = limits
    return provider


@settings(max_examples=cases(60), deadline=None)
@given(
    rows=records,
    one=cuts,
    other=cuts,
    taken=steps,
    text=st.sampled_from(TEXTS),
    fuel=st.sampled_from([(10_000, 1 << 40), (60, 1 << 40), (10_000, 900)]),
    fewest=st.integers(1, 8),
)
def test_same_answers_however_candidates_are_cut(
    *,
    rows: list[tuple[int, int]],
    one: list[int],
    other: list[int],
    taken: list[Step],
    text: str,
    fuel: tuple[int, int],
    fewest: int,
) -> None:
    data = [msgspec.json.encode({**doc(number), "symbol": "BTC"[:3] * width}) for number, width in rows]
    limits = dataclasses.replace(LogProvider.capabilities, max_fuel_item=fuel[0], max_fuel_scan=fuel[1])
    program = parse_scan(text)
    found = []
    for sizes, most in ((one, 65_536), (other, fewest)):
        source = SourceTask("t", _provider(data, sizes, limits))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(row_executor, "FEWEST_CANDIDATES", min(most, 1024))
            patch.setattr(row_executor, "MOST_CANDIDATES", most)
            opened = source.open(program)
            seen: list[object] = [opened.code]
            for step in taken if opened.code is Code.OK else ():
                code = source.next(opened.cursor_id, step)
                running = source.executor(opened.cursor_id)
                seen.append((code, source.read_blob(opened.cursor_id), running.fuel, running.position))
        found.append(seen)
    assert found[0] == found[1]


def test_live_program_passes_what_it_dropped_and_frees_it(tmp_path: Path) -> None:
    world = make_world("memory", tmp_path)
    world.emit_numbers(0, 20)
    slot = world.read(parse_scan("seq | select(.n == 15) | .n", live=True))
    assert slot.next(10) is Code.OK
    assert world.source.watermark() == 20
    world.emit_numbers(20, 5)
    assert slot.next(10) is Code.INVALID
    assert world.source.watermark() == 25


def test_program_names_the_format_of_a_topic_without_one(tmp_path: Path) -> None:
    log = open_log("memory", tmp_path)
    put(log, lines(b'{"a": 1, "deep": {"b": "x"}}', b'{"a": 5}', b"junk"))
    source = SourceTask("t", LogProvider(log))
    program = dataclasses.replace(parse_scan("seq | select(.a > 0) | {a, deep: .deep.b, offset}"), format="json")
    cursor = TaskCursor(source, program)
    assert cursor.next(Step()) is Code.OK
    _, blob = cursor.task.read(0)
    assert decode_item(Output.ROWS, blob) == [
        {"a": 1, "deep": "x", "offset": 0},
        {"a": 5, "deep": None, "offset": 1},
    ]
    batch = cursor.read()[1]
    assert isinstance(batch, pa.RecordBatch)
    assert batch.column("deep").to_pylist() == ['"x"', None]  # its type is unknown, so it is JSON text and marked so
    assert batch.schema.field("deep").metadata == {b"gauss": b"json"}


def test_a_format_that_there_is_not_is_refused_though_nothing_is_decoded(tmp_path: Path) -> None:
    source = SourceTask("t", LogProvider(open_log("memory", tmp_path)))
    with pytest.raises(ConfigError, match="jsn"):
        TaskCursor(source, parse_scan('seq(format: "jsn")'))


def test_a_hint_says_how_an_aggregate_is_told_the_format(tmp_path: Path) -> None:
    source = SourceTask("t", LogProvider(open_log("memory", tmp_path)))
    with pytest.raises(ConfigError) as refused:
        TaskCursor(source, parse_scan("agg(high: max(.bid))"))
    assert refused.value.hint.endswith("name their format, by --format, or format= over HTTP")


def test_candidates_columns_are_fields_where_there_is_no_format(tmp_path: Path) -> None:
    log = open_log("memory", tmp_path)
    put(log, numbered(0, 9, ts_ms=list(range(9))))
    cursor = TaskCursor(SourceTask("t", LogProvider(log)), parse_scan("seq | select(.ts_ms >= 7) | .offset"))
    assert cursor.next(Step()) is Code.OK
    batch = cursor.read()[1]
    assert isinstance(batch, pa.RecordBatch)
    assert batch.to_pylist() == [{"value": 7}, {"value": 8}]


def test_task_that_is_ended_from_outside_is_panic_from_then_on(tmp_path: Path) -> None:
    world = make_world("memory", tmp_path)
    world.emit_numbers(0, 5)
    number, task = world.engine.reader(lease_seconds=30)
    _, slot = task.slot()
    assert task.scan(slot, world.id, Program(Seq(), Mode.LIVE)) is Code.OK
    assert (number, task) in world.engine.tasks()
    assert world.engine.done(number, Code.REJECTED) is Code.OK
    assert task.next(slot, Step()) is Code.PANIC
    assert world.engine.done(number) is Code.PANIC
    assert world.engine.tasks() == []


def test_a_tables_own_columns_are_what_they_are_beside_fields_that_nothing_declares() -> None:
    table = open_table()
    upsert(table, record("BTC", 5), record("ETH", 7))
    source = SourceTask("t", cast(Provider, TableProvider(table)))
    cursor = TaskCursor(source, parse_scan('seq | select(.key != "ETH" and .version < 9) | {key, version, v}'))
    assert cursor.next(Step()) is Code.OK
    _, blob = cursor.task.read(0)
    assert decode_item(Output.ROWS, blob) == [{"key": "BTC", "version": 1, "v": 5}]
    with pytest.raises(ConfigError, match="needs a number, found string"):
        TaskCursor(source, parse_scan("seq | {a: .key * 2}"))


def test_scan_passes_keys_and_headers_of_its_candidates_on() -> None:
    provider = KeyedProvider()
    provider.append(*((0, b"%d" % number) for number in range(6)))

    def scanned(program: str) -> pa.RecordBatch:
        cursor = TaskCursor(SourceTask("t", provider), parse_scan(program))
        assert cursor.next(Step()) is Code.OK
        return cursor.read()[1]

    assert scanned("seq").equals(keyed_batch(*(b"%d" % number for number in range(6))))
    found = scanned("seq | select(.offset % 2 == 1)")
    assert found.column("key").to_pylist() == [key_of(n) for n in (1, 3, 5)]
    assert found.column("headers").to_pylist() == [headers_of(n) for n in (1, 3, 5)]
