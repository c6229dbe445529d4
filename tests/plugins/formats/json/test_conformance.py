"""json: the conformance suite on each of its decoders; records that the walk accepts are decoded exactly."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.field_types import arrow_schema
from gauss.plugins.formats.json import walk_decoder
from gauss.plugins.formats.json.codec import JsonFormat
from gauss.plugins.formats.json.plan import Found
from gauss.plugins.formats.json.spec import JsonConfig
from gauss.plugins.formats.json.walk import WALK
from helpers import format_values as v
from helpers.cases import cases
from helpers.format_conformance import SETTINGS, FormatCase, FormatConformance

REAL = st.floats(allow_nan=False, allow_infinity=False)
FIELDS: dict[str, tuple[Any, st.SearchStrategy[Any], Any]] = {
    "symbol": ("string", v.TEXT, v.MEGABYTE),
    "bid": ("double", REAL, 5e-324),
    "small": ("float", st.floats(width=32, allow_nan=False, allow_infinity=False), -0.0),
    "qty": ("int64", v.INT64, -(2**63)),
    "tiny": ("int8", v.INT8, -128),
    "big": ("uint64", v.UINT64, 2**64 - 1),
    "open": ("bool", st.booleans(), False),
    "price": ({"name": "decimal", "attrs": {"precision": 38, "scale": 8}}, v.DECIMAL_38_8, v.BIG_DECIMAL),
    "at": ("timestamp", v.TIMES, dt.datetime(1, 1, 1, tzinfo=dt.UTC)),
    "ms": (
        {"name": "timestamp", "attrs": {"precision": 3, "unit": "ms"}},
        v.MILLIS,
        dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC),
    ),
    "day": ("date", v.DATES, dt.date(9999, 12, 31)),
    "raw": ("bytes", st.binary(max_size=5), b"\0\xff"),
    "any": ("json", st.recursive(v.INT32 | v.TEXT, lambda inner: st.lists(inner, max_size=2)).map(json.dumps), "[]"),
    "tags": ({"name": "array", "attrs": {"element": "string"}}, st.lists(st.none() | v.TEXT, max_size=3), []),
    "$.o.id": ("int64", v.INT64, 0),
    "$.o.name": ("string", v.TEXT, ""),
}
WALKED = [name for name in FIELDS if name not in ("raw", "tags")]
BAD = [
    *[(b"", "bad_json"), (b"[1]", "not_object"), (b'{"qty":1.0}', "wrong_type"), (b'{"tiny":128}', "out_of_range")],
    *[(b'{"price":1e-9}', "out_of_range"), (b'{"at":"2026-02-30T00:00:00Z"}', "wrong_type")],
    *[(b'{"symbol":"\xff"}', "bad_utf8"), (b'{"any":{"a":}}', "bad_json"), (b'{"o":[]}', "wrong_type")],
    *[(b'{"day":"2026-1-2"}', "wrong_type"), (b'{"small":1e39}', "out_of_range"), (b'{"small":1e400}', "out_of_range")],
]
UNFIT = {"tiny": 128, "big": -1, "price": Decimal("1E-9"), "any": "{"}
VALUES = st.sampled_from(
    [
        *("1", "-0", "-1", "1.5", "1e2", "127", "128", "0.1", "123456789012345678", "1234567890123456789", "01", "1."),
        *('"x"', '"\\u0041"', '""', "true", "false", "null", "nul", "{}", "[]", "[1,]", '{"id":1}', '{"id":1,"id":2}'),
        *('"2026-01-02T03:04:05Z"', '"2026-01-02T03:04:05.1Z"', '"2026-02-29T03:04:05.123456Z"', '"2026-01-02"'),
        *('"2026-01-02 03:04:05"', '"2026-01-02T24:00:00Z"', '"0000-01-01"', '"2024-02-29"', '"2023-02-29"', '"é"'),
    ]
)
NAMES = st.sampled_from([*(name.removeprefix("$.").split(".")[0] for name in FIELDS), "extra"])
OBJECTS = st.lists(st.tuples(NAMES, VALUES, st.sampled_from(["", " ", "\n"])), max_size=5).map(
    lambda members: ("{" + ",".join(f'{space}"{name}":{space}{value}' for name, value, space in members) + "}").encode()
)


def make(names: list[str]) -> JsonFormat:
    fields = [{"name": name, "type": FIELDS[name][0]} for name in names]
    return JsonFormat(JsonConfig.model_validate({"fields": fields}))


def _concerns(record: bytes, names: list[str]) -> bool:
    name = record.split(b'"')[1].decode() if b'"' in record else ""
    return not name or any(name == found.removeprefix("$.").split(".")[0] for found in names)


def case(names: list[str]) -> FormatCase:
    edge = {name: FIELDS[name][2] for name in names}
    return FormatCase(
        make=lambda: make(names),
        rows=st.fixed_dictionaries({name: st.none() | FIELDS[name][1] for name in names}),
        edges=[edge, dict.fromkeys(names)],
        records=OBJECTS,
        unfit=[{**edge, name: value} for name, value in UNFIT.items() if name in names],
        bad=[(record, reason) for record, reason in BAD if _concerns(record, names)],
    )


@pytest.fixture
def compiled() -> None:
    """Compiles the walk, as after many records."""
    WALK.compile()


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WALK, "_compiled", None)


@pytest.mark.usefixtures("uncompiled")
class TestJson(FormatConformance):
    case = case(list(FIELDS))


@pytest.mark.usefixtures("compiled")
class TestJsonWalked(FormatConformance):
    case = case(WALKED)


@pytest.mark.usefixtures("uncompiled")
class TestJsonByPolars(FormatConformance):
    case = case([name for name in WALKED if name not in ("small", "price", "at", "ms", "day", "any")])


def vouched(records: list[bytes], names: list[str]) -> Found:
    format_ = make(names)
    schema = format_.schema()
    assert schema is not None
    plan = format_._plan(arrow_schema(schema.fields))
    assert plan.tables is not None
    found = walk_decoder.decode(pa.array(records, pa.binary()), plan.columns, plan.tables)
    assert found is not None
    return found


@pytest.mark.usefixtures("compiled")
@settings(SETTINGS, max_examples=cases(150))
@given(OBJECTS)
def test_the_walk_alone_never_vouches_for_a_bad_record(record: bytes) -> None:
    found = vouched([record], WALKED)
    if found.suspects is None:
        assert [values[0].as_py() for values in found.columns] == list(make(WALKED).decode(record).values())


@pytest.mark.usefixtures("compiled")
def test_plain_records_are_vouched_for() -> None:
    plain: dict[str, Any] = {
        "symbol": "é",
        "bid": 1234.5678,
        "qty": -5,
        "tiny": 1,
        "big": 7,
        "open": True,
        "price": 1.5,
    }
    plain |= {"at": "2026-01-02T03:04:05.678Z", "ms": 1700000000123, "day": "2024-02-29", "any": {"a": [1, {"b": "c"}]}}
    plain |= {"o": {"other": [[]], "id": 1, "name": "n"}, "extra": {"x": [1, "y", None, False]}}
    found = vouched([json.dumps(plain, ensure_ascii=False).encode(), b"{}", b' {"qty" : null } '], WALKED)
    assert found.suspects is None
    assert found.columns[WALKED.index("price")][0].as_py() == Decimal("1.5")
    assert found.columns[WALKED.index("any")][0].as_py() == '{"a": [1, {"b": "c"}]}'


@pytest.mark.usefixtures("compiled")
def test_doubles_are_the_nearest_ones() -> None:
    random = np.random.default_rng(5)
    reals = random.random(40_000) * 10.0 ** random.integers(-3, 16, 40_000)
    halves = (random.integers(2**53, 10**17, 10_000) | 1).astype(str)
    texts = [np.format_float_positional(real, trim="0") for real in reals] + [f"{half}.5" for half in halves]
    found = vouched([f'{{"bid":{text}}}'.encode() for text in texts], ["bid"])
    kept = np.ones(len(texts), bool) if found.suspects is None else ~found.suspects
    assert kept[:40_000].mean() > 0.9
    exact = np.array([float(text) for text in texts])
    assert (found.columns[0].to_numpy(zero_copy_only=False)[kept] == exact[kept]).all()
