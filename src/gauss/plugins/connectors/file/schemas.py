"""The columns of a stream of files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from gauss.contracts.connector.arrow_types import arrow_schema
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.stream import ArrowIpcSchema, Columns, SchemaHint
from gauss.plugins.connectors.file.columnar_reader import infer_arrow, infer_parquet
from gauss.plugins.connectors.file.csv_reader import infer_csv
from gauss.plugins.connectors.file.io_errors import file_errors
from gauss.plugins.connectors.file.jsonl_reader import infer_jsonl
from gauss.plugins.connectors.file.listing import DataFile, FileStream
from gauss.plugins.connectors.file.reading import ReadOptions

FIRST_FILES = LAST_FILES = 10
"""Files whose columns are looked at. The first ones decide about types; new columns come with new files."""


def named_schema(hint: SchemaHint) -> pa.Schema | None:
    """The columns that the host names; None if it names none."""
    if isinstance(hint, ArrowIpcSchema):
        return pa.ipc.read_schema(pa.py_buffer(hint.schema)).remove_metadata()
    if isinstance(hint, Columns) and hint.columns:
        return arrow_schema(hint.columns)
    return None


def stream_schema(stream: FileStream, options: ReadOptions) -> pa.Schema:
    """The columns that the destination has stored, else those of the first files with new ones of the last."""
    if (kept := read_schema(stream.schema_file)) is not None:
        return kept
    found = first_schema(stream, options)
    for each in _readable(stream.files[FIRST_FILES:][-LAST_FILES:], options):
        for field in each:
            found = found if field.name in found.names else found.append(field)
    return found


def first_schema(stream: FileStream, options: ReadOptions) -> pa.Schema:
    """The columns of the first files; raises ConnectorError."""
    found = _readable(stream.files[:FIRST_FILES], options)
    try:
        return pa.unify_schemas(found, promote_options="permissive")
    except pa.ArrowException as error:
        if all(each.kind.format == "csv" for each in stream.files[:FIRST_FILES]):
            return _as_text(found)
        raise ConnectorError.schema(
            "DIFFERENT_COLUMNS",
            f"{stream.folder}: the first files of stream {stream.name!r} have columns of different types: {error}",
            hint="move the files into folders of their own",
        ) from error


def _as_text(schemas: list[pa.Schema]) -> pa.Schema:
    """The columns of csv files; those of which the files have different types are text, as everything in them is."""
    whole = pa.schema([])
    for each in (field for schema in schemas for field in schema):
        if each.name not in whole.names:
            whole = whole.append(each)
            continue
        try:
            pair = [pa.schema([whole.field(each.name)]), pa.schema([each])]
            made = pa.unify_schemas(pair, promote_options="permissive").field(0)
        except pa.ArrowException:
            made = each.with_type(pa.string())
        whole = whole.set(whole.get_field_index(each.name), made)
    return whole


def _readable(files: list[DataFile], options: ReadOptions) -> list[pa.Schema]:
    """The schemas of files, without those that can't be read: reading them is the data error. Raises it if there are no
    others."""
    found, corrupt = [], None
    for file in files:
        try:
            with file_errors(file.path, "read"):
                found.append(infer(file, options))
        except ConnectorError as error:
            if error.category is not ErrorCategory.DATA:
                raise
            corrupt = error
    if corrupt is not None and not found:
        raise corrupt
    return found or [pa.schema([])]


def infer(file: DataFile, options: ReadOptions) -> pa.Schema:
    """The columns of a file; of one of text, by its first rows."""
    match file.kind.format:
        case "csv":
            return infer_csv(file, options)
        case "jsonl":
            return infer_jsonl(file, options)
        case "parquet":
            return infer_parquet(file)
        case _:
            return infer_arrow(file)


def read_schema(path: Path) -> pa.Schema | None:
    """The schema in a file; None if there is no file."""
    with file_errors(path, "read"):
        try:
            return pa.ipc.read_schema(pa.py_buffer(path.read_bytes()))
        except FileNotFoundError:
            return None


def catalog_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns in types that have a name in a catalog."""
    return pa.schema([each.with_type(_catalog_type(each.type)) for each in schema])


def _catalog_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _catalog_type(kind.storage_type)
    if pa.types.is_run_end_encoded(kind):
        return _catalog_type(kind.value_type)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _catalog_type(kind.value_type))
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_map(kind):
        return pa.map_(_catalog_type(kind.key_type), _catalog_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_catalog_type(each.type)) for each in kind.fields])
    if pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(_catalog_type(kind.value_type))
    if pa.types.is_nested(kind) and not pa.types.is_union(kind):
        return pa.list_(_catalog_type(kind.value_type))
    return kind
