"""The avro format: polars reads a batch of datums as one container block; odd records are read datum by datum."""

from __future__ import annotations

import functools
import io
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.decode_budget import DecodeBudget
from gauss.contracts.field_types import arrow_field
from gauss.contracts.format import BadRecord, Decoded, SourceField, SourceSchema
from gauss.contracts.format_batch import decode_each, encode_each, to_columns, verdict
from gauss.model.errors import ConfigError
from gauss.plugins.formats.avro.container import MAGIC, close_container, open_container
from gauss.plugins.formats.avro.datum import read, write
from gauss.plugins.formats.avro.resolve import Resolution, read_defaults
from gauss.plugins.formats.avro.schema import AvroType, parse, plain_schema, polars_reads, symbols_of
from gauss.plugins.formats.avro.spec import AvroConfig
from gauss.plugins.formats.avro.walk import DatumChecker
from gauss.plugins.formats.avro.write import encode
from gauss.plugins.formats.columns import Columns, adapt, bytes_of, merge, no_rows, select
from gauss.plugins.formats.registry import HEADER, SchemaRegistry, header, schema_id

Row = dict[str, Any]

MOST_SCHEMA_BYTES = 1 << 20
"""Limit of a schema inside a record; configured schemas may be larger."""
CACHED_BYTES = 4 << 20
"""Bytes of schema text whose parsed trees are cached; a tree is some forty times as large as its text."""


class AvroFormat:
    """Datums, containers, or datums after a schema id; `walk.py` lists the verdicts on bad records."""

    def __init__(self, config: AvroConfig) -> None:
        self._registry = SchemaRegistry(config.registry) if config.registry else None
        self._schemas = _Schemas()
        self._most = config.max_decoded_bytes
        self._id: int | None = None
        text = config.schema_text
        if config.schema_file is not None:
            try:
                text = config.schema_file.read_text()
            except OSError as error:
                raise ConfigError(f"schema {config.schema_file} can't be read: {error.strerror}") from error
        elif text is None and self._registry is not None:
            newest = self._registry.newest()
            self._id, text = newest.id, newest.text
        self._reader = _Schema(text) if text is not None else None

    def schema(self) -> SourceSchema | None:
        return self._reader.source if self._reader else None

    def decode(self, data: bytes) -> Row:
        """The only row of a record; raises BadRecord if it is a container of several."""
        rows = self.decode_rows(data)
        if len(rows) != 1:
            raise BadRecord("many_rows", f"the record holds {len(rows)} rows")
        return rows[0]

    def decode_rows(self, data: bytes) -> list[Row]:
        """Every row of a record."""
        writer, body, count = self._open(data, DecodeBudget(self._most))
        return [self._resolve(row, writer) for row in writer.rows(body, count)]

    def encode(self, row: Row) -> bytes:
        root = self._writer().root
        unknown = [name for name in row if name not in root.names]
        if unknown:
            raise ValueError(f"no field {unknown[0]} in the schema")
        out = bytearray(header(self._head()) if self._registry else b"")
        write(root, row, out)
        return bytes(out)

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        root = self._writer().root
        unknown = [name for name in rows.schema.names if name not in root.names]
        if unknown:
            raise ConfigError(f"the Avro schema has no field {unknown[0]}", hint=f"it has {', '.join(root.names)}")
        found = encode(root, rows, header(self._head()) if self._registry else b"")
        return encode_each(self.encode, rows) if found is None else found

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        if self._registry is None and self._reader is not None and not _contains(data):
            return self._decode_alike(data, np.arange(len(data)), self._reader, fields)
        # Records of several schemas or rows: those of one schema are decoded together.
        groups: dict[int, tuple[_Schema, list[int], list[bytes], list[int]]] = {}
        budget = DecodeBudget(self._most)
        opened, places, bad = decode_each(lambda record: self._open(record, budget), enumerate(data.to_pylist()))
        for index, (writer, body, count) in zip(places, opened, strict=True):
            _, indexes, bodies, counts = groups.setdefault(id(writer), (writer, [], [], []))
            indexes.append(index)
            bodies.append(body)
            counts.append(count)
        parts = [Decoded(no_rows(fields), np.zeros(0, np.int64), bad)]
        for writer, indexes, bodies, counts in groups.values():
            some = pa.array(bodies, pa.large_binary())
            parts.append(self._decode_alike(some, np.array(indexes), writer, fields, np.array(counts)))
        return functools.reduce(_together, parts)

    def _open(self, record: bytes, budget: DecodeBudget) -> tuple[_Schema, bytes, int]:
        """(writer's schema, datums, how many) of a record."""
        if self._registry is not None:
            text = self._registry.schema(schema_id(record)).text
            return self._schemas.get(text), record[HEADER:], 1
        found = open_container(record, budget.most)
        if found is not None:
            budget.take(len(found.body), found.datums)
            return self._schemas.get(found.schema), found.body, found.datums
        if self._reader is None:
            raise BadRecord("bad_avro", "expected a container: without schema_file a bare datum can't be read")
        return self._reader, record, 1

    def _decode_alike(
        self,
        data: pa.BinaryArray,
        indexes: np.ndarray,
        writer: _Schema,
        fields: pa.Schema,
        counts: np.ndarray | None = None,
    ) -> Decoded:
        """Records of one schema; `indexes` are their places in the batch."""
        counts = np.ones(len(data), np.int64) if counts is None else counts
        offsets, body = bytes_of(data)
        verdicts, odd = writer.checker.judge(body, offsets, counts)
        plain = verdicts == 0
        resolution = self._resolution(writer)
        if writer.fast is not None and (resolution is None or resolution.by_column):
            plain &= ~odd
        else:
            plain[:] = False
        kept = np.flatnonzero(plain)
        slow = np.flatnonzero(~plain)
        spread = bool((counts != 1).any())
        chosen = data if len(kept) == len(data) else data.take(pa.array(kept))
        columns = writer.columns(chosen, int(counts[kept].sum()))
        if len(kept) and resolution is not None:
            columns = self._resolve_columns(columns, writer, int(counts[kept].sum()))
        rows = select(columns, fields, int(counts[kept].sum())) if len(kept) else no_rows(fields)
        fast = Decoded(rows, np.repeat(indexes[kept], counts[kept]), [], spread)
        if not len(slow):
            return fast
        bodies = data.take(pa.array(slow)).to_pylist()
        records = list(zip(indexes[slow].tolist(), bodies, counts[slow].tolist(), strict=True))
        return _together(fast, self._slowly(records, writer, fields))

    def _slowly(self, records: list[tuple[int, bytes, int]], writer: _Schema, fields: pa.Schema) -> Decoded:
        """(index, datums, how many) one by one."""

        def decode(item: tuple[bytes, int]) -> list[Row]:
            return [self._resolve(row, writer) for row in writer.rows(*item)]

        found, good, bad = decode_each(decode, ((index, (body, count)) for index, body, count in records))
        flat = [row for rows in found for row in rows]
        made = to_columns(flat, [index for index, rows in zip(good, found, strict=True) for _ in rows], bad, fields)
        return made._replace(spread=any(len(rows) != 1 for rows in found))

    def _resolve(self, row: Row, writer: _Schema) -> Row:
        """Converts a row of the writer's schema to the reader's: by name, with the reader's defaults."""
        found = self._resolution(writer)
        return row if found is None else found.row(row)

    def _resolution(self, writer: _Schema) -> Resolution | None:
        """None if writer and reader have the same schema."""
        if self._reader is None or self._reader is writer or self._reader.text == writer.text:
            return None
        if writer.resolution is None:
            writer.resolution = Resolution(writer.root, self._reader.root)
        return writer.resolution

    def _resolve_columns(self, columns: Columns, writer: _Schema, count: int) -> Columns:
        assert self._reader is not None
        empty = self._resolve(dict.fromkeys(writer.root.names), writer)
        made = {}
        for field in self._reader.source.fields:
            kind = arrow_field(field).type
            if field.name in columns:
                made[field.name] = adapt(columns[field.name], kind)
            else:
                made[field.name] = pa.array([empty.get(field.name)] * count, kind)
        return made

    def _writer(self) -> _Schema:
        if self._reader is None:
            raise ConfigError("avro can't be written without a schema", hint="give the format a schema_file")
        return self._reader

    def _head(self) -> int:
        if self._id is None:
            assert self._registry is not None
            self._id = self._registry.newest().id
        return self._id


