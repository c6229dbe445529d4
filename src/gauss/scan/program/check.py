"""Type checker of programs: infers and verifies the kinds of fields and operands."""

from __future__ import annotations

from dataclasses import dataclass

from gauss.contracts.expression import (
    ARITHMETIC,
    EQUALITY,
    ORDERING,
    ROUNDINGS,
    VALUE,
    Binary,
    Call,
    Expr,
    ExpressionProgram,
    If,
    Kind,
    Kinds,
    Literal,
    Make,
    Path,
    Stage,
    Typed,
    Unary,
    Value,
    expressions,
    kind_of,
    walk,
)
from gauss.scan.program.fault import ProgramFault, fault

_NUMERIC = (Kind.INT, Kind.NUMBER)
_MAX_PATTERN = 256
_PASSES = 32
"""Maximum number of inference passes over a program."""


@dataclass(frozen=True)
class CheckedStages:
    """Type-checked stages."""

    fields: dict[str, Kind]
    """Fields of a candidate that are read."""
    scopes: tuple[Kinds, ...]
    """Fields or columns that each stage sees."""
    columns: dict[str, Kind] | None
    """Columns of the result. `None`: the candidates unchanged."""


def check(program: ExpressionProgram, fields: Kinds | None = None) -> Typed:
    """Type-checks an expression against the fields of a format, or infers their kinds if there are none.

    `.bid > 100` makes `.bid` a number, `.symbol == "BTC"` a string, `.a == .b` makes both the same.
    """
    return Typed(program, check_stages((Value(program.root),), program.text, fields).fields)


def check_stages(
    stages: tuple[Stage, ...], text: str, fields: Kinds | None = None, known: Kinds | None = None
) -> CheckedStages:
    """Type-checks a program's stages. Without `fields`, kinds are inferred (also from the use of columns in later
    stages), except for those in `known`."""
    return _Checker(stages, text, fields, known or {}).run()


