"""Spark's filters as conditions of the scan language, applied where records are decoded."""

from __future__ import annotations

import json
import math
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

from gauss.scan.program.ir import Kind
from gauss.scan.program.kinds import arrow_kinds

_ORDER = {GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<", LessThanOrEqual: "<="}
_TEXT = {StringContains: "contains", StringEndsWith: "endswith", StringStartsWith: "startswith"}
_VALUES: dict[Kind, Any] = {Kind.INT: int, Kind.NUMBER: (int, float), Kind.STRING: str, Kind.BOOL: bool}


@dataclass
class Pushed:
    """The conditions that were taken; together they are true for the rows that are given."""

    kinds: dict[str, Kind]
    conditions: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, schema: pa.Schema) -> Pushed:
        return cls(arrow_kinds(schema))

    def take(self, entry: Filter) -> bool:
        """Whether the filter has a condition with the same answers; then it is this one's affair from now on."""
        text = condition(entry, self.kinds)
        if text is not None:
            self.conditions.append(text)
        return text is not None

    def kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows for which every condition is true."""
        from gauss.scan.program.arrow import compile_filter
        from gauss.scan.program.check import check
        from gauss.scan.program.parse import parse

        if not self.conditions:
            return rows
        program = parse(" and ".join(f"({text})" for text in self.conditions))
        keep = compile_filter(check(program, self.kinds))
        return rows.filter(keep(rows))


def condition(entry: Filter, kinds: dict[str, Kind]) -> str | None:
    """The text of a condition; None: Spark must look itself."""
    path: tuple[str, ...] = getattr(entry, "attribute", ())
    kind = kinds.get(path[0], Kind.OPAQUE) if len(path) == 1 and "." not in path[0] else Kind.OPAQUE
    if kind is Kind.OPAQUE:
        return None
    name = f".[{json.dumps(path[0])}]"
    match entry:
        case IsNull():
            return f"{name} == null"
        case IsNotNull():
            return f"{name} != null"
        case In(value=values) if values and all(_fits(value, kind) for value in values):
            return " or ".join(f"{name} == {json.dumps(value)}" for value in values)
        case EqualTo(value=value) if _fits(value, kind):
            return f"{name} == {json.dumps(value)}"
        case GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
            if kind is Kind.BOOL or not _fits(entry.value, kind):
                return None
            return f"{name} {_ORDER[type(entry)]} {json.dumps(entry.value)}"
        case StringContains() | StringEndsWith() | StringStartsWith() if _fits(entry.value, kind):
            return f"({name} | {_TEXT[type(entry)]}({json.dumps(entry.value)}))"
    return None


def _fits(value: Any, kind: Kind) -> bool:
    """Whether a literal is of the column's kind and can be written in the language."""
    if isinstance(value, bool) is not (kind is Kind.BOOL):
        return False
    return isinstance(value, _VALUES[kind]) and not (isinstance(value, float) and not math.isfinite(value))
