"""Kinds: every operation gets operands it is defined for, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping

from gauss.model.errors import ConfigError
from gauss.scan.program.ir import (
    ARITHMETIC,
    EQUALITY,
    ORDERING,
    STRING_TESTS,
    Binary,
    Call,
    Expr,
    Kind,
    Path,
    Program,
    Typed,
    Unary,
    children,
)
from gauss.scan.program.parse import fault

_NUMERIC = (Kind.INT, Kind.NUMBER)


def check(program: Program, fields: Mapping[str, Kind] | None = None) -> Typed:
    """Types a program by a format's fields, or by the use it makes of them when there are none.

    `.bid > 100` makes `.bid` a number, `.symbol == "BTC"` a string, `.a == .b` makes both the same.
    """
    return _Checker(program, fields).run()


class _Checker:
    def __init__(self, program: Program, fields: Mapping[str, Kind] | None) -> None:
        self.program = program
        self.inferred = fields is None
        self.kinds: dict[str, Kind] = dict.fromkeys(program.paths(), Kind.ANY)
        if fields is not None:
            for name in self.kinds:
                if name not in fields:
                    raise ConfigError(f'the input format has no field "{name}"', hint=f"it has: {', '.join(fields)}")
                self.kinds[name] = fields[name]
        self.typed = Typed(program, self.kinds)

    def run(self) -> Typed:
        while True:
            before = dict(self.kinds)
            self._infer(self.program.root)
            if self.kinds == before:
                break
        self._verify(self.program.root)
        return self.typed

    def _infer(self, node: Expr) -> None:
        match node:
            case Binary(op=op) if op in ARITHMETIC and op != "+":
                self._use(node.left, Kind.NUMBER)
                self._use(node.right, Kind.NUMBER)
            case Binary(op=op) if op in ORDERING or op in EQUALITY or op == "+":
                left, right = self.typed.kind(node.left), self.typed.kind(node.right)
                self._use(node.left, right)
                self._use(node.right, left)
            case Unary(op="-"):
                self._use(node.operand, Kind.NUMBER)
            case Call():
                self._use(node.subject, Kind.STRING)
                for argument in node.arguments:
                    self._use(argument, Kind.STRING)
        for child in children(node):
            self._infer(child)

    def _use(self, node: Expr, kind: Kind) -> None:
        if kind in (Kind.ANY, Kind.NULL) or not self.inferred:
            return
        if isinstance(node, Binary) and node.op == "+":  # numbers or strings, as its surroundings say
            self._use(node.left, kind)
            self._use(node.right, kind)
        if not isinstance(node, Path):
            return
        # A number without a schema may come with a fraction, whatever the literal beside it looks like.
        kind = Kind.NUMBER if kind is Kind.INT else kind
        known = self.kinds[node.name]
        if known is Kind.ANY:
            self.kinds[node.name] = kind
        elif known is not kind:
            raise self._fault(node, f".{node.name} is used as a {known} and as a {kind}", "give the format `fields`")

    def _verify(self, node: Expr) -> None:
        for child in children(node):
            self._verify(child)
        match node:
            case Binary(op=op) if op in EQUALITY:
                self._alike(node, allow_null=True)
            case Binary(op=op) if op in ORDERING:
                kind = self._alike(node, allow_null=False)
                if kind is Kind.BOOL:
                    raise self._fault(node, f"{op} is not defined for booleans")
            case Binary(op="+"):
                kind = self._alike(node, allow_null=False)
                if kind is Kind.BOOL:
                    raise self._fault(node, "+ is not defined for booleans")
            case Binary(op=op) if op in ARITHMETIC:
                self._want(node.left, _NUMERIC, op)
                self._want(node.right, _NUMERIC, op)
            case Unary(op="-"):
                self._want(node.operand, _NUMERIC, "-")
            case Call(name=name):
                self._want(node.subject, (Kind.STRING,), name)
                for argument in node.arguments if name in STRING_TESTS else ():
                    self._want(argument, (Kind.STRING,), name)

    def _alike(self, node: Binary, *, allow_null: bool) -> Kind:
        left, right = self.typed.kind(node.left), self.typed.kind(node.right)
        if allow_null and Kind.NULL in (left, right):
            return Kind.NULL
        if left in _NUMERIC and right in _NUMERIC:
            return Kind.NUMBER
        if left is Kind.ANY or right is Kind.ANY:
            raise self._fault(
                node, f"nothing says what the operands of {node.op} are", "give the format `fields`, or use a literal"
            )
        if left is not right or left in (Kind.OPAQUE, Kind.NULL):
            raise self._fault(node, f"{node.op} is not defined between {left} and {right}")
        return left

    def _want(self, node: Expr, kinds: tuple[Kind, ...], name: str) -> None:
        found = self.typed.kind(node)
        if found not in kinds:
            raise self._fault(node, f"{name} needs a {kinds[-1]}, found {found}")

    def _fault(self, node: Expr, message: str, hint: str = "") -> ConfigError:
        return fault(self.program.text, node.at, message, hint)
