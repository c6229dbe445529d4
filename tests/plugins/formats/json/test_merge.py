"""Merging columns into JSON objects: other members stay byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gauss.plugins.formats.json.codec import JsonFormat
from gauss.plugins.formats.json.spec import JsonConfig


def merged(rest: list[bytes], **columns: list[Any]) -> list[bytes]:
    names = [name.replace("__", ".") for name in columns]
    rows = pa.RecordBatch.from_arrays([pa.array(values) for values in columns.values()], names=names)
    found: list[bytes] = JsonFormat(JsonConfig()).merge_batch(pa.array(rest, pa.binary()), rows).to_pylist()
    return found


def test_fields_are_replaced_in_place_or_added_at_the_end() -> None:
    assert merged([b'{"a":1,"b":1.10,"c":[ 1 ]}'], a=["x"], d=[2.5]) == [b'{"a":"x","b":1.10,"c":[ 1 ],"d":2.5}']


def test_numbers_that_python_can_not_hold_stay_as_they_are() -> None:
    rest = b'{"big":123456789012345678901234567890,"exact":0.1000000000000000000001}'
    assert merged([rest], n=[1]) == [rest[:-1] + b',"n":1}']


def test_a_null_adds_nothing_but_takes_a_value_away() -> None:
    assert merged([b'{"a":1}', b"{}"], a=pa.array([None, None], pa.string())) == [b'{"a":null}', b"{}"]


def test_paths_reach_into_objects_and_replace_what_is_none() -> None:
    records = [b'{"o":{"x":1,"y":2}}', b'{"o":7}', b"{}"]
    name = "$.o.x"
    rows = pa.RecordBatch.from_arrays([pa.array([5, 5, None], pa.int64())], names=[name])
    found = JsonFormat(JsonConfig()).merge_batch(pa.array(records, pa.binary()), rows).to_pylist()
    assert found == [b'{"o":{"x":5,"y":2}}', b'{"o":{"x":5}}', b"{}"]


def test_raw_columns_are_put_in_as_they_are() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(['{"z": 1}', None]), pa.array([1, 2])], names=["_raw:$.o.e", "n"])
    records = pa.array([b'{"o":{"e":[1]}}', b'{"o":{"e":[1]}}'], pa.binary())
    found = JsonFormat(JsonConfig()).merge_batch(records, rows).to_pylist()
    assert found == [b'{"o":{"e":{"z": 1}},"n":1}', b'{"o":{"e":null},"n":2}']


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=5), st.text(min_size=1, max_size=3), st.text())
def test_all_but_the_named_field_is_equal(record: dict[str, Any], name: str, value: str) -> None:
    if name.startswith(("$.", "_raw:")):
        return
    rows = pa.RecordBatch.from_arrays([pa.array([value], pa.string())], names=[name])
    [found] = (
        JsonFormat(JsonConfig()).merge_batch(pa.array([json.dumps(record).encode()], pa.binary()), rows).to_pylist()
    )
    assert json.loads(found) == record | {name: value}
