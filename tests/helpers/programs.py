"""Random programs and rows, for tests that compare backends."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from gauss.contracts.expression import Kind

Draw = Callable[[st.SearchStrategy[Any]], Any]
Scope = dict[str, Kind]
"""Paths and the kinds of their fields."""

FIELDS = {
    "n": Kind.NUMBER,
    "p.q": Kind.NUMBER,
    "i": Kind.INT,
    "u": Kind.INT,
    "s": Kind.STRING,
    "t": Kind.STRING,
    "b": Kind.BOOL,
    "j": Kind.ANY,
}
ARROW = pa.schema(
    [
        ("n", pa.float64()),
        ("p.q", pa.float64()),
        ("i", pa.int64()),
        ("u", pa.decimal128(20, 0)),
        ("s", pa.string()),
        ("t", pa.string()),
        ("b", pa.bool_()),
        ("j", pa.string()),
    ]
)

_TEXT = st.text(st.sampled_from("aAbZé😀 1\u2028"), max_size=4) | st.sampled_from(
    ["12", "-1.5e3", "1e999", "01", "ab\n"]
)
_SPECIAL = [0.0, -0.0, 0.5, -2.5, 1e308, 5e-324, 0.1, 0.49999999999999994, 2.0**53, math.nan, math.inf, -math.inf]
_FLOATS = st.floats() | st.sampled_from(_SPECIAL) | st.sampled_from(_SPECIAL)
_SMALL = st.integers(-3, 3)


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


ROWS = st.fixed_dictionaries(
    {
        "n": _maybe(_FLOATS),
        "p.q": _maybe(_FLOATS | _SMALL.map(float)),
        "i": _maybe(_SMALL | st.integers(-(2**63), 2**63 - 1)),
        "u": _maybe(_SMALL | st.integers(0, 2**64 - 1)).map(lambda value: value if value is None else Decimal(value)),
        "s": _maybe(_TEXT),
        "t": _maybe(_TEXT),
        "b": _maybe(st.booleans()),
        "j": _maybe(st.sampled_from(["1", "false", "true", '"x"', "[1,2]", '"false"'])),
    }
)


@st.composite
def expressions(draw: Draw) -> str:
    """A random expression over the fields."""
    return _any(draw, _input(), 3)[0]


@st.composite
def programs(draw: Draw) -> str:
    """A random program of up to four stages over the fields."""
    scope, stages = _input(), []
    for _ in range(draw(st.integers(1, 4))):
        match draw(st.sampled_from(["make", "make", "value", "select"])):
            case "select":
                stages.append(f"select({_truth(draw, scope, 2)})")
            case "make":
                names = draw(
                    st.lists(st.sampled_from(["x", "y", "z", "and", "a b"]), min_size=1, max_size=3, unique=True)
                )
                made = {name: _any(draw, scope, 2) for name in names}
                stages.append("{" + ", ".join(f"{json.dumps(name)}: {made[name][0]}" for name in made) + "}")
                scope = {f".[{json.dumps(name)}]": kind for name, (_, kind) in made.items()}
            case "value":
                text, kind = _any(draw, scope, 2)
                stages.append(text)
                scope = {".": kind}
    return " | ".join(stages)


def _input() -> Scope:
    return {"." + name: kind for name, kind in FIELDS.items()}


def _any(draw: Draw, scope: Scope, depth: int) -> tuple[str, Kind]:
    match draw(st.sampled_from(["number", "number", "string", "truth", "path", "null"])):
        case "number":
            return _number(draw, scope, depth)
        case "string":
            return _string(draw, scope, depth), Kind.STRING
        case "truth":
            return _truth(draw, scope, depth), Kind.BOOL
        case "path":
            path = draw(st.sampled_from(sorted(scope)))
            return path, scope[path]
    return "null", Kind.NULL


def _leaf(draw: Draw, scope: Scope, kinds: tuple[Kind, ...], literals: list[str]) -> str:
    paths = sorted(path for path, kind in scope.items() if kind in kinds)
    return str(draw(st.sampled_from([*paths, *paths, *paths, *literals])))


def _number(draw: Draw, scope: Scope, depth: int) -> tuple[str, Kind]:
    """A numeric expression. Its kind is INT only for a literal or a field."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        text = _leaf(draw, scope, (Kind.INT, Kind.NUMBER), ["0", "1", "2.5", "-3", "1e300", "9007199254740993", "-0.5"])
        return text, scope.get(text, Kind.INT if text.lstrip("-").isdigit() else Kind.NUMBER)

    def inner() -> tuple[str, Kind]:
        return _number(draw, scope, depth - 1)

    match draw(st.sampled_from(["arithmetic", "arithmetic", "negate", "length", "round", "parse", "choice", "else"])):
        case "arithmetic":
            return f"({inner()[0]} {draw(st.sampled_from('+-*/%'))} {inner()[0]})", Kind.NUMBER
        case "negate":
            return f"(-({inner()[0]}) + 0)", Kind.NUMBER
        case "length":
            return f"({_string(draw, scope, depth - 1)} | length)", Kind.NUMBER
        case "round":
            return f"({inner()[0]} | {draw(st.sampled_from(['floor', 'ceil', 'round', 'abs']))})", Kind.NUMBER
        case "parse":
            return f"({_string(draw, scope, depth - 1)} | tonumber)", Kind.NUMBER
        case "choice":
            (a, left), (b, right) = inner(), inner()
            return f"(if {_truth(draw, scope, 0)} then {a} else {b} end)", left if left is right else Kind.NUMBER
    (a, left), (b, right) = inner(), inner()
    return f"({a} // {b})", left if left is right else Kind.NUMBER


