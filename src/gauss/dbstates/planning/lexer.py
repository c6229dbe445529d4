"""The tokens of SQL, as the server reads it and as psql does before it.

Text is bytes: every character that has a meaning here is ASCII, and every other byte is a letter, whatever the
encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gauss.model.errors import ConfigError

Token = int
# Kinds of tokens: the numbers of the groups in the pattern.
STRING, QUOTED, WORD, NUMBER, VARIABLE, DOLLAR, COMMENT, OPERATOR, BACKSLASH, OTHER = range(1, 11)


class Unterminated(ConfigError):
    """A quote or comment that the text does not end."""

    def __init__(self, what: str, start: int) -> None:
        super().__init__(f"{what} is not terminated")
        self.what, self.start = what, start


_SPACE, _LETTER, _COMMENT = rb"[ \t\n\r\f\v]", rb"[A-Za-z_\x80-\xff]", rb"--[^\n\r]*+"
_WORD = _LETTER + rb"[0-9A-Za-z_$\x80-\xff]*+"
_NAME = rb"[0-9A-Za-z_\x80-\xff]++"
# Literals with nothing but whitespace and a line break between them are one literal.
_NEXT = rb"(?:[ \t\f\v]|" + _COMMENT + rb")*+[\n\r](?:" + _SPACE + rb"|" + _COMMENT + rb"[\n\r])*+"
_PLAIN, _ESCAPED = rb"'(?:[^']++|'')*+'", rb"'(?:[^'\\]++|\\.|'')*+'"
_STRING = rb"(?:[bBxXnN]|[uU]&)?+%b(?:%b%b)*+|[eE]%b(?:%b%b)*+" % (_PLAIN, _NEXT, _PLAIN, _ESCAPED, _NEXT, _ESCAPED)
# Longer than a number of the server where letters follow: then whitespace there counts.
_NUMBER = rb"(?:[0-9]|\.[0-9])(?:[eE][+-](?=[0-9])|[0-9_.])*+(?:" + _WORD + rb")?+"
_PARTS = (
    rb"(" + _STRING + rb")",
    rb'((?:[uU]&)?+"(?:[^"]++|"")*+")',
    rb"((?![eE]')" + _WORD + rb")",
    rb"(" + _NUMBER + rb")",
)
_VARIABLE = rb"(:(?:" + _NAME + rb"|'" + _NAME + rb"'|\"" + _NAME + rb"\"|\{\?" + _NAME + rb"\}))"
_NEVER = rb"((?!))"
_REST = (
    rb"(\$(?:" + _LETTER + rb"[0-9A-Za-z_\x80-\xff]*+)?+\$)",
    rb"(/\*)",
    rb"([~!@#^&|`?+\-*/%<>=]++)",
    rb"(\\[;:]?)",
    rb"(::|:=|\.\.|\$[0-9]++|.)",
)
_BLANK = rb"(?:" + _SPACE + rb"|" + _COMMENT + rb")*+"
_PSQL, _SERVER = (
    re.compile(_BLANK + rb"(?:" + b"|".join((*_PARTS, each, *_REST)) + rb"|\Z)", re.DOTALL)
    for each in (_VARIABLE, _NEVER)
)
_SEGMENT, _SEGMENT_ESCAPED, _BREAK = re.compile(_PLAIN), re.compile(_ESCAPED, re.DOTALL), re.compile(_NEXT)
_NESTING = re.compile(rb"/\*|\*/")
_OPENERS = {b"'": "a quoted string", b"e": "a quoted string", b"E": "a quoted string", b'"': "a quoted identifier"}


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


def token_words(text: str) -> frozenset[bytes]:
    """The words of a text, as tokens."""
    return frozenset(text.encode().split())


def tokens(text: bytes, start: int = 0, *, psql: bool = True) -> Iterator[tuple[Token, int, int]]:
    """Kind, start and end of each token from an offset on; no blanks, and of comments only hints.

    Variables and backslashes are tokens of psql; for the server the former are a colon and a word.
    """
    pattern = _PSQL if psql else _SERVER
    again = True
    while again:
        again = False
        for match in pattern.finditer(text, start):
            kind = match.lastindex
            if kind is None:  # the end of the text
                return
            begin, end = match.span(kind)
            if kind <= VARIABLE:
                yield kind, begin, end
                continue
            if kind == DOLLAR:
                end = _end_of_dollars(text, begin, match[kind])
            elif kind == COMMENT:
                end = _end_of_comment(text, begin)
            elif kind == OPERATOR and end - begin > 1:
                end = _end_of_operator(text, begin, end)
            elif kind == OTHER and match[kind] in _OPENERS:
                raise Unterminated(_OPENERS[match[kind]], begin)
            if kind != COMMENT or text.startswith(b"/*+", begin):
                yield kind, begin, end
            if end != match.end():
                start, again = end, True
                break


def canonical(text: bytes, kind: Token) -> bytes:
    """A token without what does not count: whitespace and comments between the parts of a literal."""
    if kind is not STRING or (b"\n" not in text and b"\r" not in text):
        return text
    segment = _SEGMENT_ESCAPED if text[:1] in b"eE" else _SEGMENT
    at = text.index(b"'")
    parts, prefix = [], text[:at]
    while found := segment.match(text, at):
        parts.append(found.group())
        between = _BREAK.match(text, found.end())
        at = between.end() if between else len(text)
    return prefix + b"\n".join(parts)


def normalized(text: bytes) -> list[bytes]:
    """The tokens of a text as the server reads it."""
    return [canonical(text[start:end], kind) for kind, start, end in tokens(text, psql=False)]


def _end_of_dollars(text: bytes, start: int, delimiter: bytes) -> int:
    end = text.find(delimiter, start + len(delimiter))
    if end < 0:
        raise Unterminated("a dollar-quoted string", start)
    return end + len(delimiter)


def _end_of_comment(text: bytes, start: int) -> int:
    depth = 0
    for match in _NESTING.finditer(text, start):
        depth += 1 if match.group() == b"/*" else -1
        if not depth:
            return match.end()
    raise Unterminated("a /* comment", start)


def _end_of_operator(text: bytes, start: int, end: int) -> int:
    """An operator ends before a comment, and with + or - only if it has a character that no operator of SQL has."""
    found = text[start:end]
    for comment in (b"/*", b"--"):
        if (at := found.find(comment, 1)) > 0:
            found = found[:at]
    while len(found) > 1 and found[-1] in b"+-" and not any(each in b"~!@#^&|`?%" for each in found[:-1]):
        found = found[:-1]
    return start + len(found)
