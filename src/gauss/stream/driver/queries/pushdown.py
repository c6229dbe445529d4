"""Pushdown of Spark's filters and columns: translated into a scan program that the engine runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from gauss.contracts.cursor import Program
from gauss.contracts.expression import Expr, Kind, Make, Path, Select, Stage
from gauss.contracts.format import SourceSchema
from gauss.model.batch import RECORD_SCHEMA
from gauss.model.errors import ConfigError
from gauss.scan.program.fault import bounded
from gauss.scan.program.kinds import arrow_kinds, schema_kinds

_ORDER = {GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<", LessThanOrEqual: "<="}
_OPPOSITE = {GreaterThan: "<=", GreaterThanOrEqual: "<"}
_TEXT = {StringContains: "contains", StringEndsWith: "endswith", StringStartsWith: "startswith"}
_VALUES: dict[Kind, Any] = {Kind.INT: int, Kind.NUMBER: (int, float), Kind.STRING: str, Kind.BOOL: bool}
_FLOATS = ("float", "double")


@dataclass(frozen=True)
class PushableColumns:
    """The columns of a topic with their kinds in the scan language."""

    kinds: dict[str, Kind]
    nan: frozenset[str] = frozenset()
    """Numbers that may be NaN: the largest value for Spark, null in the scan language."""
    inexact: frozenset[str] = frozenset()
    """Numbers that the scan language rounds because they are not doubles."""

    @classmethod
    def of(cls, schema: SourceSchema | None, *, gives_nan: bool) -> PushableColumns:
        """The columns of records and the fields that the format declares."""
        fields = () if schema is None else schema.fields
        kinds = arrow_kinds(RECORD_SCHEMA) | ({} if schema is None else schema_kinds(schema))
        return cls(
            kinds,
            frozenset(each.name for each in fields if gives_nan and each.field_type.name in _FLOATS),
            frozenset(each.name for each in fields if each.field_type.name == "decimal"),
        )

    def condition(self, entry: Filter) -> tuple[str | None, bool]:
        """A condition that is true for every row that the filter keeps, and whether it is exact, that is, true for no
        other row; None if the filter cannot be translated."""
        path: tuple[str, ...] = getattr(entry, "attribute", ())
        kind = self.kinds.get(path[0], Kind.OPAQUE) if len(path) == 1 and "." not in path[0] else Kind.OPAQUE
        if kind not in _VALUES:
            return None, False
        name, nan = f".[{json.dumps(path[0])}]", path[0] in self.nan
        match entry:
            case IsNull() if not nan:
                return f"{name} == null", True
            case IsNull():  # also matches NaN, which Spark drops
                return f"{name} == null", False
            case IsNotNull() if not nan:
                return f"{name} != null", True
            case In(value=values) if values and all(_fits(value, kind) for value in values):
                return " or ".join(f"{name} == {json.dumps(value)}" for value in values), True
            case EqualTo(value=value) if _fits(value, kind):
                return f"{name} == {json.dumps(value)}", True
            case GreaterThan() | GreaterThanOrEqual() if nan and _fits(entry.value, kind):
                return f"not ({name} {_OPPOSITE[type(entry)]} {json.dumps(entry.value)})", False
            case GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
                if kind is Kind.BOOL or not _fits(entry.value, kind):
                    return None, False
                return f"{name} {_ORDER[type(entry)]} {json.dumps(entry.value)}", True
            case StringContains() | StringEndsWith() | StringStartsWith() if _fits(entry.value, kind):
                return f"({name} | {_TEXT[type(entry)]}({json.dumps(entry.value)}))", True
        return None, False

    def projected(self, names: Iterable[str]) -> Make | None:
        """The stage that returns these columns exactly as decoded; None if that is impossible."""
        columns = tuple((name, Path((name,))) for name in names)
        known = all(
            "." not in name
            and not name.startswith("$")
            and self.kinds.get(name, Kind.ANY) is not Kind.ANY
            and name not in self.nan | self.inexact
            for name, _ in columns
        )
        return Make(columns) if columns and known else None


@dataclass
class Pushdown:
    """The filters that were pushed down. Spark applies the loose ones again."""

    columns: PushableColumns
    exact: list[str] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)

    def take(self, entry: Filter) -> bool:
        """Pushes a filter down; returns whether its condition is exact, so that Spark need not apply it again."""
        text, same = self.columns.condition(entry)
        if text is None or not _is_program([*self.exact, *self.loose, text]):
            return False
        (self.exact if same else self.loose).append(text)
        return same

    def program(self, format_name: str, names: Iterable[str]) -> Program:
        """The program that selects matching rows, and the named columns if they can be returned exactly."""
        stages: list[Stage] = [Select(root) for root in _parsed(self.exact + self.loose)]
        if (made := self.columns.projected(names)) is not None:
            stages.append(made)
        return Program(stages=tuple(stages), format=format_name)

    def kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that match all exact conditions."""
        from gauss.scan.program.arrow import compile_filter
        from gauss.scan.program.check import check
        from gauss.scan.program.parse import parse

        if not self.exact:
            return rows
        keep = compile_filter(check(parse(_together(self.exact)), self.columns.kinds))
        return rows.filter(keep(rows))


def _together(conditions: list[str]) -> str:
    return " and ".join(f"({text})" for text in conditions)


def _parsed(conditions: list[str]) -> list[Expr]:
    from gauss.scan.program.parse import parse

    return [parse(_together(conditions)).root] if conditions else []


def _is_program(conditions: list[str]) -> bool:
    """Whether the conditions are within the size limits of a program, which a long list of values may exceed."""
    try:
        bounded(tuple(Select(root) for root in _parsed(conditions)), "")
    except ConfigError:
        return False
    return True


def _fits(value: Any, kind: Kind) -> bool:
    """Whether a literal is of the column's kind and can be written in the scan language."""
    if isinstance(value, bool) is not (kind is Kind.BOOL):
        return False
    return isinstance(value, _VALUES[kind]) and not (isinstance(value, float) and not math.isfinite(value))
