"""The statements and backslash commands of a script, as psql cuts it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gauss.dbstates.planning.arguments import command_name
from gauss.dbstates.planning.lexer import (
    BACKSLASH,
    NUMBER,
    STRING,
    VARIABLE,
    WORD,
    Unterminated,
    canonical,
    normalized,
    tokens,
)
from gauss.dbstates.planning.variables import Unknown, Variables, name_of
from gauss.model.errors import ConfigError

_DEFINES = ([b"create", b"function"], [b"create", b"procedure"])
EXACT = b"\0exact"
"""In place of the first token of a statement that counts letter by letter."""


@dataclass
class Statement:
    """An SQL statement that psql sends; more than one where `\\;` separates them."""

    line: int
    tokens: list[bytes]
    """As the server reads them, with the variables expanded. Of a statement whose tokens depend on a value that is only
    known while it runs, the text itself."""
    source: list[bytes]
    """The tokens as they are written."""
    start: int
    end: int
    variables: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Slash:
    """A backslash command; its arguments are still to be read."""

    name: str
    line: int
    start: int
    arguments_at: int


@dataclass
class _Pending:
    """The statement that is being read."""

    start: int = -1
    line: int = 0
    tokens: list[bytes] = field(default_factory=list)
    edits: list[tuple[int, int, bytes]] = field(default_factory=list)
    """Parts of the text in place of which the server gets another one."""
    parens: int = 0
    begins: int = 0
    head: list[bytes] = field(default_factory=list)
    exact: bool = False
    """Whether its text counts as it is, since a part of it is not known."""
    variables: set[str] = field(default_factory=set)

    @property
    def plain(self) -> bool:
        """Whether no word can begin the body of a function any more."""
        return len(self.head) >= 4 and self.head[:2] not in _DEFINES

    def saved(self) -> tuple[int, int]:
        return len(self.tokens), self.parens


class Scanner:
    """Reads a script from its beginning to its end. The caller reads the arguments of commands and finds their end."""

    def __init__(self, text: bytes, label: str, variables: Variables, *, start: int = 0) -> None:
        self.text, self.label, self.variables = text, label, variables
        self.position = start
        self.active = True
        """Whether statements are executed: not in a branch of \\if that is not taken."""
        self._pending = _Pending()
        self._line, self._counted = 1, 0
        self._stream: Iterator[tuple[int, int, int]] | None = None

    @property
    def idle(self) -> bool:
        """Whether no statement has begun."""
        return not self._pending.tokens

    def line_of(self, offset: int) -> int:
        """The line of an offset; fastest if it is not before the last one."""
        if offset < self._counted:
            self._line, self._counted = 1, 0
        self._line += self.text.count(b"\n", self._counted, offset)
        self._counted = offset
        return self._line

    def line_end(self, offset: int) -> int:
        """The end of the line of an offset, without its line break."""
        found = self.text.find(b"\n", offset)
        return len(self.text) if found < 0 else found

    def go_on(self, position: int) -> None:
        """Continues at another offset."""
        self.position, self._stream = position, None

    def next(self) -> Statement | Slash | None:
        """The next statement or backslash command; None at the end, before which a statement may have begun."""
        text = self.text
        try:
            if self._stream is None:
                self._stream = tokens(text, self.position)
            for kind, start, end in self._stream:
                self.position = end
                if kind == BACKSLASH and end == start + 1:
                    name, at = command_name(text, end)
                    return Slash(name, self.line_of(start), start, at)
                if not self.active:
                    self._pass(kind, text[start:end])
                    continue
                if self._pending.start < 0:
                    self._pending.start, self._pending.line = start, self.line_of(start)
                token = text[start:end]
                if kind <= NUMBER and self._pending.plain:
                    self._pending.tokens.append(canonical(token, kind) if kind == STRING else token)
                    continue
                if token == b";" and not self._pending.parens and not self._pending.begins:
                    if (found := self.take(end)) is not None:
                        return found
                    continue
                self._add(kind, token, start, end)
        except Unterminated as error:
            raise ConfigError(
                f"{self.label}:{self.line_of(error.start)}: {error.what} is not terminated",
                hint="end it, or the rest of the file is a part of it",
            ) from None
        self.position = len(text)
        return None

    def _pass(self, kind: int, token: bytes) -> None:
        """Counts a token of a branch that is not taken, as psql does there, too."""
        if token == b";" and not self._pending.parens and not self._pending.begins:
            self._pending.head = []
        else:
            self._count(kind, token)

    def _add(self, kind: int, token: bytes, start: int, end: int) -> None:
        pending = self._pending
        if kind == VARIABLE:
            self._expand(token, start, end)
            return
        if kind == BACKSLASH:
            pending.edits.append((start, end, token[1:]))
            token = token[1:]
        elif kind == STRING:
            token = canonical(token, kind)
        self._count(kind, token)
        pending.tokens.append(token)

    def _count(self, kind: int, token: bytes) -> None:
        """Follows parentheses, and the BEGIN … END of a function whose body is SQL, as psql does."""
        pending = self._pending
        if token == b"(":
            pending.parens += 1
        elif token == b")":
            pending.parens = max(0, pending.parens - 1)
        elif kind == BACKSLASH and token == b";":
            pending.head = []
        elif kind == WORD and (len(pending.head) < 4 or pending.head[:2] in _DEFINES):
            word = token.lower()
            if len(pending.head) < 4:
                pending.head.append(word)
                if pending.head == [b"create", b"or", b"replace"]:
                    pending.head = [b"create"]
            if pending.head[:2] in _DEFINES and not pending.parens:
                if word == b"begin" or (word == b"case" and pending.begins):
                    pending.begins += 1
                elif word == b"end" and pending.begins:
                    pending.begins -= 1

    def _expand(self, token: bytes, start: int, end: int) -> None:
        pending = self._pending
        try:
            value = self.variables.reference(token)
        except ConfigError as error:
            raise ConfigError(f"{self.label}:{self.line_of(start)}: {error.message}", hint=error.hint) from None
        pending.tokens.append(token)
        pending.variables.add(name_of(token.strip(b":'\"{?}")))
        if isinstance(value, Unknown):
            pending.exact = True
        else:
            # Also for an unknown variable, whose name and colon are tokens of their own to the server.
            pending.edits.append((start, end, value))
            if value != token and token[1:2] not in b"'\"{":  # others psql takes as they are
                for kind, begin, stop in tokens(value):
                    self._count(kind, value[begin:stop])

    def remove(self, start: int, end: int) -> None:
        """Leaves a part of the text, such as a backslash command, out of the statement that has begun."""
        if not self.idle:
            # Before a line that begins with a command, psql leaves out the line breaks.
            while self.text[start : start + 1] in (b"\\", b"\n") and self.text[start - 1 : start] == b"\n":
                start -= 1
            self._pending.edits.append((start, end, b""))

    def skip_rows(self, start: int, end: int) -> None:
        """Goes on behind rows that stand in the text."""
        if not self.idle:
            self._pending.edits.append((start, end, b""))
        self.go_on(end)

    def saved(self) -> tuple[int, int]:
        """How far the statement that has begun has been read."""
        return self._pending.saved()

    def restore(self, saved: tuple[int, int], start: int, end: int) -> None:
        """Takes back what was read of the statement in a branch that is not taken."""
        pending = self._pending
        count, pending.parens = saved
        del pending.tokens[count:]
        self.remove(start, end)

    def drop(self) -> None:
        """Forgets the statement that has begun."""
        self._pending = _Pending()

    def take(self, end: int | None = None) -> Statement | None:
        """The statement that has begun, which ends here; None if none has."""
        pending, self._pending = self._pending, _Pending()
        if not pending.tokens:
            return None
        stop = self.position if end is None else end
        found = pending.tokens
        if pending.exact:
            found = [EXACT, self.text[pending.start : stop]]
        elif pending.edits:
            found = self._as_sent(pending, stop)
        if not found:
            return None
        return Statement(pending.line, found, pending.tokens, pending.start, stop, frozenset(pending.variables))

    def _as_sent(self, pending: _Pending, stop: int) -> list[bytes]:
        parts, last = [], pending.start
        for start, end, text in pending.edits:
            parts += [self.text[last:start], text]
            last = max(end, last)
        parts.append(self.text[last:stop])
        try:
            found = normalized(b"".join(parts))
        except Unterminated as error:
            raise ConfigError(
                f"{self.label}:{pending.line}: with its variables expanded, {error.what} in the statement is not "
                "terminated",
                hint="put spaces around the variables",
            ) from None
        return found[:-1] if found[-1:] == [b";"] else found
