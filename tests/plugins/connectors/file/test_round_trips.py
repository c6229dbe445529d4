"""Rows of every type are read back unchanged from files of every format."""

from __future__ import annotations

import datetime
import decimal
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.connector.stream import StreamLimits
from plugins.connectors.file.syncing import FORMATS, NAMES, Wanted, emits, move, read, writes

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DAY_S = 86_400


def _stamps(unit: str, zone: str | None = None) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    return pa.timestamp(unit, zone), st.integers(-(2**63) + 1, 2**63 - 1)


def _decimals(digits: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    context = decimal.Context(prec=100)
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda n: decimal.Decimal(n).scaleb(-scale, context))


SCALARS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.null(), st.none()),
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float16(), st.floats(width=16)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.decimal128(38, 10), _decimals(38, 10)),
    (pa.decimal128(20, 20), _decimals(20, 20)),
    (pa.decimal256(76, 0), _decimals(76, 0)),
    (pa.string(), TEXT | st.sampled_from(["", "\\N", "null", "NaN", '"', ",", "\r\n", "a\tb\x00", " 1 "])),
    (pa.large_string(), TEXT),
    (pa.string_view(), TEXT),
    (pa.binary(), st.binary(max_size=8)),
    (pa.large_binary(), st.binary(max_size=8)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.date64(), st.integers(-10_000, 10_000).map(lambda day: day * DAY_S * 1000)),
    (pa.time32("s"), st.integers(0, DAY_S - 1)),
    (pa.time32("ms"), st.integers(0, DAY_S * 1000 - 1)),
    (pa.time64("us"), st.integers(0, DAY_S * 10**6 - 1)),
    (pa.time64("ns"), st.integers(0, DAY_S * 10**9 - 1)),
    (pa.timestamp("s"), st.integers(-(2**50), 2**50)),
    _stamps("ms"),
    _stamps("us"),
    _stamps("ns"),
    _stamps("us", "UTC"),
    _stamps("ns", "Europe/Zurich"),
    (pa.duration("us"), st.integers(-(2**63), 2**63 - 1)),
    (pa.dictionary(pa.int32(), pa.string()), TEXT),
]
NESTED: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.list_(pa.int64()), st.lists(st.none() | st.integers(-9, 9), max_size=3)),
    (pa.large_list(pa.string()), st.lists(st.none() | TEXT, max_size=3)),
    (pa.list_(pa.float32(), 2), st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=2)),
    (
        pa.struct([("a", pa.int64()), ("b\"'é", pa.list_(pa.string()))]),
        st.fixed_dictionaries({"a": st.none() | st.integers(0, 9), "b\"'é": st.none() | st.lists(TEXT, max_size=2)}),
    ),
    (
        pa.map_(pa.string(), pa.decimal128(5, 2)),
        st.lists(st.tuples(TEXT, st.none() | _decimals(5, 2)), max_size=3),
    ),
    (
        pa.list_(pa.struct([("at", pa.timestamp("us", "UTC")), ("raw", pa.binary())])),
        st.lists(st.fixed_dictionaries({"at": st.integers(0, 2**50), "raw": st.binary(max_size=4)}), max_size=2),
    ),
]
INTERVALS = (
    pa.month_day_nano_interval(),
    st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)),
)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(kind) and kind != pa.month_day_nano_interval():
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, width).cast(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


@st.composite
def rows(draw: st.DrawFn, kinds: list[tuple[pa.DataType, st.SearchStrategy[Any]]]) -> list[pa.RecordBatch]:
    """Batches of one schema: a column of each type, and nulls anywhere."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    fields = [pa.field(f"{number}-{kind}", kind) for number, (kind, _) in enumerate(kinds)]
    fields[0] = pa.field('a"b,é\n\\', kinds[0][0])
    return [
        pa.RecordBatch.from_arrays(
            [_array(draw(st.lists(st.none() | values, min_size=size, max_size=size)), kind) for kind, values in kinds],
            schema=pa.schema(fields),
        )
        for size in sizes
    ]


def round_trip(batches: list[pa.RecordBatch], config: dict[str, str]) -> pa.Table:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "out")
        move(emits(*batches), writes(place, **config), Wanted(schema=batches[0].schema)).ok()
        return read(place, None, delimiter=config.get("delimiter", ",")).table()


def same(found: pa.Table, batches: list[pa.RecordBatch]) -> None:
    """Equal with their types, and also where NaN is not equal to itself."""
    wanted = pa.Table.from_batches(batches)
    assert found.schema.equals(wanted.schema)
    for name in wanted.schema.names:
        given, got = wanted[name].combine_chunks(), found[name].combine_chunks()
        if pa.types.is_dictionary(given.type):
            given, got = given.cast(given.type.value_type), got.cast(got.type.value_type)
        if pa.types.is_floating(given.type):
            assert given.is_null().equals(got.is_null()) and repr(given.to_pylist()) == repr(got.to_pylist()), name
        else:
            assert got.equals(given), name


@pytest.mark.parametrize("config", FORMATS, ids=NAMES)
@settings(max_examples=8)
@given(batches=rows(SCALARS))
def test_scalars_of_every_type_are_read_back_equal(batches: list[pa.RecordBatch], config: dict[str, str]) -> None:
    same(round_trip(batches, config), batches)


@pytest.mark.parametrize("config", FORMATS[::2], ids=NAMES[::2])
@settings(max_examples=8)
@given(batches=rows(NESTED))
def test_nested_values_are_read_back_equal(batches: list[pa.RecordBatch], config: dict[str, str]) -> None:
    same(round_trip(batches, config), batches)


@pytest.mark.parametrize("config", [each for each in FORMATS if each["format"] != "parquet"][::2], ids=str)
@settings(max_examples=8)
@given(batches=rows([INTERVALS]))
def test_intervals_are_read_back_equal_if_the_format_supports_them(
    batches: list[pa.RecordBatch], config: dict[str, str]
) -> None:
    same(round_trip(batches, config), batches)


def test_text_files_are_human_readable(tmp_path: Path) -> None:
    batch = pa.record_batch(
        {
            "id": pa.array([1, None], pa.int64()),
            "name": pa.array(['a"b', None], pa.string()),
            "at": pa.array([datetime.datetime(2026, 1, 31, 12), None], pa.timestamp("ms", "UTC")),
            "raw": pa.array([b"\x00\xff", None], pa.binary()),
            "price": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(9, 2)),
            "tags": pa.array([["x", None], None], pa.list_(pa.string())),
            "ratio": pa.array([float("inf"), None], pa.float64()),
        }
    )
    text = {}
    for form in ("csv", "jsonl"):
        move(emits(batch), writes(tmp_path / form, format=form), Wanted(schema=batch.schema)).ok()
        (file,) = (tmp_path / form / "s").glob(f"*.{form}")
        text[form] = file.read_text().splitlines()
    assert text["csv"] == [
        '"id","name","at","raw","price","tags","ratio"',
        '1,"a""b",2026-01-31T12:00:00.000Z,"AP8=",1.50,"[""x"",null]",Infinity',
        r"\N,\N,\N,\N,\N,\N,\N",
    ]
    assert text["jsonl"] == [
        r'{"id":1,"name":"a\"b","at":"2026-01-31T12:00:00.000Z","raw":"AP8=","price":"1.50","tags":["x",null],'
        r'"ratio":"Infinity"}',
        '{"id":null,"name":null,"at":null,"raw":null,"price":null,"tags":null,"ratio":null}',
    ]


@pytest.mark.parametrize("config", FORMATS, ids=NAMES)
def test_large_files_are_split_and_batches_stay_within_the_limit(tmp_path: Path, config: dict[str, str]) -> None:
    random = Random(1)
    batches = [
        pa.record_batch(
            {
                "n": pa.array(range(first, first + 500)),
                "text": pa.array([random.randbytes(45).hex() for _ in range(500)]),
            }
        )
        for first in range(0, 5_000, 500)
    ]
    move(emits(*batches), writes(tmp_path, max_file_bytes="60KB", **config), Wanted(schema=batches[0].schema)).ok()
    assert len([each for each in (tmp_path / "s").iterdir() if each.is_file()]) >= 2
    wanted = Wanted(limits=StreamLimits(max_batch_bytes=20_000))
    kept = read(tmp_path, wanted, delimiter=config.get("delimiter", ","))
    assert kept.table()["n"].to_pylist() == list(range(5_000))
    assert max(each.nbytes for each in kept.batches) <= 20_000


@pytest.mark.parametrize("kind", [pa.month_day_nano_interval(), pa.decimal128(5, -2)], ids=str)
def test_type_that_the_format_lacks_is_refused_with_its_name(tmp_path: Path, kind: pa.DataType) -> None:
    batch = pa.record_batch({"gap": pa.nulls(1, kind)})
    moved = move(emits(batch), writes(tmp_path, format="parquet"))
    assert moved.error.code == "NO_TYPE" and "'gap'" in moved.error.message and "parquet" in moved.error.message
