"""Many lines at once, by polars; whatever is not plain is left to the line codec.

Plain is a line without quotes and line breaks, with as many delimiters as it should have, whose cells each match the
usual spelling of their type: only such text is handed to a cast, so that the cast can't be more lenient than the codec.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import FieldType, SourceField
from gauss.plugins.formats.columns import Columns
from gauss.plugins.formats.csv.line import LineCodec
from gauss.plugins.formats.values import RANGES

_REAL = r"^-?[0-9]{1,17}(\.[0-9]{1,17})?$"
_TIME = r"^[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?Z$"


def decode(data: pa.BinaryArray, fields: list[SourceField], codec: LineCodec) -> tuple[np.ndarray, Columns]:
    """(which records are plain, their columns)."""
    plain = _plain(data, len(fields), codec)
    kept = np.flatnonzero(plain)
    if not len(kept):
        return plain, {}
    chosen = data if len(kept) == len(data) else data.take(pa.array(kept))
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(chosen)], pa.int32()), chosen), b"\n")
    names = [f"c{index}" for index in range(len(fields))]
    frame = pl.read_csv(
        joined[0].as_buffer().to_pybytes(),
        has_header=False,
        separator=codec.delimiter.decode(),
        quote_char=None,
        schema=dict.fromkeys(names, pl.String),
        empty_string_is_null=False,
        infer_schema=False,
        eol_char="\n",
    )
    assert frame.height == len(kept), "each plain line is one row"
    bad = np.zeros(len(kept), bool)
    columns: Columns = {}
    for name, field in zip(names, fields, strict=True):
        columns[field.name], odd = _column(frame[name], field.field_type, codec.null.decode())
        bad |= odd
    if codec.header is not None:
        bad |= _header(chosen, codec)
    if bad.any():
        plain[kept[bad]] = False
        columns = {name: values.filter(pa.array(~bad)) for name, values in columns.items()}
    return plain, columns


def _plain(data: pa.BinaryArray, cells: int, codec: LineCodec) -> np.ndarray:
    plain: np.ndarray = pc.count_substring(data, codec.delimiter).to_numpy(zero_copy_only=False) == cells - 1
    lengths = pc.binary_length(data).to_numpy(zero_copy_only=False)
    plain &= lengths > 0  # an empty line is no row to polars
    for mark in (codec.quote, b"\n", b"\r"):
        if mark:
            plain &= pc.count_substring(data, mark).to_numpy(zero_copy_only=False) == 0
    try:
        data.cast(pa.string())
    except pa.ArrowInvalid:
        plain &= np.fromiter((_is_text(record) for record in data.to_pylist()), bool, len(data))
    return plain


def _is_text(record: bytes) -> bool:
    try:
        record.decode()
    except UnicodeDecodeError:
        return False
    return True


def _header(data: pa.BinaryArray, codec: LineCodec) -> np.ndarray:
    assert codec.header is not None
    found: np.ndarray = pc.equal(data, codec.delimiter.join(codec.header)).to_numpy(zero_copy_only=False)
    return found


def _column(text: pl.Series, type_: FieldType, null: str) -> tuple[pa.Array, np.ndarray]:
    """(values, which are left to the codec)."""
    text = text.fill_null("")
    absent = text == null
    present = text.set(absent, None)
    kind, target = type_.name, arrow_type(type_)
    if kind in ("string", "varchar"):
        return present.to_arrow().cast(target), np.zeros(len(text), bool)
    made: Any
    if kind in RANGES:
        low, high = RANGES[kind]
        fine = present.str.contains(r"^-?[0-9]{1,18}$")
        number = present.set(~fine, None).cast(pl.Int64)
        inside = number.is_between(low, min(high, 2**63 - 1))
        made = number.set(~inside, None)
    elif kind in ("float", "double"):
        fine = present.str.contains(_REAL)
        made = present.set(~fine, None).cast(pl.Float64)
        if kind == "float":
            made = made.set(made.abs() > 3.4e38, None)
    elif kind == "bool":
        made = present.replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)
    elif kind == "decimal":
        precision, scale = type_.attrs["precision"], type_.attrs.get("scale", 0)
        before = max(precision - scale, 1) if precision > scale else 0
        shape = rf"^-?[0-9]{{1,{before}}}" if before else "^-?0"
        fine = present.str.contains(shape + (rf"(\.[0-9]{{1,{scale}}})?$" if scale else "$"))
        exact = present.set(~fine, None).to_arrow().cast(pa.string()).cast(target)
        return exact, _odd(exact.is_null().to_numpy(zero_copy_only=False), absent)
    elif kind == "timestamp" and type_.attrs.get("unit", "iso") == "iso" and type_.attrs.get("precision", 6) <= 6:
        fine = present.str.contains(_TIME)
        made = present.set(~fine, None).str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="us", strict=False)
        step = 10 ** (6 - type_.attrs.get("precision", 6))
        whole = made.to_physical()
        made = (whole - whole % step).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    elif kind == "date":
        fine = present.str.contains(r"^[0-9]{4}-[01][0-9]-[0-3][0-9]$")
        made = present.set(~fine, None).str.to_date("%Y-%m-%d", strict=False)
    else:
        return pa.nulls(len(text), target), ~absent.to_numpy()
    return made.to_arrow().cast(target), _odd(made.is_null().to_numpy(), absent)


def _odd(missing: np.ndarray, absent: pl.Series) -> np.ndarray:
    """Cells that hold something, of which the cast made nothing."""
    found: np.ndarray = missing & ~absent.to_numpy()
    return found
