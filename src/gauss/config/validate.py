"""Validates tables against typed models. Pydantic errors become faults with key, line, expected and found value."""

from __future__ import annotations

import copy
import difflib
import re
import typing
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from gauss.config.faults import Scope, dotted
from gauss.config.positions import KeyPath
from gauss.config.strict import refuse_conversions
from gauss.config.type_words import type_of
from gauss.model.names import is_internal

M = TypeVar("M", bound=BaseModel)

_KINDS = {
    "list_type": "an array",
    "dict_type": "a table",
    "model_type": "a table",
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "path_type": "a path in quotes",
}


def validate(model: type[M], value: object, scope: Scope, *, salvage: bool = False) -> M | None:
    """The typed form of a table, or `None` after reporting its faults.

    With `salvage` the faulty keys are dropped, so that later rules can check the rest.
    """
    try:
        typed = model.model_validate(value)
        refuse_conversions(value, typed, scope)
        return typed
    except ValidationError as error:
        report(error, model, value, scope)
        if not salvage:
            return None
        try:
            return model.model_validate(without_faults(error, value))
        except ValidationError:
            return None


def report(
    error: ValidationError, model: type[BaseModel], value: object, scope: Scope, *, only_new: bool = False
) -> None:
    """Reports the errors of a failed validation. Several errors at one key (members of a union) become one fault."""
    grouped: dict[KeyPath, list[Any]] = {}
    for item in error.errors(include_url=False):
        grouped.setdefault(_key_path(item, value), []).append(item)
    for keys, items in grouped.items():
        if not (only_new and scope.has(*keys)) and not _of_another_type(items, keys, grouped):
            _report_one(items, model, keys, scope)


def _of_another_type(items: list[Any], keys: KeyPath, grouped: typing.Iterable[KeyPath]) -> bool:
    """Whether errors only say that a value is not of a type, while its parts were judged by another one of a union."""
    if any(item["type"] != "literal_error" and not item["type"].endswith("_type") for item in items):
        return False
    return any(len(other) > len(keys) and other[: len(keys)] == keys for other in grouped)


def without_faults(error: ValidationError, value: Any) -> Any:
    """The table without its faulty keys. A table that lacks a required key is dropped."""
    pruned: Any = copy.deepcopy(value)
    for item in error.errors(include_url=False):
        keys = _key_path(item, value)
        keys = keys[:-1] if item["type"] == "missing" else keys
        table = pruned
        for key in keys[:-1]:
            table = table.get(key, {}) if isinstance(table, dict) else {}
        if keys and isinstance(table, dict):
            table.pop(keys[-1], None)
    return pruned


def _report_one(items: list[Any], model: type[BaseModel], keys: KeyPath, scope: Scope) -> None:
    first = items[0]
    kind, key = first["type"], dotted(keys)
    if kind == "missing":
        field = _field(model, keys)
        scope.add(keys, f'"{key}" is missing', expected=type_of(field) if field else "")
    elif kind == "extra_forbidden":
        known = _keys(model, keys[:-1])
        scope.add(
            keys,
            f'unknown key "{key}"',
            expected=f"one of {', '.join(known)}" if known else "no key here",
            hint=_absent(model, keys) or did_you_mean(str(keys[-1]), known),
        )
    elif kind == "string_pattern_mismatch" and keys[-1:] == ("name",):
        reserved = is_internal(str(first["input"]))
        scope.add(
            keys,
            'names that start with "_" are reserved' if reserved else '"name" is not valid',
            expected='a letter, then up to 127 letters, digits, "_", "." or "-"',
            found=first["input"],
        )
    else:
        expected = " or ".join(dict.fromkeys(filter(None, map(_expected, items))))
        said = "" if expected else str(first["msg"]).removeprefix("Value error, ")
        offered = [option for item in items for option in _options(item)]
        # A validator of a whole table states in its message what it found.
        own = bool(expected) and "key" not in first.get("ctx", {})
        scope.add(
            keys,
            said or f'"{key}" is not valid',
            expected=expected,
            found=first["input"] if own else None,
            hint=did_you_mean(str(first["input"]), offered),
        )


def _key_path(item: Any, value: object) -> KeyPath:
    """The path of the error, without the names that pydantic adds for members of a union."""
    path: list[str | int] = []
    location = item["loc"]
    for index, part in enumerate(location):
        last = index == len(location) - 1
        listed = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if listed or (isinstance(value, dict) and part in value):
            value = value[part]  # type: ignore[index]
            path.append(part)
        elif last and item["type"] == "missing":
            path.append(part)
    # A validator of a whole table names the faulty key in `key`.
    if isinstance(key := item.get("ctx", {}).get("key"), str):
        path.append(key)
    return tuple(path)


def _expected(item: Any) -> str:
    if item["type"] in _KINDS:
        return _KINDS[item["type"]]
    if item["type"] in ("literal_error", "enum"):
        return str(item["ctx"]["expected"]).replace("'", '"')
    if item["type"] in ("string_too_short", "too_short"):
        least = item["ctx"]["min_length"]
        one, many = ("character", "characters") if item["type"] == "string_too_short" else ("entry", "entries")
        return f"at least {least} {one if least == 1 else many}"
    if item["type"] == "string_pattern_mismatch":
        return f"text that matches {item['ctx']['pattern']}"
    message = str(item["msg"])
    for opening in ("Input should be ", "Value error, expected ", "expected "):
        if message.startswith(opening):
            return message.removeprefix(opening)
    return ""


def _options(item: Any) -> list[str]:
    if item["type"] not in ("literal_error", "enum"):
        return []
    return re.findall(r"'([^']*)'", str(item["ctx"]["expected"]))


def did_you_mean(given: str, known: typing.Iterable[str]) -> str:
    """A hint with the most similar name, or nothing."""
    near = difflib.get_close_matches(given, list(known), 1, cutoff=0.6)
    return f'did you mean "{near[0]}"?' if near else ""


def _absent(model: type[BaseModel], keys: KeyPath) -> str:
    """The plugin's hint for a key that only other plugins of its kind have."""
    absent: dict[str, str] = getattr(_model_at(model, keys[:-1]), "ABSENT", {})
    return absent.get(str(keys[-1]), "")


def _keys(model: type[BaseModel], inner: KeyPath) -> list[str]:
    found = _model_at(model, inner)
    return sorted(field.alias or name for name, field in found.model_fields.items()) if found else []


def _field(model: type[BaseModel], inner: KeyPath) -> FieldInfo | None:
    found = _model_at(model, inner[:-1])
    return found.model_fields.get(str(inner[-1])) if found else None


def _model_at(model: type[BaseModel] | None, inner: KeyPath) -> type[BaseModel] | None:
    for part in inner:
        if isinstance(part, str) and model is not None:
            field = model.model_fields.get(part)
            model = inner_model(field.annotation) if field else None
    return model


def inner_model(annotation: Any) -> type[BaseModel] | None:
    """The model in `X`, `X | None`, `list[X]` and the like."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in typing.get_args(annotation):
        if found := inner_model(argument):
            return found
    return None
