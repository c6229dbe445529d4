"""Follows a script and what it includes, without running it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from gauss.dbstates.planning import commands, copies
from gauss.dbstates.planning.arguments import Argument, arguments, whole_line
from gauss.dbstates.planning.conditions import Conditions
from gauss.dbstates.planning.content import Content
from gauss.dbstates.planning.effects import split
from gauss.dbstates.planning.files import Script
from gauss.dbstates.planning.lexer import Unterminated, normalized
from gauss.dbstates.planning.plan import ALL_EXTENSIONS
from gauss.dbstates.planning.scanner import EXACT, Scanner, Slash, Statement
from gauss.dbstates.planning.state import State
from gauss.model.errors import ConfigError

_END_OF_DATA = re.compile(rb"^\\\.\r?(?:\n|\Z)", re.MULTILINE)
_REST = re.compile(rb"[ \t\r\f\v]*(?:--[^\n]*)?\Z")
_QUOTED_TEXT = (b"current_query", b"pg_stat_activity", b"pg_prepared_statements", b"pg_cursors")
"""What gives a script the text of its statements."""
_STRINGS, _ENCODING = b"standard_conforming_strings", b"client_encoding"
_SETTINGS = (_STRINGS, _ENCODING, b"names")


@dataclass
class Segment:
    """A part of a script that can run in a psql of its own."""

    script: Script
    start: int
    end: int
    content: Content
    edits: list[tuple[int, int, bytes]] = field(default_factory=list)
    """Includes whose paths must not depend on the file in which they stand."""
    linked: bool = False
    """Whether the file was named by a link in another folder, which `\\ir` then starts from."""

    @property
    def whole(self) -> bool:
        """Whether it can run as the whole file, by its real path."""
        if self.linked and self.edits:
            return False
        return self.start <= self.script.first and self.end >= len(self.script.text)

    @property
    def text(self) -> bytes:
        """Its text, behind as many line breaks as there are lines before it, so that messages name the right line."""
        parts, last = [b"\n" * self.script.text.count(b"\n", 0, self.start)], self.start
        for start, end, text in self.edits:
            if start >= self.end:
                break
            parts += [self.script.text[last:start], text]
            last = end
        return b"".join([*parts, self.script.text[last : self.end]])


@dataclass(frozen=True)
class _Include:
    slash: Slash
    arguments: list[Argument]
    end: int


class Walk:
    """One script from its first file on."""

    def __init__(self, state: State, quotes_text: bool = False) -> None:
        self.state = state
        self.segments: list[Segment] = []
        self.quotes_text = quotes_text
        """Whether something can read the text of statements, so that all of it counts."""
        self.works = False
        """Whether it does more than to change its session."""
        self._open: list[tuple[Path, str]] = []
        """The files that are being followed, by real path and as psql has been told."""

    def file(self, path: Path, name: str) -> None:
        """Follows a file; `name` is its path as psql is told."""
        state = self.state
        script = state.files.script(path, state.where)
        if any(script.path == each for each, _ in self._open):
            chain = [state.files.label(each) for each, _ in self._open] + [script.label]
            state.refuse(f"a script includes itself: {' → '.join(chain)}", "remove one of the includes")
        outer = state.label, state.line
        self._open.append((script.path, name))
        self._begin(script, script.first)
        self.segments[-1].linked = os.path.realpath(path.parent) != str(script.path.parent)
        self._follow(script)
        self._open.pop()
        state.label, state.line = outer

    def command_line(self, text: bytes, label: str) -> None:
        """Follows the text of a -c: a backslash command, or SQL that the server gets as it is."""
        state = self.state
        state.label, state.line = label, 1
        if b"\0" in text:
            state.refuse("expected text without NULs")
        script = Script(Path(label), label, text, "", 0, inline=True)
        self.segments.append(Segment(script, 0, len(text), Content()))
        state.content = self.segments[-1].content
        if text.startswith(b"\\"):
            scanner = Scanner(text, label, state.variables)
            slash = scanner.next()
            if isinstance(slash, Slash):
                self._slash(scanner, slash, Conditions(state, scanner), script)
            return
        try:
            found = normalized(text)
        except Unterminated as error:
            state.refuse(f"{error.what} is not terminated")
        if found:
            self._statement(Statement(1, found, found, 0, len(text)), text)
            if any(copy.side == "stdin" for copy in copies.statements(found)):
                state.refuse("COPY … FROM stdin has no data in a -c", "use \\copy … from 'FILE'")

    def _begin(self, script: Script, start: int) -> None:
        self.segments.append(Segment(script, start, start, Content()))
        self.state.content = self.segments[-1].content
        self.state.content.script(script)

    def _follow(self, script: Script) -> None:
        state = self.state
        scanner = Scanner(script.text, script.label, state.variables, start=script.first)
        conditions = Conditions(state, scanner)
        state.label = script.label
        while event := scanner.next():
            state.line = event.line
            if isinstance(event, Statement):
                self._statement(event, script.text[event.start : event.end])
                self._sent(scanner, event, event.end, scanner.line_end(event.end))
            elif self._slash(scanner, event, conditions, script):
                break
        else:
            if conditions.open:
                state.refuse("the file ends without \\endif")
        if (last := scanner.take()) is not None:  # also after \q
            state.line = last.line
            self._statement(last, script.text[last.start : last.end])
        self.segments[-1].end = len(script.text)

    def _sent(self, scanner: Scanner, statement: Statement, behind: int, line_end: int) -> None:
        """Follows the rows in the script of a statement that psql has sent, with `behind` as the end of its text."""
        found = statement.source if statement.tokens[0] == EXACT else statement.tokens
        rows = sum(copy.side == "stdin" for copy in copies.statements(found))
        if not rows:
            return
        if self.state.maybe:
            self.state.refuse(
                "COPY … FROM stdin in a condition that is only known while the script runs", "use \\copy … from 'FILE'"
            )
        if not _REST.match(scanner.text, behind, line_end):
            self.state.refuse(
                "expected nothing behind COPY … FROM stdin on its line", "begin a new line behind the rows"
            )
        self._rows(scanner, line_end, rows)

    def _rows(self, scanner: Scanner, line_end: int, times: int = 1) -> None:
        """Follows the rows of COPY that stand in the script."""
        at = min(line_end + 1, len(scanner.text))
        for _ in range(times):
            end = _END_OF_DATA.search(scanner.text, at)
            stop = end.start() if end else len(scanner.text)
            rows = scanner.text[at:stop]
            self.state.content.add("rows", rows)
            self.state.content.source(self.state.label, scanner.line_of(at), rows)
            at = end.end() if end else stop
        scanner.skip_rows(min(line_end + 1, at), at)

    def _statement(self, statement: Statement, text: bytes) -> None:
        state, found = self.state, statement.tokens
        self.works = self.works or found[0].lower() != b"set"
        part = state.content.add("sql", *found)
        if found is statement.source:
            state.content.source_digest(state.label, statement.line, part)
        else:
            state.content.source(state.label, statement.line, *statement.source)
            text += b"\n" + b" ".join(found)
        if found[0] == EXACT:
            found = statement.source
            if found[0][:1] == b":":
                state.refuse(
                    "it is only known while the script runs which statement this is", "write its first word out"
                )
            state.session.leave("a statement that is only known while the script runs")
        lowered = text.lower()
        if any(each in lowered for each in _SETTINGS):
            self._check(found)
        self.quotes_text = self.quotes_text or any(each in lowered for each in _QUOTED_TEXT)
        if self.quotes_text:
            state.content.add("text", text)
        for reason in state.volatility.reasons(found):
            state.mark(reason)
        state.note_variables(statement.variables)
        if state.session.run(found):
            state.keep_whole()
        for copy in copies.statements(found):
            if copy.side == "file":
                self._server_file(copy.path, "COPY … FROM")
            elif copy.side == "output":
                state.write(copy.path, "COPY … TO")
        if b"extension" in lowered:
            self._extensions(found)

    def _check(self, found: list[bytes]) -> None:
        """Refuses settings under which the text would be read in another way."""
        for each in split(found):
            named = [token.lower().strip(b"'\"") for token in each]
            if named[:2] == [b"set", b"names"]:
                commands.check_encoding(self.state, b"".join(named[2:3]))
            for setting in (_STRINGS, _ENCODING):
                if not any(setting in token for token in named):
                    continue
                words = [word for word in named if word not in (b"session", b"local")]
                value = words[3] if words[:2] == [b"set", setting] and len(words) == 4 else b""
                if setting == _ENCODING and value:
                    commands.check_encoding(self.state, value)
                elif value not in (b"on", b"true", b"1") and (words[0] != b"select" or b"set_config" in words):
                    self.state.refuse(
                        f"expected SET {setting.decode()} = a plain value, and nothing else that changes it",
                        "the script is read with standard_conforming_strings = on",
                    )

    def _server_file(self, value: bytes, what: str) -> None:
        path = Path(os.fsdecode(value))
        if value[:1] == b":" or b"\0" in value:
            self.state.refuse(f"{what}: the file is only known while the script runs", "write its name out")
        if not path.is_absolute():
            self.state.refuse(f"{what} {path}: expected an absolute path", "use \\copy for a relative one")
        commands.data_file(self.state, value, what)

    def _extensions(self, found: list[bytes]) -> None:
        """Notes the extensions whose versions are a part of the key."""
        for each in split(found):
            lowered = [token.lower() for token in each]
            if lowered[1:2] == [b"extension"] and lowered[0] in (b"create", b"alter", b"drop", b"comment"):
                names = [token.strip(b'"') for token in each[2:] if token.lower() not in (b"if", b"not", b"exists")]
                self.state.content.name("extension", names[0].decode("utf-8", "replace") if names else "", "")
                if b"cascade" not in lowered:
                    continue
            self.state.content.name("extension", ALL_EXTENSIONS, "")

    def _slash(self, scanner: Scanner, slash: Slash, conditions: Conditions, script: Script) -> bool:
        """Follows a backslash command; returns whether the file ends there."""
        state, name = self.state, slash.name
        if not commands.known(name):
            state.refuse(f"unknown backslash command \\{name}", "\\? in psql lists them")
        if state.session.restricted and name != "unrestrict":
            state.refuse(f"\\restrict forbids \\{name}", "end the restriction with \\unrestrict before")
        found, end, line_end = self._arguments(scanner, slash, script)
        scanner.go_on(end)
        if name in commands.CONDITIONS:
            state.note_variables(state.variables.read)
            before = state.maybe
            conditions.follow(slash, found, end)
            if before or state.maybe:
                state.content.add("\\" + name, *(each.source for each in found))
            return False
        if not scanner.active:
            return False
        scanner.remove(slash.start, end)
        if name in commands.INCLUDES:
            state.note_variables(state.variables.read)
            cut = scanner.idle and not conditions.open and not script.inline
            self._include(_Include(slash, found, end), script, cut=cut)
            return False
        self.works = self.works or name not in commands.OF_SESSION
        sent = scanner.take(slash.start) if name in commands.SENDS else None
        if sent is not None:
            read = set(state.variables.read)
            self._statement(sent, scanner.text[sent.start : sent.end])
            state.variables.read.update(read)
        elif name in commands.SENDS:
            state.keep_whole()  # psql sends the last statement again
        elif name in ("r", "reset"):
            scanner.drop()
        state.content.source(state.label, slash.line, scanner.text[slash.start : end].strip())
        commands.follow(state, commands.Call(name, found, sent.tokens if sent else []))
        if sent is not None:
            self._sent(scanner, sent, end, line_end)
        if name == "copy" and (copy := copies.command(found[0].source)) and copy.side == "stdin":
            if state.maybe or script.inline:
                state.refuse("\\copy … from stdin has no rows here", "use \\copy … from 'FILE'")
            self._rows(scanner, line_end)
        return name in ("q", "quit") and not state.maybe

    def _arguments(self, scanner: Scanner, slash: Slash, script: Script) -> tuple[list[Argument], int, int]:
        """The arguments of a command, its end and that of its line."""
        line_end = len(script.text) if script.inline else scanner.line_end(slash.start)
        line, at = scanner.text[slash.start : line_end], slash.arguments_at - slash.start
        self.state.variables.read.clear()
        if slash.name in commands.WHOLE_LINE:
            rest = whole_line(line, at)
            return ([Argument(rest, rest)] if rest else []), line_end, line_end
        variables = self.state.variables if scanner.active else None
        try:
            found, end = arguments(line, at, variables, pipes=slash.name in commands.PIPES)
        except ConfigError as error:
            self.state.refuse(error.message, error.hint)
        return found, slash.start + end, line_end

    def _include(self, include: _Include, script: Script, *, cut: bool) -> None:
        state, command = self.state, f"\\{include.slash.name}"
        path, name = self._included(include, command)
        if not state.exists(path):
            return
        inner, outer = self.segments[-1], state.content
        if include.slash.name in ("ir", "include_relative"):
            quoted = b"'" + os.fsencode(path).replace(b"'", b"''") + b"'"
            inner.edits.append((include.slash.start, include.end, b"\\i " + quoted + b" "))
        cut = cut and state.cut and state.session.clean and not state.maybe
        inner.end = include.slash.start
        count = len(self.segments)
        self.file(path, name)
        if cut and state.session.clean:
            self._begin(script, include.end)
            return
        # The rest of this file goes on in the session in which the included one has left something.
        added = self.segments[count:]
        del self.segments[count:]
        state.content = outer
        if cut and not inner.content.empty:
            moved = [each for each in inner.edits if each[0] >= include.slash.start]
            inner.edits = [each for each in inner.edits if each[0] < include.slash.start]
            self._begin(script, include.slash.start)
            self.segments[-1].edits = moved
        for each in added:
            state.content.append(each.content)

    def _included(self, include: _Include, command: str) -> tuple[Path, str]:
        """The path of an included file, and its name as psql composes it."""
        state = self.state
        if any(each.program for each in include.arguments):
            state.refuse(f"{command} with backticks: it is not known which file it is", "write the path out")
        value = include.arguments[0].bare if include.arguments else None
        name, base = os.fsdecode(value) if isinstance(value, bytes) else "", None
        if include.slash.name in ("ir", "include_relative") and self._open:
            folder = os.path.dirname(self._open[-1][1])  # noqa: PTH120 (as psql, by letter)
            name = os.path.join(folder, name)  # noqa: PTH118
            base = None if state.cwd is None else state.cwd / folder
        path = state.readable(state.path(value, command, base=base), command)
        return path, name