class _Checker:
    def __init__(self, stages: tuple[Stage, ...], text: str, fields: Kinds | None, known: Kinds) -> None:
        self.stages = stages
        self.known = known
        self.text = text
        self.inferred = fields is None
        self.fields: dict[str, Kind] = {}
        self.makers: list[int] = []
        """For each stage, the index of the stage that made its input; -1: the candidate."""
        self.made: dict[int, dict[str, Expr]] = {}
        maker = -1
        for index, stage in enumerate(stages):
            self.makers.append(maker)
            for root in expressions(stage):
                for node in walk(root):
                    if isinstance(node, Path):
                        self._resolve(node, maker, fields)
            if isinstance(stage, Make | Value):
                maker = index
                self.made[index] = dict(stage.columns) if isinstance(stage, Make) else {"": stage.expr}
        self.last = maker
        self.kinds: dict[int, dict[str, Kind]] = {-1: self.fields}

    def run(self) -> CheckedStages:
        nodes = [
            (node, maker)
            for stage, maker in zip(self.stages, self.makers, strict=True)
            for root in expressions(stage)
            for node in walk(root)
        ]
        for _ in range(_PASSES):
            for index, columns in self.made.items():
                seen = self.kinds[self.makers[index]]
                self.kinds[index] = {name: kind_of(expr, seen) for name, expr in columns.items()}
            before = dict(self.fields)
            for node, maker in nodes if self.inferred else ():
                self._infer(node, maker)
            if self.fields == before:
                break
            nodes.reverse()  # alternating directions propagate kinds in fewer passes
        for node, maker in nodes:
            self._verify(node, self.kinds[maker])
        out = None if self.last < 0 else {name or VALUE: kind for name, kind in self.kinds[self.last].items()}
        return CheckedStages(self.fields, tuple(self.kinds[maker] for maker in self.makers), out)

    def _resolve(self, node: Path, maker: int, fields: Kinds | None) -> None:
        if maker >= 0:
            if node.name in (known := self.made[maker]):
                return
            if not node.parts:
                raise self._fault(node, '"." is a whole row here', "name a column, e.g. ." + next(iter(known)))
            if "" in known:
                raise self._fault(
                    node, f'the previous stage makes a single value, without a field "{node.name}"', "use ."
                )
            raise self._fault(
                node, f'the previous stage makes no column "{node.name}"', f"it makes: {', '.join(known)}"
            )
        if not node.parts:
            raise self._fault(node, '"." is a whole record here', "name a field, e.g. .bid")
        if fields is None:
            self.fields.setdefault(node.name, self.known.get(node.name, Kind.ANY))
        elif node.name in fields:
            self.fields[node.name] = fields[node.name]
        else:
            raise self._fault(node, f'the source has no field "{node.name}"', f"it has: {', '.join(fields)}")

    def _infer(self, node: Expr, maker: int) -> None:
        kinds = self.kinds[maker]
        match node:
            case Binary(op=op) if op in ARITHMETIC and op != "+":
                self._use(node.left, Kind.NUMBER, maker)
                self._use(node.right, Kind.NUMBER, maker)
            case Binary(op=op) if op in ORDERING or op in EQUALITY or op in ("+", "//"):
                left, right = kind_of(node.left, kinds), kind_of(node.right, kinds)
                self._use(node.left, right, maker)
                self._use(node.right, left, maker)
            case If():
                then, other = kind_of(node.then, kinds), kind_of(node.other, kinds)
                self._use(node.then, other, maker)
                self._use(node.other, then, maker)
            case Unary(op="-"):
                self._use(node.operand, Kind.NUMBER, maker)
            case Call(name=name) if name in ROUNDINGS:
                self._use(node.subject, Kind.NUMBER, maker)
            case Call(name=name) if name != "tostring":
                for operand in (node.subject, *node.arguments):
                    self._use(operand, Kind.STRING, maker)

    def _use(self, node: Expr, kind: Kind, maker: int) -> None:
        if kind in (Kind.ANY, Kind.NULL, Kind.OPAQUE):
            return
        match node:
            case Binary(op="+" | "//"):  # these have the kind of their operands
                self._use(node.left, kind, maker)
                self._use(node.right, kind, maker)
            case If():
                self._use(node.then, kind, maker)
                self._use(node.other, kind, maker)
            case Path() if maker >= 0:
                self._use(self.made[maker][node.name], kind, self.makers[maker])
            case Path() if node.name not in self.known:
                # Without a schema a number may have a fraction, even if it is compared with an integer.
                kind = Kind.NUMBER if kind is Kind.INT else kind
                known = self.fields[node.name]
                if known is Kind.ANY:
                    self.fields[node.name] = kind
                elif known is not kind:
                    message = f".{node.name} is used as a {known} and as a {kind}"
                    raise self._fault(node, message, "give the format `fields`")

    def _verify(self, node: Expr, kinds: Kinds) -> None:
        match node:
            case Binary(op=op) if op in EQUALITY or op == "//":
                kind = self._alike(node, op, node.left, node.right, kinds, allow_null=True)
                if op == "//" and kind is Kind.NULL and kind_of(node, kinds) in (Kind.ANY, Kind.OPAQUE):
                    raise self._fault(node, "// needs operands of a known kind", "give the format `fields`")
            case Binary(op=op) if op in ORDERING or op == "+":
                kind = self._alike(node, op, node.left, node.right, kinds, allow_null=False)
                if kind is Kind.BOOL:
                    raise self._fault(node, f"{op} is not defined for booleans")
            case If():
                self._alike(node, "if … else", node.then, node.other, kinds, allow_null=True)
            case Binary(op=op) if op in ARITHMETIC:
                self._want(node.left, _NUMERIC, op, kinds)
                self._want(node.right, _NUMERIC, op, kinds)
            case Unary(op="-"):
                self._want(node.operand, _NUMERIC, "-", kinds)
            case Call(name=name) if name in ROUNDINGS:
                self._want(node.subject, _NUMERIC, name, kinds)
            case Call(name="tostring"):
                self._want(node.subject, (Kind.BOOL, Kind.INT, Kind.STRING), "tostring", kinds)
            case Call(name=name):
                for operand in (node.subject, *node.arguments):
                    self._want(operand, (Kind.STRING,), name, kinds)
                if name == "test":
                    self._pattern(node.arguments[0])

    def _alike(self, node: Expr, op: str, a: Expr, b: Expr, kinds: Kinds, *, allow_null: bool) -> Kind:
        left, right = kind_of(a, kinds), kind_of(b, kinds)
        if allow_null and Kind.NULL in (left, right):
            return Kind.NULL
        if left in _NUMERIC and right in _NUMERIC:
            return Kind.NUMBER
        if left is Kind.ANY or right is Kind.ANY:
            raise self._fault(
                node, f"the kind of the operands of {op} is unknown", "give the format `fields`, or use a literal"
            )
        if left is not right or left in (Kind.OPAQUE, Kind.NULL):
            raise self._fault(node, f"{op} is not defined between {left} and {right}")
        return left

    def _want(self, node: Expr, kinds: tuple[Kind, ...], name: str, seen: Kinds) -> None:
        found = kind_of(node, seen)
        if found not in kinds:
            raise self._fault(node, f"{name} needs a {_named(kinds)}, found {found}")

    def _pattern(self, node: Expr) -> None:
        # Imported here: only programs with a pattern need RE2.
        from gauss.scan.program.arrow import pattern_error

        assert isinstance(node, Literal) and isinstance(node.value, str)
        if len(node.value) > _MAX_PATTERN:
            raise self._fault(node, f"a pattern may have {_MAX_PATTERN} characters (got {len(node.value)})")
        if wrong := pattern_error(node.value):
            raise self._fault(node, f"invalid pattern: {wrong}", "patterns have the syntax of RE2")

    def _fault(self, node: Expr, message: str, hint: str = "") -> ProgramFault:
        return fault(self.text, node.at, message, hint)


def _named(kinds: tuple[Kind, ...]) -> str:
    return "number" if kinds == _NUMERIC else " or ".join(kinds)
