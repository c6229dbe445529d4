"""Variables of psql, as far as their values are known before a script runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gauss.dbstates.planning.lexer import BACKSLASH, WORD, Unterminated, tokens, words
from gauss.model.errors import ConfigError


class Unknown:
    """The value of a variable that is only known while the script runs."""


UNKNOWN = Unknown()
Value = bytes | Unknown | None
"""None: there is no such variable."""

RESULTS = words(
    "ERROR LASTOID LAST_ERROR_MESSAGE LAST_ERROR_SQLSTATE ROW_COUNT SHELL_ERROR SHELL_EXIT_CODE SQLSTATE "
    "PIPELINE_SYNC_COUNT PIPELINE_COMMAND_COUNT PIPELINE_RESULT_COUNT"
)
"""Set by psql after each statement."""
OF_CONNECTION = words("HOST PORT VERSION VERSION_NAME VERSION_NUM")
"""Differ from run to run, or with the program that runs the script."""
_PRESET = words(
    "AUTOCOMMIT COMP_KEYWORD_CASE DBNAME ECHO ECHO_HIDDEN ENCODING FETCH_COUNT HIDE_TABLEAM HIDE_TOAST_COMPRESSION "
    "HISTCONTROL HISTSIZE IGNOREEOF ON_ERROR_ROLLBACK PROMPT1 PROMPT2 PROMPT3 QUIET SERVER_VERSION_NAME "
    "SERVER_VERSION_NUM SHOW_ALL_RESULTS SHOW_CONTEXT SINGLELINE SINGLESTEP USER VERBOSITY WATCH_INTERVAL"
)
_BUILT_IN = _PRESET | RESULTS | OF_CONNECTION
BEHAVIOUR = words("AUTOCOMMIT ON_ERROR_ROLLBACK FETCH_COUNT")
"""Change what statements do without being named in one."""
_REFUSED = {
    "SINGLELINE": "a line would end a statement",
    "SINGLESTEP": "it asks before each statement",
}
_TRUE = re.compile(rb"(?:t|tr|tru|true|y|ye|yes|on|1)", re.IGNORECASE)
_FALSE = re.compile(rb"(?:f|fa|fal|fals|false|n|no|of|off|0)", re.IGNORECASE)
_VALID = re.compile(r"[A-Za-z0-9_\x80-\xff]+")


def name_of(data: bytes) -> str:
    return data.decode("latin-1")


def boolean(value: bytes) -> bool | None:
    """What psql takes a text for; None if for neither."""
    if _TRUE.fullmatch(value):
        return True
    return False if _FALSE.fullmatch(value) else None


class Variables:
    """The variables of one psql."""

    def __init__(self, given: Mapping[str, bytes | None]) -> None:
        self._values: dict[str, Value] = {}
        self.given = dict(given)
        self._unknown_prefixes: list[str] = []
        self.read: set[str] = set()
        """Names that were read or tested, since this was last emptied."""
        self.assigned: set[str] = set()
        """Names that the script has set."""
        for name, value in given.items():
            self.set(name, value)
        self.assigned.clear()

    def get(self, name: str) -> Value:
        self.read.add(name)
        if name in self._values:
            return self._values[name]
        return UNKNOWN if name in _BUILT_IN or name.startswith(tuple(self._unknown_prefixes)) else None

    def set(self, name: str, value: Value) -> None:
        if not _VALID.fullmatch(name):
            raise ConfigError(f"expected a name of letters, digits and _ for a variable, found {name!r}")
        if name in _REFUSED and not (isinstance(value, bytes) and boolean(value) is False):
            raise ConfigError(f"variable {name} can't be set in a step: {_REFUSED[name]}", hint="leave it out")
        if name == "ON_ERROR_STOP" and not (isinstance(value, bytes) and boolean(value or b"on")):
            raise ConfigError(
                "ON_ERROR_STOP is always on in a step, since a state that misses statements would be reused",
                hint="leave it out, and write statements that do not fail, as with IF EXISTS",
            )
        self.assigned.add(name)
        self._values[name] = value

    def forget(self, names: Iterable[str]) -> None:
        """Makes the values of these names unknown."""
        for name in names:
            self._values[name] = UNKNOWN

    def forget_prefix(self, prefix: str) -> None:
        """Makes the values of all variables whose names begin so unknown."""
        self.forget([name for name in self._values if name.startswith(prefix)])
        self._unknown_prefixes.append(prefix)

    def expanded(self, name: str, within: tuple[str, ...] = ()) -> Value:
        """The text that psql reads in place of `:name`, with the variables in that text expanded in turn."""
        value = self.get(name)
        if not isinstance(value, bytes):
            return value
        parts, last, depth = [], 0, 0
        try:
            for kind, start, end in tokens(value):
                found = value[start:end]
                depth += (found == b"(") - (found == b")")
                if kind == BACKSLASH or (found == b";" and kind != WORD and depth <= 0):
                    raise ConfigError(
                        f"variable {name} contains a {name_of(found)}: expected a part of one statement",
                        hint="put the statements into a file and include it",
                    )
                if found[:1] == b":" and len(found) > 1 and found not in (b"::", b":="):
                    text = self.reference(found, (*within, name))
                    if isinstance(text, Unknown):
                        return UNKNOWN
                    parts += [value[last:start], text]
                    last = end
        except Unterminated as error:
            raise ConfigError(
                f"variable {name} contains {error.what} that it does not end",
                hint=f"write :'{name}' in the script to get its value as a literal",
            ) from None
        return b"".join([*parts, value[last:]])

    def reference(self, found: bytes, within: tuple[str, ...] = ()) -> bytes | Unknown:
        """The text in place of a reference such as `:x`, `:'x'`, `:"x"` or `:{?x}`."""
        if found.startswith(b":{?"):
            return b"FALSE" if self.get(name_of(found[3:-1])) is None else b"TRUE"
        quote = found[1:2]
        if quote in (b"'", b'"'):
            value = self.get(name_of(found[2:-1]))
            if value is None:
                return found
            if isinstance(value, Unknown):
                # No script contains a NUL, so nothing else is taken for this literal.
                return quote + b"\0" + found[2:-1] + b"\0" + quote
            return literal(value) if quote == b"'" else b'"' + value.replace(b'"', b'""') + b'"'
        name = name_of(found[1:])
        if name in within:  # psql, too, leaves a variable that contains itself as it is
            return found
        value = self.expanded(name, within)
        return found if value is None else value

    def reference_in_argument(self, found: bytes) -> bytes | Unknown:
        """The text in place of a reference in an argument of a backslash command: plain values are not expanded."""
        if found[1:2] in b"'\"{":
            value = self.reference(found)
            return UNKNOWN if isinstance(value, bytes) and b"\0" in value else value
        plain = self.get(name_of(found[1:]))
        return found if plain is None else plain


def literal(value: bytes) -> bytes:
    """A value as an SQL literal, as psql writes it."""
    doubled = value.replace(b"'", b"''")
    return b"'" + doubled + b"'" if b"\\" not in value else b" E'" + doubled.replace(b"\\", b"\\\\") + b"'"
