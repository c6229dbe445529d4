"""A processor without an engine: its lint, its transform, and batches for it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gauss import registry
from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.processor import LintContext, ProcessorSpec


def schema_of(**types: str | FieldType) -> SourceSchema:
    """A schema by field name; `o__id` is the path `$.o.id`."""
    fields = []
    for name, given in types.items():
        path = f"$.{name.replace('__', '.')}" if "__" in name else name
        fields.append(SourceField(path, given if isinstance(given, FieldType) else FieldType(given)))
    return SourceSchema(tuple(fields))


def transform_of(plugin: str, **config: Any) -> Any:
    """The transform of a processor before it is bound."""
    found = registry.spec(ProcessorSpec, plugin)
    return registry.build(found, found.validate(config))


def faults_of(plugin: str, known: tuple[str, ...] | None = None, *, target: str = "", **config: Any) -> list[str]:
    """The faults that the processor's lint finds in a config."""
    found = registry.spec(ProcessorSpec, plugin)
    assert found.lint is not None
    return found.lint(found.validate(config), LintContext(known, target_storage=target))


def batch_of(fields: list[SourceField], rows: list[dict[str, Any]], data: list[bytes] | None = None) -> pa.RecordBatch:
    """A batch of decoded records as a hosted task passes it to a transform; record n has time 10 · n."""
    columns = {f.name: _column(arrow_type(f.field_type), [row.get(f.name) for row in rows]) for f in fields}
    times = pa.array([10 * (n + 1) for n in range(len(rows))], pa.int64())
    columns |= {"_ts_ms": times, "_data": pa.array(data or [b"%d" % n for n in range(len(rows))], pa.binary())}
    return pa.RecordBatch.from_pydict(columns | ({} if "ts_ms" in columns else {"ts_ms": times}))


def _column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_floating(kind):  # a decoder returns whole numbers as doubles in a column of doubles
        values = [float(value) if isinstance(value, int) else value for value in values]
    return pa.array(values, kind)


def names_of(fields: list[SourceField]) -> dict[str, str]:
    return {field.name: field.field_type.name for field in fields}
