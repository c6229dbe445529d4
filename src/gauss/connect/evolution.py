"""Schema evolution, enforced once for all destinations: how a table follows the schema of its stream, and how rows are
made to fit it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from gauss.connect.letters import shown_value
from gauss.contracts.connector.connector import NEEDS_VALUE
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.stream import (
    OPERATION,
    ColumnPolicy,
    NullabilityPolicy,
    Operation,
    SchemaEvolutionPolicy,
    TypeChangePolicy,
)

_LEADING_ZERO = r"^\s*[-+]?0\d"
"""A text such as a zip code, which is another one as a number."""


class Change(StrEnum):
    ADD = "add"
    """The table gets the column."""
    IGNORE = "ignore"
    """The table does not get the column."""
    REMOVED = "removed"
    """The table has a column that the stream no longer has: it stays null."""
    COERCE = "coerce"
    """Values are converted to the type of the table."""
    NULL = "null"
    """Values are replaced by null."""
    NULLABLE = "nullable"
    """The column of the table is made nullable."""


@dataclass(frozen=True)
class ColumnChange:
    """A difference between a stream and its table, and what is done about it."""

    change: Change
    column: str
    source: str = ""
    """The type in the stream."""
    table: str = ""
    """The type in the table."""

    def __str__(self) -> str:
        match self.change:
            case Change.ADD:
                return f"{self.column}: added as {self.table}"
            case Change.IGNORE:
                return f"{self.column}: not in the table, ignored"
            case Change.REMOVED:
                return f"{self.column}: no longer in the stream, stays null"
            case Change.COERCE:
                return f"{self.column}: {self.source} converted to {self.table}"
            case Change.NULL:
                return f"{self.column}: {self.source} does not fit {self.table}, written as null"
            case Change.NULLABLE:
                return f"{self.column}: made nullable"


@dataclass(frozen=True)
class SchemaPlan:
    """The columns that a table is to have, and how rows are made to fit."""

    table: pa.Schema
    """All columns that rows are written to, in the order of the stream, with the types of the table."""
    changes: list[ColumnChange] = field(default_factory=list)
    policy: SchemaEvolutionPolicy = field(default_factory=SchemaEvolutionPolicy)

    def _check(self, names: list[str], operation: pa.Array | None) -> None:
        """Raises ConnectorError if the stream has other columns than those of the plan. Rows without the values of a
        new one would never be read again."""
        needed = [each.name for each in self.table if self._must_be_there(each)] if operation is None else []
        known = {OPERATION, *self.table.names, *(each.column for each in self.changes)}
        found = [f"{name} is gone" for name in needed if name not in names]
        if self.policy.new_column is not ColumnPolicy.IGNORE:
            found += [f"{name} is new" for name in names if name not in known]
        if found:
            raise ConnectorError.schema(
                "SCHEMA_CHANGED",
                f"the columns of the stream have changed since the run was planned: {'; '.join(found)}",
                hint="start the sync again, which follows schema_evolution in policies",
                details={"replan": True},
            )

    def _must_be_there(self, column: pa.Field) -> bool:
        return not column.nullable or self.policy.removed_column is ColumnPolicy.FAIL

    def fit(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[tuple[int, ConnectorError]]]:
        """The rows that fit, as the table has them, and the index of each other row with the reason. The operation of
        a change is kept if the table does not have it: a row that is deleted needs no values but its key."""
        nulls = {each.column for each in self.changes if each.change is Change.NULL}
        coerced = {each.column for each in self.changes if each.change is Change.COERCE}
        bad: dict[int, ConnectorError] = {}
        columns = []
        operation = _operation(self.table, batch)
        given_columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        if batch.schema.names != self.table.names:
            self._check(batch.schema.names, operation)
        for wanted in self.table:
            given = given_columns.get(wanted.name)
            if given is None or wanted.name in nulls:
                columns.append(pa.nulls(batch.num_rows, wanted.type))
                continue
            # Other columns keep their type: the destination knows how it lands in its own.
            column, misfits = _cast(given, wanted) if wanted.name in coerced else (given, [])
            columns.append(column)
            for row in misfits:
                bad.setdefault(row, _misfit(wanted, given[row]))
            if not wanted.nullable and given.null_count:
                missing = ConnectorError.data("NULL", f"{wanted.name}: null, but the table needs a value")
                absent = pc.is_null(given)
                if operation is not None:
                    absent = pc.and_(absent, pc.not_equal(operation, Operation.DELETE))
                for row in pc.indices_nonzero(absent).to_pylist():
                    bad.setdefault(row, missing)
        schema = pa.schema([each.with_type(column.type) for each, column in zip(self.table, columns, strict=True)])
        if operation is not None:
            schema, columns = schema.append(pa.field(OPERATION, operation.type)), [*columns, operation]
        fitting = pa.RecordBatch.from_arrays(columns, schema=schema)
        if bad:
            keep = pa.array([row not in bad for row in range(batch.num_rows)])
            fitting = fitting.filter(keep)
        return fitting, sorted(bad.items())


def plan_schema(
    source: pa.Schema, landed: pa.Schema, live: pa.Schema | None, policy: SchemaEvolutionPolicy
) -> SchemaPlan:
    """How a table follows its stream. `landed`: the columns of a new table for the stream; `live`: those of the table
    that there is. Raises ConnectorError with all differences that the policy refuses."""
    if live is None:
        if not source.names:
            raise ConnectorError.schema(
                "NO_COLUMNS",
                "the stream has no columns, so that no table can be made for it",
                hint="nothing with a column was found in the source, such as only empty files: add rows, or the table",
            )
        return SchemaPlan(landed, policy=policy)
    found = list(_differences(source, landed, live, policy))
    if refused := [text for text, change in found if change is None]:
        raise ConnectorError.schema(
            "SCHEMA_CHANGED",
            f"the schema of the stream has changed: {'; '.join(refused)}",
            hint="change schema_evolution in policies, or the table",
        )
    changes = [change for _, change in found if change is not None]
    dropped = {each.column for each in changes if each.change is Change.IGNORE}
    relaxed = {each.column for each in changes if each.change is Change.NULLABLE}
    columns = []
    fields = {each.name: each for each in live}
    for wanted in landed:
        if wanted.name in dropped:
            continue
        there = fields.get(wanted.name) or wanted.with_nullable(True)
        columns.append(there.with_nullable(True) if wanted.name in relaxed else there)
    columns += [each.with_nullable(True) for each in live if each.name in relaxed - set(landed.names)]
    return SchemaPlan(pa.schema(columns), changes, policy)


def _differences(
    source: pa.Schema, landed: pa.Schema, live: pa.Schema, policy: SchemaEvolutionPolicy
) -> Iterator[tuple[str, ColumnChange | None]]:
    """Each difference as text, and what is done about it; None: the policy refuses it."""
    fields, names = {each.name: each for each in live}, set(landed.names)
    for wanted, given in zip(landed, source, strict=True):
        name = wanted.name
        there = fields.get(name)
        if there is None:
            done = {ColumnPolicy.ADD: Change.ADD, ColumnPolicy.IGNORE: Change.IGNORE}.get(policy.new_column)
            yield f"{name} is new", _change(done, name, given, wanted)
            continue
        if there.type != wanted.type:
            done = {TypeChangePolicy.COERCE: Change.COERCE, TypeChangePolicy.NULL: Change.NULL}.get(policy.type_change)
            yield f"{name} is {given.type}, in the table {there.type}", _change(done, name, given, there)
        nulls = given.nullable or (policy.type_change is TypeChangePolicy.NULL and there.type != wanted.type)
        if nulls and not there.nullable:
            done = Change.NULLABLE if policy.nullability_change is NullabilityPolicy.ALLOW else None
            yield f"{name} may be null, in the table it may not", _change(done, name, given, there)
    for there in live:
        if there.name in names:
            continue
        done = None if policy.removed_column is ColumnPolicy.FAIL else Change.REMOVED
        yield f"{there.name} is gone", _change(done, there.name, there, there)
        if done and NEEDS_VALUE.items() <= (there.metadata or {}).items():
            done = Change.NULLABLE if policy.nullability_change is NullabilityPolicy.ALLOW else None
            yield f"{there.name} is gone, and the table needs a value for it", _change(done, there.name, there, there)


def _change(done: Change | None, name: str, given: pa.Field, there: pa.Field) -> ColumnChange | None:
    return None if done is None else ColumnChange(done, name, str(given.type), str(there.type))


def _operation(table: pa.Schema, batch: pa.RecordBatch) -> pa.Array | None:
    """The operations of changes that are applied to a table, not stored in it."""
    applied = OPERATION in batch.schema.names and OPERATION not in table.names
    return batch.column(OPERATION) if applied else None


def _cast(given: pa.Array, wanted: pa.Field) -> tuple[pa.Array, list[int]]:
    """The values in the type of the table, and the rows whose value has no equal there."""
    if given.type == wanted.type:
        return given, []
    made, misfits = _cast_some(given, wanted, 0)
    if pa.types.is_floating(wanted.type):
        misfits = sorted({*misfits, *_too_large(given, made)})
    if pa.types.is_string(given.type) and _is_number(wanted.type):
        zeros = pc.indices_nonzero(pc.match_substring_regex(given, _LEADING_ZERO)).to_pylist()
        misfits = sorted({*misfits, *zeros})
    if lost := _lost_fields(given, wanted.type):
        misfits = sorted({*misfits, *lost})
    return made, misfits


def _cast_some(given: pa.Array, wanted: pa.Field, first: int) -> tuple[pa.Array, list[int]]:
    """The same by halves, until the rows are found that can't be cast."""
    try:
        return given.cast(wanted.type, safe=True), []
    except pa.ArrowNotImplementedError as error:
        raise ConnectorError.schema(
            "NO_CONVERSION", f"{wanted.name}: {given.type} can't be converted to {wanted.type}"
        ) from error
    except (pa.ArrowInvalid, OverflowError):
        if len(given) == 1:
            return pa.nulls(1, wanted.type), [first]
    middle = len(given) // 2
    # Not slices: Arrow casts the elements of all lists that the array of a slice has.
    left, bad = _cast_some(given.take(pa.array(range(middle))), wanted, first)
    right, more = _cast_some(given.take(pa.array(range(middle, len(given)))), wanted, first + middle)
    return pa.concat_arrays([left, right]), [*bad, *more]


