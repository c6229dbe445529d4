"""Enough of ClickHouse's grammar to know what a request is: its kind, its format, and where an INSERT's data begin."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    rb"""(?P<skip>\s+|--[^\n]*|\#[ !][^\n]*|/\*.*?\*/)
    |(?P<quoted>'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.|``)*`|"(?:[^"\\]|\\.|"")*"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<other>[0-9][\w.]*|.)""",
    re.DOTALL | re.VERBOSE,
)
_OPEN, _CLOSE = b"([{", b")]}"
_NAME_FOLLOWS = {b"into", b"table", b"."}
_ROWS = {"select", "with", "show", "describe", "desc", "explain", "exists", "check", "kill", "from", "values"}
STREAMED = {"native", "tabseparated", "tsv", "csv", "rowbinary", "jsoneachrow", "arrowstream"}
"""Formats whose blocks can be sent one after the other (Arrow's after its schema was cut from all but the first)."""


class Statement(NamedTuple):
    kind: str
    """The first word, in lower case."""
    format: str | None
    """The format that the text names: of the result, or of an INSERT's data."""
    data_at: int | None
    """Where an INSERT's data begin; None when the engine reads the whole text itself."""
    head: str
    """An INSERT without its SETTINGS, its FORMAT clause and its data; else empty."""
    tail: str = ""
    """An INSERT's SETTINGS."""

    @property
    def gives_rows(self) -> bool:
        return self.kind in _ROWS


def read_statement(text: bytes) -> Statement:
    """Looks at a statement; an INSERT's data behind it are not looked at."""
    kind, found, depth, before = "", None, 0, b""
    clause: re.Match[bytes] | None = None  # a FORMAT whose name must come next
    settings: int | None = None
    for match in _TOKEN.finditer(text):
        group, token = match.lastgroup, match.group()
        if group == "skip":
            continue
        word = token.lower() if group == "word" else b""
        if clause and word:
            found = token.decode()
            if kind == "insert":
                return Statement(kind, found, _data_start(text, match.end()), *_parts(text, settings, clause))
        clause = None
        if group == "other":
            depth += (token in _OPEN) - (token in _CLOSE)
            if token == b";" and depth == 0:
                break
        elif word and not kind:
            kind = word.decode()
        elif word and depth == 0 and before not in _NAME_FOLLOWS:
            if word == b"format":
                clause = match
            elif kind == "insert" and word == b"settings":
                settings = match.start()
            elif kind == "insert" and word == b"values":
                return Statement(kind, "Values", match.end(), *_parts(text, settings, match))
            elif kind == "insert" and word in (b"select", b"with", b"infile", b"watch"):
                break
        before = token.lower()
    return Statement(kind, found, None, "")


def _parts(text: bytes, settings: int | None, clause: re.Match[bytes]) -> tuple[str, str]:
    """What stands before the SETTINGS, and those."""
    end = clause.start()
    cut = end if settings is None else settings
    return text[:cut].decode(errors="surrogateescape"), text[cut:end].decode(errors="surrogateescape")


def _data_start(text: bytes, at: int) -> int:
    """As ClickHouse has it: blanks, then at most one line end, are no data."""
    if text[at : at + 1] == b";":
        at += 1
    while text[at : at + 1] in (b" ", b"\t", b"\f"):
        at += 1
    if text[at : at + 1] == b"\r":
        at += 1
    return at + (text[at : at + 1] == b"\n")
