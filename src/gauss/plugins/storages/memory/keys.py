"""Decodes the key of each record, and whether the record deletes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.chunk import Chunk
from gauss.contracts.expression import Kind, Typed
from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import FieldType, Format
from gauss.contracts.letter import Letter
from gauss.contracts.record_field import declared_field
from gauss.model.errors import ConfigError
from gauss.scan.program import arrow
from gauss.scan.program.check import check
from gauss.scan.program.kinds import DECODED, schema_kinds
from gauss.scan.program.parse import parse

_JSON_TEXT = {b"gauss": b"json"}


class Keyed(Chunk):
    """Records with their keys; `deleted` marks those that delete their key (None: none does)."""

    __slots__ = ("deleted", "keys")

    def __init__(
        self, data: pa.BinaryArray, ts_ms: int | np.ndarray, keys: pa.StringArray, deleted: np.ndarray | None
    ) -> None:
        super().__init__(data, len(data), ts_ms)
        self.keys = keys
        self.deleted = deleted

    def filtered(self, kept: np.ndarray) -> Keyed:
        """The records for which `kept` is true."""
        mask = pa.array(kept)
        times = self.ts_ms if isinstance(self.ts_ms, int) else self.ts_ms[kept]
        deleted = None if self.deleted is None else self.deleted[kept]
        return Keyed(self.payload.filter(mask), times, self.keys.filter(mask), deleted)


class KeyReader:
    """Decodes `key_field` and the fields of `delete_when`, by batch."""

    def __init__(self, format_: Format, key_field: str, delete_when: str | None, *, topic: str, inc: int) -> None:
        self._format = format_
        self._key = key_field
        self._topic, self._inc = topic, inc
        schema = format_.schema()
        declared = {} if schema is None else {f.name.removeprefix("$."): f for f in schema.fields}
        path = key_field.removeprefix("$.")
        key, self._way = declared_field(path, declared)
        if declared and key is None:
            raise ConfigError(
                f'topic "{topic}": its format has no field "{key_field}" for key_field',
                hint=f"it has: {', '.join(sorted(declared))}",
            )
        whole_type = pa.string() if key is None else arrow_type(key.field_type)
        key_type = whole_type
        for member in self._way:
            key_type = key_type.field(member).type
        if not (_is_text(key_type) or pa.types.is_integer(key_type)):
            raise ConfigError(
                f'topic "{topic}": key_field "{key_field}" must be text or a whole number, its type is {key_type}',
                hint="name another field",
            )
        self._key = key.name if key is not None else f"$.{path}" if "." in path else path
        fields = {self._key: pa.field(self._key, whole_type)}
        self._deletes: Typed | None = None
        if delete_when is not None:
            program = parse(delete_when)
            self._deletes = check(program, None if schema is None else schema_kinds(schema))
            for name, kind in self._deletes.kinds.items():
                field = declared.get(name)
                path = field.name if field is not None else f"$.{name}" if "." in name else name
                if path not in fields:
                    type_ = arrow_type(field.field_type if field is not None else FieldType(DECODED[kind]))
                    any_value = field is None and kind is Kind.ANY
                    fields[path] = pa.field(path, type_, metadata=_JSON_TEXT if any_value else None)
        self._fields = pa.schema(list(fields.values()))
        self._key_is_free = key is None

    def read(self, chunk: Chunk) -> tuple[Keyed | None, list[Letter]]:
        """The records that have a key, and dead letters for those that have none or cannot be decoded."""
        data = chunk.data()
        rows, good, bad, spread = self._format.decode_batch(data, self._fields)
        good = np.asarray(good, dtype=np.int64)
        if spread:
            rows, good, bad = _single(rows, good, bad, len(data))
        if bad and self._key_is_free:
            rows, good, bad = self._with_numbers(data, rows, good, bad)
        keys = _text(pc.struct_field(rows.column(0), self._way) if self._way else rows.column(0))
        if keys.null_count:
            missing = good[keys.is_null().to_numpy(zero_copy_only=False)]
            bad = [*bad, *((int(index), "missing_key", f'no "{self._key}" to key by') for index in missing)]
            there = keys.is_valid()
            rows, keys = rows.filter(there), keys.filter(there)
            good = good[there.to_numpy(zero_copy_only=False)]
        letters = [self._letter(chunk, data, *each) for each in sorted(bad)]
        if not len(good):
            return None, letters
        times = chunk.ts_ms
        if len(good) < len(data):
            data = data.take(pa.array(good))
            times = times if isinstance(times, int) else times[good]
        return Keyed(data, times, keys, self._deleted(rows)), letters

    def _with_numbers(
        self, data: pa.BinaryArray, rows: pa.RecordBatch, good: np.ndarray, bad: list[tuple[int, str, str]]
    ) -> tuple[pa.RecordBatch, np.ndarray, list[tuple[int, str, str]]]:
        """Decodes keys without a schema; an integer key is converted to its digits."""
        wrong = np.array([index for index, reason, _ in bad if reason == "wrong_type"], dtype=np.int64)
        if not len(wrong):
            return rows, good, bad
        fields = self._fields.set(0, pa.field(self._key, pa.int64()))
        numbers, found, *_ = self._format.decode_batch(data.take(pa.array(wrong)), fields)
        if not len(found):
            return rows, good, bad
        right = wrong[np.asarray(found, dtype=np.int64)]
        columns = [_text(numbers.column(0)), *numbers.columns[1:]]
        both = pa.concat_batches(
            [rows.cast(self._fields), pa.RecordBatch.from_arrays(columns, names=rows.schema.names).cast(self._fields)]
        )
        places = np.concatenate([good, right])
        order = np.argsort(places, kind="stable")
        mended = set(right.tolist())
        return both.take(pa.array(order)), places[order], [each for each in bad if each[0] not in mended]

    def _deleted(self, rows: pa.RecordBatch) -> np.ndarray | None:
        if self._deletes is None:
            return None
        named = rows.rename_columns([name.removeprefix("$.") for name in rows.schema.names])
        found: np.ndarray = arrow.compile_filter(self._deletes)(named).to_numpy(zero_copy_only=False)
        return found if found.any() else None

    def _letter(self, chunk: Chunk, data: pa.BinaryArray, index: int, reason: str, detail: str) -> Letter:
        ts_ms = chunk.ts_ms if isinstance(chunk.ts_ms, int) else int(chunk.ts_ms[index])
        return Letter(reason, detail, "decode", "", data[index].as_py(), topic=self._topic, inc=self._inc, ts_ms=ts_ms)


def _single(
    rows: pa.RecordBatch, good: np.ndarray, bad: list[tuple[int, str, str]], count: int
) -> tuple[pa.RecordBatch, np.ndarray, list[tuple[int, str, str]]]:
    """Rejects records that do not decode to exactly one row."""
    held = np.bincount(good, minlength=count)
    known = {index for index, *_ in bad}
    many = [
        (int(index), "many_rows", f"the record holds {int(held[index])} rows, a table takes one per record")
        for index in np.flatnonzero(held != 1)
        if int(index) not in known
    ]
    kept = held[good] == 1
    return rows.filter(pa.array(kept)), good[kept], [*bad, *many]


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _text(keys: Any) -> pa.StringArray:
    return keys if keys.type == pa.string() else pc.cast(keys, pa.string())