def _string(draw: Draw, scope: Scope, depth: int) -> str:
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return _leaf(draw, scope, (Kind.STRING,), ['""', '"a"', json.dumps(draw(_TEXT))])

    def inner() -> str:
        return _string(draw, scope, depth - 1)

    match draw(st.sampled_from(["concat", "case", "trim", "show", "choice", "else"])):
        case "concat":
            return f"({inner()} + {inner()})"
        case "case":
            return f"({inner()} | {draw(st.sampled_from(['ascii_downcase', 'ascii_upcase']))})"
        case "trim":
            name = draw(st.sampled_from(["ltrimstr", "rtrimstr"]))
            return f"({inner()} | {name}({json.dumps(draw(st.text('aé', max_size=2)))}))"
        case "show":
            whole = _leaf(draw, scope, (Kind.INT, Kind.BOOL, Kind.STRING), ["7", "true"])
            return f"({whole} | tostring)"
        case "choice":
            return f"(if {_truth(draw, scope, 0)} then {inner()} else {draw(st.sampled_from(['null', inner()]))} end)"
    return f"({inner()} // {inner()})"


def _truth(draw: Draw, scope: Scope, depth: int) -> str:
    order, equal = st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.sampled_from(["==", "!="])
    if depth and draw(st.integers(0, 2)):

        def inner() -> str:
            return _truth(draw, scope, depth - 1)

        match draw(st.sampled_from(["and", "or", "not", "|not", "//"])):
            case "not":
                return f"(not {inner()})"
            case "|not":
                return f"({inner()} | not)"
            case op:
                return f"({inner()} {op} {inner()})" if op != "//" else f"({inner()} == true // {inner()} == true)"
    match draw(st.sampled_from(["numbers", "strings", "null", "test", "match", "path"])):
        case "numbers":
            return f"({_number(draw, scope, 1)[0]} {draw(order)} {_number(draw, scope, 1)[0]})"
        case "strings":
            return f"({_string(draw, scope, 1)} {draw(order)} {_string(draw, scope, 1)})"
        case "null":
            return f"({draw(st.sampled_from(sorted(scope)))} {draw(equal)} null)"
        case "test":
            name = draw(st.sampled_from(["startswith", "endswith", "contains"]))
            return f"({_string(draw, scope, 1)} | {name}({_string(draw, scope, 0)}))"
        case "match":
            pattern = draw(st.sampled_from(["^a", "[0-9]+", "(a|é)*$", ".", ""]))
            return f"({_string(draw, scope, 1)} | test({json.dumps(pattern)}))"
    path = draw(st.sampled_from(sorted(scope)))
    return f"({path} != null)" if scope[path] is not Kind.BOOL else path


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=ARROW)


def same(a: Any, b: Any) -> bool:
    """Equality with the sign of zero; an integer may equal a float."""
    if isinstance(a, float) and isinstance(b, float):
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        return a is not None and b is not None and int(a) == int(b)
    return type(a) is type(b) and bool(a == b)
