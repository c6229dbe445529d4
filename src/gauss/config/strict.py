"""Rejects values of the wrong type that pydantic would convert silently."""

from __future__ import annotations

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gauss.config.faults import Scope, dotted
from gauss.config.positions import KeyPath
from gauss.config.type_words import type_name, type_of, unit_of


def refuse_conversions(
    value: object, typed: object, scope: Scope, keys: KeyPath = (), field: FieldInfo | None = None
) -> None:
    """Reports numbers and booleans given as text (`port = "9100"`), booleans for numbers, and the reverse. Values
    substituted by `${…}` are always text, and are converted."""
    if isinstance(value, dict):
        for key, item in value.items():
            inner = typed.get(key) if isinstance(typed, dict) else getattr(typed, str(key), None)
            known = type(typed).model_fields.get(str(key)) if isinstance(typed, BaseModel) else None
            if known is None or not unit_of(known):  # other types accept text: durations, sizes, times
                refuse_conversions(item, inner, scope, (*keys, key), known)
    elif isinstance(value, list) and isinstance(typed, list | tuple):
        for index, (item, inner) in enumerate(zip(value, typed, strict=False)):
            refuse_conversions(item, inner, scope, (*keys, index))
    elif _converted(value, typed) and not scope.faults.redactor.holds((*scope.path, *keys)):
        expected = type_of(field) if field is not None else type_name(type(typed))
        hint = f"write {value.strip()} without quotes" if isinstance(value, str) else ""
        scope.add(keys, f'"{dotted(keys)}" is not valid', expected=expected, found=value, hint=hint)


def _converted(value: object, typed: object) -> bool:
    if not isinstance(value, str | int | float) or not isinstance(typed, int | float) or type(value) is type(typed):
        return False
    widened = type(value) is int and type(typed) is float
    return not widened
