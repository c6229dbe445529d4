"""Names of types in messages and reference pages."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from gauss.model.units import duration_ms, interval, moment, size_bytes

_UNITS = {
    duration_ms: "a duration",
    size_bytes: "a size in bytes",
    moment: "a time",
    interval: "a duration or a cron expression",
}
_PLAIN = {str: "text", int: "a whole number", float: "a number", bool: "true or false", Path: "a path"}


def type_of(field: FieldInfo) -> str:
    """`a whole number`, `"block" or "drop"`, `an array of text`."""
    return _unit(field.metadata) or type_name(field.annotation)


def type_name(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _unit(arguments[1:]) or type_name(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(type_name(part) for part in arguments if part is not type(None))
    if origin is typing.Literal:
        return " or ".join(f'"{part}"' if isinstance(part, str) else str(part) for part in arguments)
    if origin in (list, tuple):
        return f"an array of {type_name(arguments[0])}"
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f'"{member.value}"' for member in annotation)
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel | dict)):
        return "a table"
    return "any value"


def unit_of(field: FieldInfo) -> str:
    """`a duration`, `a size in bytes`, or nothing; also for optional fields."""
    return _unit(field.metadata) or next(
        (unit for part in typing.get_args(field.annotation) if (unit := _unit(getattr(part, "__metadata__", ())))), ""
    )


def _unit(metadata: Iterable[Any]) -> str:
    for mark in metadata:
        if isinstance(mark, BeforeValidator) and mark.func in _UNITS:
            return _UNITS[typing.cast(Any, mark.func)]
        if nested := _unit(getattr(mark, "__metadata__", ())):
            return nested
    return ""