class _Schema:
    """A parsed schema and the decoders made from it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root: AvroType = parse(text)
        read_defaults(self.root)
        self.checker = DatumChecker(self.root)
        pairs = zip(self.root.names, self.root.children, strict=True)
        self.source = SourceSchema(tuple(SourceField(name, child.field_type()) for name, child in pairs))
        self.types = {field.name: arrow_field(field).type for field in self.source.fields}
        self.fast = plain_schema(self.root) if polars_reads(self.root) else None
        self.resolution: Resolution | None = None
        """How its rows become rows of the format's own schema; None until it is needed."""

    def rows(self, body: bytes, count: int) -> list[Row]:
        self.checker.check(body, count)
        rows, position = [], 0
        for _ in range(count):
            row, position = read(self.root, body, position)
            rows.append(row)
        return rows

    def columns(self, data: pa.BinaryArray, count: int) -> Columns:
        """Good datums as columns."""
        if not count or self.fast is None:
            return {name: pa.array([], kind) for name, kind in self.types.items()}
        import polars as pl

        offsets, body = bytes_of(data)
        block = close_container(self.fast, body[int(offsets[0]) : int(offsets[-1])].tobytes(), count)
        table = pl.read_avro(io.BytesIO(block)).to_arrow()
        found = {name: table.column(name).combine_chunks() for name in self.root.names}
        for name, child in zip(self.root.names, self.root.children, strict=True):
            if (symbols := symbols_of(child)) is not None:
                found[name] = pa.array(symbols, pa.string()).take(found[name])
        return {name: adapt(found[name], kind) for name, kind in self.types.items()}


class _Schemas:
    """A cache of schemas by their text, bounded by size."""

    def __init__(self) -> None:
        self._known: dict[str, _Schema] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, text: str) -> _Schema:
        """The schema of a record; raises BadRecord if it is invalid."""
        with self._lock:
            found = self._known.pop(text, None)
            if found is None:
                found = _read_schema(text)
                self._bytes += len(text)
            self._known[text] = found
            while self._bytes > CACHED_BYTES and len(self._known) > 1:
                oldest = next(iter(self._known))
                del self._known[oldest]
                self._bytes -= len(oldest)
        return found


def _read_schema(text: str) -> _Schema:
    if len(text) > MOST_SCHEMA_BYTES:
        raise BadRecord("too_large", f"a schema of {len(text)} bytes: expected at most {MOST_SCHEMA_BYTES}")
    try:
        return _Schema(text)
    except Exception as error:
        detail = error.message if isinstance(error, ConfigError) else f"not understood: {verdict(error)[1]}"
        raise BadRecord("bad_avro", f"the schema of the record: {detail}") from None


def _contains(data: pa.BinaryArray) -> bool:
    """Whether some record may be a container."""
    return bool(pc.any(pc.starts_with(data, pattern=MAGIC)).as_py())


def _together(one: Decoded, other: Decoded) -> Decoded:
    merged = merge(one.rows, one.good, other)
    return Decoded(merged.rows, merged.good, sorted([*one.bad, *other.bad]), one.spread or other.spread)
