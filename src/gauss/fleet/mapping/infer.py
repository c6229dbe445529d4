"""Columns inferred from samples. Numbers keep every digit: integers are never narrowed, nothing passes a float."""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from gauss.fleet.mapping.column import Encoding, MappingColumn
from gauss.fleet.mapping.values import Seen, SeenFields
from gauss.mapping.defaults import column_name

FEW_DISTINCT = 100
"""At most so many values of a text, in relation to at least four times as many records, are a LowCardinality."""
FEWEST_REPEATED = 20
_MOST_TEXT = 64
_TIME_NAME = re.compile(
    r"(^|[._-])(ts|time|timestamp|date|datetime|at|on|when|created|updated|modified|expires?|start|end)([._-]|$)"
    r"|(At|On|Time|Timestamp|Date|Ts|Ms)$|[._-](s|sec|secs|seconds|ms|millis|us|micros|ns|nanos)$",
)
_UNITS: tuple[tuple[Encoding, int, int], ...] = (("s", 1, 0), ("ms", 10**3, 3), ("us", 10**6, 6), ("ns", 10**9, 9))
_FIRST, _LAST = 946_684_800, 4_102_444_800
"""The seconds of 2000 and 2100: numbers outside are hardly times of now."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?")
_MONEY = re.compile(r"-?(0|[1-9]\d*)\.\d+")


class Inferred(NamedTuple):
    """The type of a field."""

    type: str
    encoding: Encoding | None = None


def infer(seen: SeenFields) -> list[MappingColumn]:
    """A column per field. A field that was null or missing in a sample is nullable."""
    made, taken = [], set[str]()
    for path, field in seen.fields.items():
        found = infer_type(path, field)
        name = free_name(path, taken)
        taken.add(name)
        nullable = field.values < seen.records or not field.values
        given = {"field_path": path, "column": name, "type": found.type, "encoding": found.encoding}
        made.append(MappingColumn(**given, nullable=nullable))  # type: ignore[arg-type]
    return made


def free_name(path: str, taken: set[str]) -> str:
    """A plain column name that no other field has: `a.b` is `a_b`, or `a_b_2` beside a field of that name."""
    name = column_name(f"$.{path}")[:190]
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def infer_type(path: str, seen: Seen) -> Inferred:
    match sorted(seen.kinds):
        case ["bool"]:
            return Inferred("Bool")
        case ["int"]:
            return _whole(path, seen.numbers)
        case ["decimal"] | ["decimal", "int"]:
            return _fraction(seen.numbers)
        case ["float"] | ["float", "int"]:
            return Inferred("Float64")
        case ["text"]:
            return _text(seen)
        case ["bytes"]:
            return Inferred("String")
        case ["array"]:
            return _array(seen.elements or Seen())
        case []:
            return Inferred("String")
    return Inferred("String", "json")  # an object, or values of several kinds


def _whole(path: str, numbers: list[Any]) -> Inferred:
    low, high = min(numbers), max(numbers)
    if _TIME_NAME.search(path):
        for unit, per_second, digits in _UNITS:
            if _FIRST * per_second <= low and high < _LAST * per_second:
                return Inferred(f"DateTime64({digits})", unit)
    if low >= -(2**63) and high < 2**63:
        return Inferred("Int64")
    if low >= 0 and high < 2**64:
        return Inferred("UInt64")
    return Inferred("Decimal(38, 0)") if max(-low, high) < 10**38 else Inferred("String", "json")


def _fraction(numbers: list[Any]) -> Inferred:
    """Float64 where it holds each number exactly as written, else a Decimal."""
    if all((isinstance(each, int) and abs(each) <= 2**53) or _is_double(each) for each in numbers):
        return Inferred("Float64")
    return _decimal([Decimal(each) for each in numbers]) or Inferred("Float64")


def _is_double(number: Any) -> bool:
    return isinstance(number, Decimal) and Decimal(repr(float(number))) == number


def _decimal(numbers: list[Decimal]) -> Inferred | None:
    """A Decimal with room for larger numbers than those seen; None if 38 digits are not enough."""
    parts = [number.as_tuple() for number in numbers]
    scale = max(max(-int(part.exponent), 0) for part in parts)
    whole = max(max(len(part.digits) + int(part.exponent), 1) for part in parts)
    if scale + whole > 38:
        return None
    return Inferred(f"Decimal(18, {scale})") if scale + whole <= 14 else Inferred(f"Decimal(38, {scale})")


def _text(seen: Seen) -> Inferred:
    texts = seen.texts
    if _all(texts, _DATE.fullmatch, dt.date.fromisoformat):
        return Inferred("Date32")
    if _all(texts, _TIME.fullmatch, lambda text: dt.datetime.fromisoformat(text[:19])):
        digits = max(len(found[1] or ".") - 1 for text in texts if (found := _TIME.fullmatch(text)))
        return Inferred(f"DateTime64({3 if digits <= 3 else 6 if digits <= 6 else 9})", "iso")
    if _all(texts, lambda text: len(text) == 36, uuid.UUID):
        return Inferred("UUID")
    if _all(texts, lambda text: "." in text, ipaddress.IPv4Address):
        return Inferred("IPv4")
    if _all(texts, lambda text: ":" in text, ipaddress.IPv6Address):
        return Inferred("IPv6")
    if _all(texts, _MONEY.fullmatch, Decimal) and (money := _decimal([Decimal(text) for text in texts])):
        return money
    few = len(seen.distinct) <= min(FEW_DISTINCT, len(texts) // 4)
    if few and len(texts) >= FEWEST_REPEATED and max(map(len, seen.distinct)) <= _MOST_TEXT:
        return Inferred("LowCardinality(String)")
    return Inferred("String")


def _all(texts: list[str], looks: Callable[[str], object], parse: Callable[[str], object]) -> bool:
    """Whether all texts have a form. The first check is cheap."""
    try:
        return all(looks(text) and [parse(text)] for text in texts)
    except ValueError:
        return False


def _array(elements: Seen) -> Inferred:
    """An array of simple values. One with nulls, objects or arrays inside is JSON text."""
    if elements.nulls or not elements.kinds <= {"bool", "int", "float", "decimal", "text"}:
        return Inferred("String", "json")
    if not elements.kinds:
        return Inferred("Array(String)")
    found = infer_type("", elements)
    if found.encoding == "json":
        return found
    return Inferred(f"Array({'String' if elements.kinds == {'text'} else found.type})")
