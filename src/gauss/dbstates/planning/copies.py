"""What COPY reads and writes: the files and programs that its text names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from gauss.dbstates.planning.effects import split
from gauss.dbstates.planning.lexer import Unterminated, tokens

Side = Literal["stdin", "file", "program", "output"]
_TARGET = re.compile(rb"\s*(program\s+)?('(?:[^']|'')*'|\S+)", re.IGNORECASE)
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


@dataclass(frozen=True)
class Copy:
    """One COPY: where rows come from or go to."""

    side: Side
    path: bytes = b""
    before: bytes = b""
    after: bytes = b""
    """Of a \\copy: its text on both sides of the file."""
    outside: bool = False
    """Of a \\copy: from the standard input of psql in place of the script."""


def statements(found: list[bytes]) -> list[Copy]:
    """The COPY statements among the statements of a text."""
    copies = []
    for each in split(found):
        if each[0].lower() == b"copy" and (copy := _statement(each)):
            copies.append(copy)
    return copies


def _statement(found: list[bytes]) -> Copy | None:
    depth = 0
    for i, token in enumerate(found[:-1]):
        depth += (token == b"(") - (token == b")")
        if depth or token.lower() not in (b"from", b"to"):
            continue
        target = found[i + 1]
        if token.lower() == b"to":
            return Copy("output", _unquoted(target) if target[:1] in b"'eE" and b"'" in target else b"")
        if target.lower() == b"stdin":
            return Copy("stdin")
        if target.lower() == b"program":
            return Copy("program", found[i + 2] if i + 2 < len(found) else b"")
        return Copy("file", _unquoted(target))
    return None


def _unquoted(token: bytes) -> bytes:
    if token[:1] == b"$":
        return token[token.find(b"$", 1) + 1 : token.rfind(b"$", 0, -1)]
    escaped = token[:1] in b"eE"
    text = token[token.find(b"'") + 1 : -1].replace(b"''", b"'")
    return _ESCAPED.sub(rb"\1", text) if escaped else text


def command(line: bytes) -> Copy | None:
    """The arguments of \\copy; None if psql would refuse them."""
    depth = 0
    try:
        for _, start, end in tokens(line, psql=False):
            token = line[start:end].lower()
            depth += (token == b"(") - (token == b")")
            if depth or token not in (b"from", b"to") or not start:
                continue
            target = _TARGET.match(line, end)
            if target is None:
                return None
            before, after = line[:end], line[target.end() :]
            quoted = target.group(2).startswith(b"'")
            path = target.group(2)[1:-1].replace(b"''", b"'") if quoted else target.group(2)
            if target.group(1):
                return Copy("program", path, before, after)
            if token == b"to":
                return Copy("output", path, before, after)
            if not quoted and path.lower() in (b"stdin", b"pstdin"):
                return Copy("stdin", b"", before, after, outside=path.lower() == b"pstdin")
            return Copy("file", path, before, after)
    except Unterminated:
        pass
    return None
