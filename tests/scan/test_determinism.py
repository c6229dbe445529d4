"""Codes, bytes and fuel depend only on the records, the program and the steps: not on the backend, the batches in which
records were appended, a restart, a compaction, or how the executor fetches."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.cursor import Code, Output, Step
from gauss.scan import row_executor
from gauss.scan.program.parse import parse_scan
from helpers.cases import cases
from helpers.scan_cases import CASES, Answer, Case
from helpers.scan_worlds import LogWorld, Row, World, doc, make_world

TEXTS = {
    "plain": ("seq", "range(from: 2)", "range(ts: 130, 400)", "point(last)"),
    "staged": (
        "seq | select(.n % 3 == 0) | {n, symbol}",
        "seq | select(.n < 0) | {n}",
        'seq | select(.symbol == "BTC")',
        "seq | {symbol, half: .bid / 2, gone}",
    ),
    "agg": (
        "agg(rows: count)",
        "agg(total: sum(.n), mean: avg(.n), low: min(.symbol), high: max(.bid))",
        "agg(s: sum(.bid)) | {s, more: .s * 2}",
    ),
}
SCALARS = {"staged": ("seq | .symbol", "seq | select(.n > 5) | .bid"), "agg": ("agg(mean: avg(.n)) | .mean",)}
TABLE_VIEWS = {"range(from: 2)": 'range(key: "k2", null)', "point(last)": 'point("k3")'}

records = st.lists(st.tuples(st.integers(-3, 2**60), st.integers(0, 60), st.booleans()), min_size=1, max_size=50)
portions = st.lists(st.integers(1, 20), min_size=1, max_size=5)
steps = st.lists(st.builds(Step, st.integers(1, 20), st.integers(1, 900)), min_size=1, max_size=12)
fuels = st.sampled_from([(10_000, 1 << 40), (40, 1 << 40), (10_000, 500), (10_000, 3_000)])


def _docs(rows: list[tuple[int, int, bool]]) -> list[Row]:
    return [
        {**doc(number), "k": f"k{number % 7}", "symbol": ("BTC" * width)[:width], "gone": gone}
        for number, width, gone in rows
    ]


def _filled(name: str, folder: Path, docs: list[Row], sizes: list[int]) -> World:
    world, at, turn = make_world(name, folder), 0, 0
    while at < len(docs):
        size = sizes[turn % len(sizes)]
        world.emit(*docs[at : at + size])
        at, turn = at + size, turn + 1
    return world


def _answers(
    world: World, asked: tuple[str, Output], text: str, taken: list[Step], fuel: tuple[int, int]
) -> tuple[Code, list[Answer]]:
    kind, output = asked
    case = Case(world, kind, output)
    case.program = parse_scan(text, output=output)
    case.limit(max_fuel_item=fuel[0], max_fuel_scan=fuel[1])
    slot = world.task()
    _, number = slot.slot()
    code = slot.scan(number, world.id, case.program)
    slot.done()
    found: list[Answer] = case.answers(taken) if not code else []
    return code, found


@settings(max_examples=cases(100), deadline=None)
@given(
    rows=records,
    one=portions,
    other=portions,
    taken=steps,
    case=st.sampled_from(CASES),
    pick=st.integers(0, 3),
    fuel=fuels,
    fewest=st.integers(1, 8),
)
def test_logs_answer_alike_whatever_the_backend_the_portions_and_restarts(
    *,
    rows: list[tuple[int, int, bool]],
    one: list[int],
    other: list[int],
    taken: list[Step],
    case: tuple[str, Output],
    pick: int,
    fuel: tuple[int, int],
    fewest: int,
) -> None:
    kind, output = case
    texts = SCALARS[kind] if output is Output.SCALAR else TEXTS[kind]
    text, docs = texts[pick % len(texts)], _docs(rows)
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, object] = {}
        names = ("memory", "file", "rolled") if output is Output.CHUNKS else ("reference", "memory", "file", "rolled")
        for name in names:
            for number, sizes in enumerate((one, other)):
                world = _filled(name, Path(folder) / f"{name}-{number}", docs, sizes)
                found[f"{name} in portions of {sizes}"] = _answers(world, case, text, taken, fuel)
                if isinstance(world, LogWorld) and name != "memory":
                    again = world.reopened()
                    found[f"{name} after a restart"] = _answers(again, case, text, taken, fuel)
                    again.log.close()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(row_executor, "FEWEST_CANDIDATES", fewest)
            patch.setattr(row_executor, "MOST_CANDIDATES", fewest)
            patch.setattr(row_executor, "FEWEST_BYTES", 1)
            world = _filled("memory", Path(folder) / "small", docs, other)
            found[f"{fewest} candidates at a time"] = _answers(world, case, text, taken, fuel)
    first = next(iter(found.values()))
    assert {name: each == first for name, each in found.items()} == dict.fromkeys(found, True)


@settings(max_examples=cases(60), deadline=None)
@given(
    rows=records,
    one=portions,
    other=portions,
    taken=steps,
    case=st.sampled_from([each for each in CASES if each[1] is not Output.CHUNKS]),
    pick=st.integers(0, 3),
    fuel=fuels,
)
def test_tables_answer_alike_whatever_the_portions_and_compactions(
    *,
    rows: list[tuple[int, int, bool]],
    one: list[int],
    other: list[int],
    taken: list[Step],
    case: tuple[str, Output],
    pick: int,
    fuel: tuple[int, int],
) -> None:
    kind, output = case
    texts = SCALARS[kind] if output is Output.SCALAR else TEXTS[kind]
    text, docs = texts[pick % len(texts)], _docs(rows)
    found = []
    for sizes in (one, other):
        world = _filled("table", Path(), docs, sizes)
        found.append(_answers(world, case, TABLE_VIEWS.get(text, text), taken, fuel))
    world.compact()
    found.append(_answers(world, case, TABLE_VIEWS.get(text, text), taken, fuel))
    assert found == [found[0]] * 3


def test_columnar_batch_holds_its_own_rows_alone(tmp_path: Path) -> None:
    world = make_world("memory", tmp_path)
    secret = b"THE NEXT RECORD"
    world.emit(*({**doc(number), "symbol": secret.decode()} if number == 8 else doc(number) for number in range(16)))
    for text in ("seq", "seq | {symbol, n, gone}"):
        program = parse_scan(text, output=Output.COLUMNAR)
        assert secret not in world.read(program).golden(8)[0][2]
        short = make_world("memory", tmp_path)
        short.emit_numbers(0, 8)
        assert world.read(program).golden(8) == short.read(program).golden(8)


@pytest.mark.parametrize("text", ["seq | {{x: {}}}", "seq | {}", "seq | {{x: if .n > 2 then {} else 1.5 end}}"])
def test_an_earlier_program_does_not_decide_what_a_literal_is(tmp_path: Path, text: str) -> None:
    world = make_world("memory", tmp_path)
    world.emit_numbers(0, 4)
    found = {}
    for literal in ("-0.0", "0.0", "0", "1", "1.0", "true", "false", "null"):
        if "if" in text and literal in ("true", "false"):
            continue
        found[literal] = world.read(parse_scan(text.format(literal))).golden(10)[0][2]
        alone = make_world("memory", tmp_path)
        alone.emit_numbers(0, 4)
        assert found[literal] == alone.read(parse_scan(text.format(literal))).golden(10)[0][2], literal
    assert msgspec.msgpack.encode(-0.0) in found["-0.0"]
    assert msgspec.msgpack.encode(-0.0) not in found["0.0"]
