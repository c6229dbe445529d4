"""Spark's filters and columns as a scan program: what can be said in it is done beside the data, by the engine."""

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
from gauss.contracts.format import SourceSchema
from gauss.model.batch import RECORD_SCHEMA
from gauss.model.errors import ConfigError
from gauss.scan.program.fault import bounded
from gauss.scan.program.ir import Expr, Kind, Make, Path, Select, Stage
from gauss.scan.program.kinds import arrow_kinds, schema_kinds

_ORDER = {GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<", LessThanOrEqual: "<="}
_OPPOSITE = {GreaterThan: "<=", GreaterThanOrEqual: "<"}
_TEXT = {StringContains: "contains", StringEndsWith: "endswith", StringStartsWith: "startswith"}
_VALUES: dict[Kind, Any] = {Kind.INT: int, Kind.NUMBER: (int, float), Kind.STRING: str, Kind.BOOL: bool}
_FLOATS = ("float", "double")


@dataclass(frozen=True)
class Columns:
    """What the language knows of a topic's columns."""

    kinds: dict[str, Kind]
    nan: frozenset[str] = frozenset()
    """Numbers that may be NaN: above everything for Spark, null in the language."""
    inexact: frozenset[str] = frozenset()
    """Numbers that are no doubles: the language rounds them."""

    @classmethod
    def of(cls, schema: SourceSchema | None, *, gives_nan: bool) -> Columns:
        """The record's own columns, and the fields that its format declares."""
        fields = () if schema is None else schema.fields
        kinds = arrow_kinds(RECORD_SCHEMA) | ({} if schema is None else schema_kinds(schema))
        return cls(
            kinds,
            frozenset(each.name for each in fields if gives_nan and each.field_type.name in _FLOATS),
            frozenset(each.name for each in fields if each.field_type.name == "decimal"),
        )

    def condition(self, entry: Filter) -> tuple[str | None, bool]:
        """The text of a condition that is true for every row that Spark would keep, and whether it is true for no
        other; None: there is none."""
        path: tuple[str, ...] = getattr(entry, "attribute", ())
        kind = self.kinds.get(path[0], Kind.OPAQUE) if len(path) == 1 and "." not in path[0] else Kind.OPAQUE
        if kind not in _VALUES:
            return None, False
        name, nan = f".[{json.dumps(path[0])}]", path[0] in self.nan
        match entry:
            case IsNull() if not nan:
                return f"{name} == null", True
            case IsNull():  # rows of NaN come too, and Spark drops them
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
        """The stage that gives these columns just as they were decoded; None: it would not."""
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
class Pushed:
    """The conditions that were taken; together they are true for all rows that are given, but for the loose ones,
    which Spark looks at again."""

    columns: Columns
    exact: list[str] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)

    def take(self, entry: Filter) -> bool:
        """Whether the filter has a condition with the same answers; then it is this one's affair from now on."""
        text, same = self.columns.condition(entry)
        if text is None or not _is_program([*self.exact, *self.loose, text]):
            return False
        (self.exact if same else self.loose).append(text)
        return same

    def program(self, format_name: str, names: Iterable[str]) -> Program:
        """Keeps the rows that meet the conditions, and of each only the named columns if they come as they are."""
        stages: list[Stage] = [Select(root) for root in _parsed(self.exact + self.loose)]
        if (made := self.columns.projected(names)) is not None:
            stages.append(made)
        return Program(stages=tuple(stages), format=format_name)

    def kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows for which every exact condition is true."""
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
    """Whether they stay within the bounds of the language: a long list of values may not."""
    try:
        bounded(tuple(Select(root) for root in _parsed(conditions)), "")
    except ConfigError:
        return False
    return True


def _fits(value: Any, kind: Kind) -> bool:
    """Whether a literal is of the column's kind and can be written in the language."""
    if isinstance(value, bool) is not (kind is Kind.BOOL):
        return False
    return isinstance(value, _VALUES[kind]) and not (isinstance(value, float) and not math.isfinite(value))
