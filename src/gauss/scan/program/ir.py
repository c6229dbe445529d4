"""The typed form of an expression: what the parser makes, what every backend reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What a value is. Numbers are doubles, as in jq; INT is a whole number that a schema or a literal vouches for,
    and only its comparisons with another INT are exact."""

    ANY = "any"  # nothing says; only truth and comparison with null are asked of it
    NULL = "null"
    BOOL = "bool"
    INT = "int"
    NUMBER = "number"
    STRING = "string"
    OPAQUE = "opaque"  # a typed value without operations here: timestamp, bytes, array


@dataclass(frozen=True)
class Literal:
    value: bool | int | float | str | None
    kind: Kind
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Path:
    """`.a.b`: a field of the record; null when it or anything on the way is missing."""

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
    """`and or == != < <= > >= + - * / %`"""

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


Expr = Literal | Path | Unary | Binary | Call


@dataclass(frozen=True)
class Select:
    """`select(condition)`: drops the rows for which it is not true."""

    condition: Expr


@dataclass(frozen=True)
class Make:
    """`{symbol, mid: (.bid + .ask) / 2}`: a row of these columns."""

    columns: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Value:
    """`.bid * 2`: a row of one value; null is a row too."""

    expr: Expr


Stage = Select | Make | Value

ORDERING = frozenset({"<", "<=", ">", ">="})
EQUALITY = frozenset({"==", "!="})
ARITHMETIC = frozenset({"+", "-", "*", "/", "%"})
LOGIC = frozenset({"and", "or"})
STRING_TESTS = frozenset({"startswith", "endswith", "contains"})
FUNCTIONS = {"length": 0, "startswith": 1, "endswith": 1, "contains": 1}
"""Name → number of arguments."""


@dataclass(frozen=True)
class Program:
    """One expression over a record, with its text for messages."""

    text: str
    root: Expr

    def paths(self) -> list[str]:
        """The fields it reads, each once, in order of appearance."""
        return list(dict.fromkeys(node.name for node in walk(self.root) if isinstance(node, Path)))


@dataclass(frozen=True)
class Typed:
    """A program whose every field has a kind: from the format's schema, else from how the expression uses it."""

    program: Program
    kinds: dict[str, Kind]

    def kind(self, node: Expr) -> Kind:
        """What a node gives (any node may also give null)."""
        match node:
            case Literal():
                return node.kind
            case Path():
                return self.kinds[node.name]
            case Unary("not"):
                return Kind.BOOL
            case Unary():
                return Kind.NUMBER
            case Binary(op="+"):
                return Kind.STRING if Kind.STRING in (self.kind(node.left), self.kind(node.right)) else Kind.NUMBER
            case Binary():
                return Kind.NUMBER if node.op in ARITHMETIC else Kind.BOOL
            case Call(name="length"):
                return Kind.NUMBER
            case _:
                return Kind.BOOL


def children(node: Expr) -> tuple[Expr, ...]:
    match node:
        case Unary():
            return (node.operand,)
        case Binary():
            return (node.left, node.right)
        case Call():
            return (node.subject, *node.arguments)
        case _:
            return ()


def walk(node: Expr) -> Iterator[Expr]:
    """The node and everything below it, in order of the text."""
    yield node
    for child in children(node):
        yield from walk(child)
