"""Typed syntax tree of scan programs: expressions and stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """Type of a value. Numbers are doubles, as in jq. INT is an integer by schema or literal; only comparisons between
    INTs are exact."""

    ANY = "any"  # unknown: only its truth and comparison with null are allowed
    NULL = "null"
    BOOL = "bool"
    INT = "int"
    NUMBER = "number"
    STRING = "string"
    OPAQUE = "opaque"  # a type without operations: timestamp, bytes, array


@dataclass(frozen=True, eq=False)
class Literal:
    """A constant. Unlike in Python, 0.0 and -0.0 are different."""

    value: bool | int | float | str | None
    kind: Kind
    at: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and (self.kind, repr(self.value)) == (other.kind, repr(other.value))

    def __hash__(self) -> int:
        return hash((self.kind, repr(self.value)))


@dataclass(frozen=True)
class Path:
    """`.a.b`: a field of the record, null if any part is missing. `.` (no parts): the single value made by the previous
    stage."""

    parts: tuple[str, ...]
    at: int = field(default=0, compare=False)

    @property
    def name(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Unary:
    """`not x`, `-x`"""

    op: str
    operand: Expr
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Binary:
    """`and or // == != < <= > >= + - * / %`"""

    op: str
    left: Expr
    right: Expr
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Call:
    """`x | name(argument)`"""

    name: str
    subject: Expr
    arguments: tuple[Expr, ...] = ()
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class If:
    """`if condition then a else b end`"""

    condition: Expr
    then: Expr
    other: Expr
    at: int = field(default=0, compare=False)


Expr = Literal | Path | Unary | Binary | Call | If


@dataclass(frozen=True)
class Select:
    """`select(condition)`: keeps the rows for which the condition is true."""

    condition: Expr
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Make:
    """`{symbol, mid: (.bid + .ask) / 2}`: makes a row of these columns."""

    columns: tuple[tuple[str, Expr], ...]
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Value:
    """`.bid * 2`: makes a row of one value, which may be null."""

    expr: Expr
    at: int = field(default=0, compare=False)


Stage = Select | Make | Value

VALUE = "value"
"""Name of the column if the last stage made a value."""

ORDERING = frozenset({"<", "<=", ">", ">="})
EQUALITY = frozenset({"==", "!="})
ARITHMETIC = frozenset({"+", "-", "*", "/", "%"})
LOGIC = frozenset({"and", "or"})
BINARY = LOGIC | EQUALITY | ORDERING | ARITHMETIC | {"//"}
UNARY = frozenset({"not", "-"})

STRING_TESTS = frozenset({"startswith", "endswith", "contains", "test"})
TRIMS = frozenset({"ltrimstr", "rtrimstr"})
CASES = frozenset({"ascii_downcase", "ascii_upcase"})
ROUNDINGS = frozenset({"floor", "ceil", "round", "abs"})
FUNCTIONS = {
    **dict.fromkeys(("length", "tostring", "tonumber"), 0),
    **dict.fromkeys(sorted(CASES | ROUNDINGS), 0),
    **dict.fromkeys(sorted(STRING_TESTS | TRIMS), 1),
}
"""Name → number of arguments. The names are the values of `Capabilities.builtins`."""

LITERAL_ARGUMENT = TRIMS | {"test"}
"""Functions whose argument must be a literal."""

AGGREGATES = ("count", "sum", "min", "max", "avg")
"""Aggregates of the view `agg`."""

MAX_CHARS = 10_000
MAX_NODES = 2_000
MAX_SIZE = 10_000
"""Maximum operations of one column, including those of the columns it reads, counted each time."""
MAX_DEPTH = 100
MAX_NAMES = 256
"""Maximum number of fields that a program reads, and of columns that a stage makes."""
MAX_STAGES = 64
MAX_PARTS = 64
"""Maximum number of parts of a path."""


@dataclass(frozen=True)
class ExpressionProgram:
    """One expression over a record, and its source text."""

    text: str
    root: Expr

    def paths(self) -> list[str]:
        """The fields it reads, each once, in order of appearance."""
        return list(dict.fromkeys(node.name for node in walk(self.root) if isinstance(node, Path)))


@dataclass(frozen=True)
class Typed:
    """A program with the kinds of its fields, from the format's schema or inferred from their use."""

    program: ExpressionProgram
    kinds: dict[str, Kind]

    def kind(self, node: Expr) -> Kind:
        return kind_of(node, self.kinds)


def plain_name(name: str) -> bool:
    """Whether a field or column name is valid: not empty, and without the special characters of paths."""
    return bool(name) and not any(mark in name for mark in '.$[]"`')


Kinds = Mapping[str, Kind]
"""Kinds of the fields that a stage sees; `""` is `.`."""


def kind_of(node: Expr, kinds: Kinds) -> Kind:
    """The kind of a node's value. Any value may also be null."""
    match node:
        case Literal():
            return node.kind
        case Path():
            return kinds[node.name]
        case Unary("not"):
            return Kind.BOOL
        case Unary():
            return Kind.NUMBER
        case Binary(op="+"):
            return (
                Kind.STRING if Kind.STRING in (kind_of(node.left, kinds), kind_of(node.right, kinds)) else Kind.NUMBER
            )
        case Binary(op="//"):
            return joined(kind_of(node.left, kinds), kind_of(node.right, kinds))
        case Binary():
            return Kind.NUMBER if node.op in ARITHMETIC else Kind.BOOL
        case If():
            return joined(kind_of(node.then, kinds), kind_of(node.other, kinds))
        case Call(name=name):
            return _RESULTS.get(name, Kind.BOOL)


_RESULTS = {
    **dict.fromkeys(ROUNDINGS | {"length", "tonumber"}, Kind.NUMBER),
    **dict.fromkeys(CASES | TRIMS | {"tostring"}, Kind.STRING),
}


def joined(left: Kind, right: Kind) -> Kind:
    """The common kind of two alternatives."""
    if left is right or right is Kind.NULL:
        return left
    return right if left is Kind.NULL else Kind.NUMBER


def children(node: Expr) -> tuple[Expr, ...]:
    match node:
        case Unary():
            return (node.operand,)
        case Binary():
            return (node.left, node.right)
        case Call():
            return (node.subject, *node.arguments)
        case If():
            return (node.condition, node.then, node.other)
        case _:
            return ()


def expressions(stage: Stage) -> tuple[Expr, ...]:
    match stage:
        case Select():
            return (stage.condition,)
        case Make():
            return tuple(expr for _, expr in stage.columns)
        case Value():
            return (stage.expr,)


def walk(node: Expr) -> Iterator[Expr]:
    """Yields a node and its descendants in text order, without recursion."""
    waiting = [node]
    while waiting:
        yield (here := waiting.pop())
        waiting.extend(reversed(children(here)))
