"""Parses the view at the beginning of a program, which selects the candidates."""

from __future__ import annotations

from collections.abc import Callable

from gauss.contracts.cursor import Agg, KeyRange, Last, OffsetRange, Point, Prefix, Seq, TimeRange, View
from gauss.contracts.expression import AGGREGATES, MAX_NAMES, Kind, Literal, Path
from gauss.scan.program.build import Argument, Invocation, Misplaced, named

_RANGE = 'range(from: 10, to: 20), range(ts: 1700000000000, 1700000060000) or range(key: "a", "b")'


def build_view(call: Invocation) -> tuple[View, str]:
    """The view, and the name of its format (empty if none)."""
    if call.name not in VIEWS:
        raise Misplaced(call.at, f"unknown view {call.name}: there are {', '.join(_known())}")
    arguments, format_name = list(call.arguments), ""
    for argument in call.arguments:
        if argument.label == "format" and call.name != "agg":
            arguments.remove(argument)
            format_name = _string(argument, "format")
    return VIEWS[call.name](call, arguments), format_name


def _seq(call: Invocation, arguments: list[Argument]) -> View:
    if not arguments:
        return Seq()
    if len(arguments) != 1 or arguments[0].label != "from":
        raise Misplaced(call.at, "seq takes from: and format:", "seq(from: 10)")
    return Seq(_whole(arguments[0], "from"))


def _range(call: Invocation, arguments: list[Argument]) -> View:
    labels = [argument.label for argument in arguments]
    match labels:
        case ["from"] | ["offset"]:
            return OffsetRange(_whole(arguments[0], labels[0]))
        case ["from", "to"] | ["offset", "" | "to"]:
            start, stop = _whole(arguments[0], labels[0]), _whole(arguments[1], "to")
            if stop < start:
                raise Misplaced(arguments[1].at, f"expected a range with from ≤ to (got {start} to {stop})")
            return OffsetRange(start, stop)
        case ["ts"]:
            return TimeRange(_whole(arguments[0], "ts"))
        case ["ts", "" | "to"]:
            begin, end = _whole(arguments[0], "ts"), _whole(arguments[1], "to")
            if end < begin:
                raise Misplaced(arguments[1].at, f"expected a range with from ≤ to (got {begin} to {end})")
            return TimeRange(begin, end)
        case ["key"]:
            return KeyRange(_bound(arguments[0]), None)
        case ["key", "" | "to"]:
            return KeyRange(_bound(arguments[0]), _bound(arguments[1]))
    raise Misplaced(call.at, "range takes offsets, times or keys", _RANGE)


def _prefix(call: Invocation, arguments: list[Argument]) -> View:
    return Prefix(_string(_only(call, arguments, 'prefix("BT")'), "prefix"))


def _point(call: Invocation, arguments: list[Argument]) -> View:
    argument = _only(call, arguments, 'point(last) or point("BTC")')
    if isinstance(argument.value, Invocation) and argument.value.name == "last" and not argument.value.arguments:
        return Last()
    return Point(_string(argument, "point"))


def _agg(call: Invocation, arguments: list[Argument]) -> View:
    made: dict[str, tuple[str, str, str]] = {}
    for argument in arguments:
        name, what = argument.label, argument.value
        if not name or not isinstance(what, Invocation) or what.name not in AGGREGATES:
            raise Misplaced(
                argument.at, f"agg takes names and {', '.join(AGGREGATES)}", "agg(n: count, high: max(.bid))"
            )
        if name in made:
            raise Misplaced(argument.at, f'duplicate column "{name}"')
        made[named(name, argument.at)] = (name, what.name, _aggregated(what))
    if not 0 < len(made) <= MAX_NAMES:
        raise Misplaced(call.at, f"agg takes 1 to {MAX_NAMES} aggregates (got {len(made)})", "agg(n: count)")
    return Agg(tuple(made.values()))


def _aggregated(call: Invocation) -> str:
    wanted = call.name != "count"
    if len(call.arguments) != wanted or any(argument.label for argument in call.arguments):
        raise Misplaced(call.at, f"{call.name} takes {'one field' if wanted else 'no argument'}", "max(.bid)")
    if not wanted:
        return ""
    value = call.arguments[0].value
    if not isinstance(value, Path) or not value.parts:
        raise Misplaced(call.arguments[0].at, f"{call.name} takes a field such as .bid")
    return value.name


def _undeclared(call: Invocation, _: list[Argument]) -> View:
    raise Misplaced(call.at, f"no source has the view {call.name}", f"views: {', '.join(_known())}")


def _known() -> list[str]:
    """The views that at least one source has."""
    return [name for name, build in VIEWS.items() if build is not _undeclared]


VIEWS: dict[str, Callable[[Invocation, list[Argument]], View]] = {
    "seq": _seq,
    "range": _range,
    "prefix": _prefix,
    "point": _point,
    "agg": _agg,
    "knn": _undeclared,
    "bitmap": _undeclared,
}


def _only(call: Invocation, arguments: list[Argument], example: str) -> Argument:
    if len(arguments) != 1 or arguments[0].label:
        raise Misplaced(call.at, f"{call.name} takes one argument", example)
    return arguments[0]


def _whole(argument: Argument, name: str) -> int:
    match argument.value:
        case Literal(value=int(value), kind=Kind.INT) if value >= 0:
            return value
    raise Misplaced(argument.at, f"{name} takes an integer from 0 up")


def _string(argument: Argument, name: str) -> str:
    match argument.value:
        case Literal(value=str(value)):
            return value
    raise Misplaced(argument.at, f'{name} takes a string, e.g. "BTC"')


def _bound(argument: Argument) -> str | None:
    match argument.value:
        case Literal(kind=Kind.NULL):
            return None
    return _string(argument, "key")
