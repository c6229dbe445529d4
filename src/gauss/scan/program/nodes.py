"""Binary encoding of expressions: each node is a tag, its position in the text, its values and its children."""

from __future__ import annotations

from gauss.contracts.expression import (
    BINARY,
    FUNCTIONS,
    LITERAL_ARGUMENT,
    MAX_CHARS,
    MAX_DEPTH,
    MAX_NODES,
    MAX_PARTS,
    UNARY,
    Binary,
    Call,
    Expr,
    If,
    Kind,
    Literal,
    Path,
    Unary,
    plain_name,
)
from gauss.scan.program.wire import Reader, Writer

_NULL, _FALSE, _TRUE, _INT, _NUMBER, _STRING, _PATH, _UNARY, _BINARY, _CALL, _IF = range(11)
_TAGS = 11
# The index is the number on the wire: append only.
_UNARIES = ("not", "-")
_BINARIES = ("and", "or", "//", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%")
_FUNCTIONS = (
    *("length", "startswith", "endswith", "contains", "test", "ltrimstr", "rtrimstr", "ascii_downcase", "ascii_upcase"),
    *("tostring", "tonumber", "floor", "ceil", "round", "abs"),
)
assert set(_UNARIES) == UNARY and set(_BINARIES) == BINARY and set(_FUNCTIONS) == FUNCTIONS.keys()
_CONSTANTS = {_NULL: (None, Kind.NULL), _FALSE: (False, Kind.BOOL), _TRUE: (True, Kind.BOOL)}


def write_node(out: Writer, node: Expr) -> None:
    """Encodes a node and its children."""
    match node:
        case Literal():
            _write_literal(out, node)
        case Path():
            _begin(out, _PATH, node)
            out.unsigned(len(node.parts))
            for part in node.parts:
                out.text(part)
        case Unary():
            _begin(out, _UNARY, node)
            out.byte(_UNARIES.index(node.op))
            write_node(out, node.operand)
        case Binary():
            _begin(out, _BINARY, node)
            out.byte(_BINARIES.index(node.op))
            write_node(out, node.left)
            write_node(out, node.right)
        case Call():
            _begin(out, _CALL, node)
            out.byte(_FUNCTIONS.index(node.name))
            for operand in (node.subject, *node.arguments):
                write_node(out, operand)
        case If():
            _begin(out, _IF, node)
            for branch in (node.condition, node.then, node.other):
                write_node(out, branch)


def _begin(out: Writer, tag: int, node: Expr) -> None:
    out.byte(tag)
    out.unsigned(node.at)


def _write_literal(out: Writer, node: Literal) -> None:
    value = node.value
    if value is None or isinstance(value, bool):
        _begin(out, {None: _NULL, False: _FALSE, True: _TRUE}[value], node)
    elif isinstance(value, str):
        _begin(out, _STRING, node)
        out.text(value)
    elif node.kind is Kind.INT:
        _begin(out, _INT, node)
        out.signed(int(value))
    else:
        _begin(out, _NUMBER, node)
        out.double(value)


class Nodes:
    """Decodes the nodes of one program, within the size limits."""

    def __init__(self, data: Reader) -> None:
        self._data = data
        self._left = MAX_NODES

    def read(self, depth: int = 1) -> Expr:
        """Decodes the next node and its children."""
        data = self._data
        self._left -= 1
        if self._left < 0:
            data.fault(f"more than {MAX_NODES} operations")
        if depth > MAX_DEPTH:
            data.fault(f"nested deeper than {MAX_DEPTH} levels")
        tag, at = data.byte(_TAGS), data.unsigned(MAX_CHARS)
        match tag:
            case 0 | 1 | 2:
                value, kind = _CONSTANTS[tag]
                return Literal(value, kind, at)
            case 3:
                return Literal(data.signed(), Kind.INT, at)
            case 4:
                return Literal(data.double(), Kind.NUMBER, at)
            case 5:
                return Literal(data.text(), Kind.STRING, at)
            case 6:
                return self._path(at)
            case 7:
                return Unary(_UNARIES[data.byte(len(_UNARIES))], self.read(depth + 1), at)
            case 8:
                op = _BINARIES[data.byte(len(_BINARIES))]
                return Binary(op, self.read(depth + 1), self.read(depth + 1), at)
            case 9:
                return self._call(depth, at)
        return If(self.read(depth + 1), self.read(depth + 1), self.read(depth + 1), at)

    def _path(self, at: int) -> Path:
        parts = tuple(self._data.text() for _ in range(self._data.unsigned(MAX_PARTS)))
        if not all(map(plain_name, parts)):
            self._data.fault("invalid field name")
        return Path(parts, at)

    def _call(self, depth: int, at: int) -> Call:
        name = _FUNCTIONS[self._data.byte(len(_FUNCTIONS))]
        subject = self.read(depth + 1)
        arguments = tuple(self.read(depth + 1) for _ in range(FUNCTIONS[name]))
        if name in LITERAL_ARGUMENT and not isinstance(arguments[0], Literal):
            self._data.fault(f"{name} takes a literal")
        return Call(name, subject, arguments, at)