def _too_large(given: pa.Array, made: pa.Array) -> list[int]:
    """The rows whose number became infinite, which Arrow does not refuse."""
    infinite = pc.indices_nonzero(pc.is_inf(made.cast(pa.float64()))).to_pylist()
    return [row for row in infinite if "inf" not in str(given[row].as_py()).lower()]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _lost_fields(given: pa.Array, wanted: pa.DataType) -> set[int]:
    """The rows with a value in a field of a struct that the table lacks, which Arrow drops without a word."""
    rows: set[int] = set()
    if pa.types.is_struct(given.type) and pa.types.is_struct(wanted):
        for field, values in zip(given.type.fields, given.flatten(), strict=True):
            place = wanted.get_field_index(field.name)
            if place >= 0:
                rows |= _lost_fields(values, wanted.field(place).type)
            else:
                rows |= set(pc.indices_nonzero(pc.is_valid(values)).to_pylist())
    elif pa.types.is_list(given.type) and pa.types.is_list(wanted):
        inner = _lost_fields(given.flatten(), wanted.value_type)
        rows = set(pc.list_parent_indices(given).take(pa.array(sorted(inner), pa.int64())).to_pylist())
    return rows


def _misfit(wanted: pa.Field, value: pa.Scalar) -> ConnectorError:
    shown = str(shown_value(value))
    shown = shown if len(shown) <= 100 else f"{shown[:97]}…"
    return ConnectorError.data("NO_CONVERSION", f"{wanted.name}: {shown!r} does not fit {wanted.type}")
