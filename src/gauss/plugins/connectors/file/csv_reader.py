"""Reads csv files in blocks: values as bytes, then converted column by column, so that a bad value costs one row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from gauss.contracts.connector.errors import ConnectorError
from gauss.plugins.connectors.file.json_text import values_of_json
from gauss.plugins.connectors.file.listing import DataFile
from gauss.plugins.connectors.file.reading import Piece, ReadOptions, Reject, check_names, convert_rows, opened
from gauss.plugins.connectors.file.text import exact_type, from_text, is_nested

FIRST_BLOCK_BYTES = 1 << 20
"""What types are inferred from, at least."""
BLOCK_BYTES = 1 << 18
"""Arrow reads some 32 blocks ahead."""
_TOO_SMALL = "straddl"
"""In what Arrow says of a record that is larger than a block."""
_INTEGER = r"^[-+]?\d+$"
_LEADING_ZERO = r"^\s*[-+]?0\d"
_GENERATED = re.compile(r"f\d+")


def read_csv(file: DataFile, schema: pa.Schema, options: ReadOptions, skip: int, reject: Reject) -> Iterator[Piece]:
    """The rows of a file behind its first `skip` records."""
    if not file.size:
        return
    size = BLOCK_BYTES
    while True:
        try:
            for piece in _pieces(file, schema, options, skip, reject=reject, block_bytes=size):
                yield piece
                skip = piece.end
            return
        except pa.ArrowInvalid as error:
            # Blocks are small to save memory, and a record has to fit into one.
            if _TOO_SMALL not in str(error) or size > options.record_bytes:
                raise
            size = max(options.record_bytes, size) + 1


def _pieces(
    file: DataFile, schema: pa.Schema, options: ReadOptions, skip: int, *, reject: Reject, block_bytes: int
) -> Iterator[Piece]:
    bad = _BadLines(options.header)
    end = 0
    for block in _blocks(file, schema, options, bad, block_bytes):
        numbers, end = bad.pass_block(end, block.num_rows, skip, reject)
        rows = block
        if numbers[0] <= skip:
            kept = numbers > skip
            rows, numbers = rows.filter(pa.array(kept)), numbers[kept]
        if rows.num_rows:
            yield Piece(convert_rows(rows, schema, _values, numbers, reject), end)
    bad.pass_block(end, 0, skip, reject, rest=True)


def infer_csv(file: DataFile, options: ReadOptions) -> pa.Schema:
    """The columns of a file, with types that fit its first rows."""
    if not file.size:
        return pa.schema([])
    found = _read_head(file, options).schema
    _check_names(file, found.names)
    exact = _exact_types(file, [each for each in found if _is_number(each.type)], options)
    exact |= {name: pa.string() for name in options.text_columns}
    return pa.schema([each.with_type(exact.get(each.name) or _kept(each.type)) for each in found])


def _kept(kind: pa.DataType) -> pa.DataType:
    """The type of a column for that which Arrow infers: binary is a text with some value that is none."""
    return pa.string() if pa.types.is_null(kind) or pa.types.is_binary(kind) else kind


def _exact_types(file: DataFile, numbers: list[pa.Field], options: ReadOptions) -> dict[str, pa.DataType]:
    """The types of columns whose first values are no plain numbers: texts with leading zeros, such as zip codes, and
    integers beyond 64 bits."""
    if not numbers:
        return {}
    found, head = {}, _read_head(file, options, dict.fromkeys([each.name for each in numbers], pa.string()))
    for field in numbers:
        text = pc.utf8_trim_whitespace(head[field.name].drop_null())
        if _has_leading_zero(text):
            found[field.name] = pa.string()
        elif not pa.types.is_floating(field.type):
            continue
        elif len(text) and pc.all(pc.match_substring_regex(text, _INTEGER)).as_py():
            found[field.name] = exact_type(pc.max(pc.utf8_length(text)).as_py())
    return found


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _has_leading_zero(text: pa.Array | pa.ChunkedArray) -> bool:
    """Whether some value has zeros that a number does not keep. The first, faster test lets most columns pass."""
    likely = pc.or_(pc.starts_with(text, "0"), pc.match_substring_regex(text, r"^[-+\s]"))
    return bool(pc.any(likely).as_py() and pc.any(pc.match_substring_regex(text, _LEADING_ZERO)).as_py())


def _read_head(file: DataFile, options: ReadOptions, types: dict[str, pa.DataType] | None = None) -> pa.Table:
    """The first rows of a file. Read by themselves: of a whole file Arrow reads far ahead."""
    size = _block_bytes(options)
    with opened(file) as data:
        head = data.read(size)
    if len(head) == size:
        head = head[: head.rfind(b"\n") + 1] or head
    return pcsv.read_csv(
        pa.BufferReader(head),
        read_options=pcsv.ReadOptions(use_threads=False, block_size=size, autogenerate_column_names=not options.header),
        parse_options=_parse_options(options, lambda _: "skip"),
        convert_options=pcsv.ConvertOptions(
            column_types=types,
            include_columns=list(types or ()),
            null_values=options.null_text,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


class _BadLines:
    """Rows with another number of columns, by their place among the rows of the file."""

    def __init__(self, header: bool) -> None:
        self._header = header
        self._found: list[tuple[int, Any]] = []

    def __call__(self, row: Any) -> str:
        self._found.append((row.number - self._header, row))
        return "skip"

    def pass_block(
        self, first: int, count: int, skip: int, reject: Reject, *, rest: bool = False
    ) -> tuple[np.ndarray[Any, Any], int]:
        """The numbers of the next `count` rows, which come after record `first`, and the number of the last record.
        Bad rows among them, with `rest` all, are rejected."""
        end, passed = first + count, []
        while self._found and (self._found[0][0] <= end + 1 or rest):
            number, row = self._found.pop(0)
            passed.append(number)
            end += 1
            if number > skip:
                line = pa.record_batch({"line": pa.array([row.text], pa.string())})
                reject(number, line, f"expected {row.expected_columns} columns, found {row.actual_columns}")
        return np.setdiff1d(np.arange(first + 1, end + 1), np.array(passed, dtype=np.int64)), end


def _blocks(
    file: DataFile, schema: pa.Schema, options: ReadOptions, bad: _BadLines, block_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Rows as bytes."""
    names = _names(file, schema, options)
    _check_names(file, names)
    check_names(file, names, schema, options, lambda: infer_csv(file, options))
    with opened(file) as data:
        reader = pcsv.open_csv(
            data,
            read_options=pcsv.ReadOptions(
                use_threads=False,
                block_size=block_bytes,
                column_names=names,
                skip_rows_after_names=int(options.header),
            ),
            parse_options=_parse_options(options, bad),
            convert_options=pcsv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(names, pa.binary()),
                include_columns=[each for each in names if each in schema.names] or None,
                null_values=options.null_text,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        for block in reader:
            if block.num_rows:
                yield block


def _names(file: DataFile, schema: pa.Schema, options: ReadOptions) -> list[str]:
    """The names of the columns: of the header, else of the schema by place."""
    if not options.header and not all(_GENERATED.fullmatch(each) for each in schema.names):
        return list(schema.names)
    return list(_read_head(file, options).schema.names)


def _block_bytes(options: ReadOptions) -> int:
    """A record has to fit into a block."""
    return max(FIRST_BLOCK_BYTES, options.record_bytes)


def _parse_options(options: ReadOptions, handler: Any) -> pcsv.ParseOptions:
    return pcsv.ParseOptions(
        delimiter=options.delimiter,
        quote_char=options.quote,
        newlines_in_values=True,
        invalid_row_handler=handler,
    )


def _check_names(file: DataFile, names: list[str]) -> None:
    if twice := sorted({each for each in names if names.count(each) > 1}):
        raise ConnectorError.schema(
            "SAME_COLUMN",
            f"{file.path}: columns have names of their own, found {', '.join(map(repr, twice))} twice",
            hint="rename a column in the header, or set `header = false`",
        )


def _values(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values of cells; raises ArrowInvalid."""
    text = cells.cast(pa.string())
    if _is_number(kind) and _has_leading_zero(text):
        raise pa.ArrowInvalid(
            "a number has no leading zeros, found some; to keep them, name the column in `text_columns` of the source"
        )
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        inner = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind.value_type
        return _wrapped(_values(cells, inner), kind)
    return values_of_json(text, kind) if is_nested(kind) else from_text(text, kind)


def _wrapped(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, values)
    if pa.types.is_dictionary(kind):
        return values.dictionary_encode().cast(kind)
    return pc.run_end_encode(values, run_end_type=kind.run_end_type)
