"""A minimal parser of ClickHouse statements: their kind, their format, and where the data of an INSERT begins."""

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
"""Formats whose blocks can be concatenated (Arrow: after removing the schema from all but the first)."""


class Statement(NamedTuple):
    kind: str
    """The first word, in lower case."""
    format: str | None
    """The format that the statement names: of its result, or of the data of an INSERT."""
    data_at: int | None
    """Position of the data of an INSERT; None if the engine parses the whole text."""
    head: str
    """An INSERT without its SETTINGS, FORMAT clause and data; else empty."""
    tail: str = ""
    """The SETTINGS of an INSERT."""

    @property
    def gives_rows(self) -> bool:
        return self.kind in _ROWS


def read_statement(text: bytes) -> Statement:
    """Parses a statement; the data of an INSERT is not examined."""
    kind, found, depth, before = "", None, 0, b""
    clause: re.Match[bytes] | None = None  # FORMAT, whose name comes next
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
    """The text before the SETTINGS, and the SETTINGS."""
    end = clause.start()
    cut = end if settings is None else settings
    return text[:cut].decode(errors="surrogateescape"), text[cut:end].decode(errors="surrogateescape")


def _data_start(text: bytes, at: int) -> int:
    """Skips blanks and at most one line end before the data, as ClickHouse does."""
    if text[at : at + 1] == b";":
        at += 1
    while text[at : at + 1] in (b" ", b"\t", b"\f"):
        at += 1
    if text[at : at + 1] == b"\r":
        at += 1
    return at + (text[at : at + 1] == b"\n")
