"""Arguments of psql's backslash commands."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gauss.dbstates.planning.variables import UNKNOWN, Unknown, Variables
from gauss.model.errors import ConfigError

_SPACE = re.compile(rb"[ \t\n\r\f\v]*")
_NAME = re.compile(rb"[^ \t\n\r\f\v\\]*")
_REFERENCE = re.compile(
    rb":(?:[0-9A-Za-z_\x80-\xff]+|'[0-9A-Za-z_\x80-\xff]+'|\"[0-9A-Za-z_\x80-\xff]+\"|\{\?[0-9A-Za-z_\x80-\xff]+\})"
)
_PLAIN = re.compile(rb"[^ \t\n\r\f\v\\'\"`:]+")
_ESCAPE = re.compile(rb"[0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"b": b"\b", b"r": b"\r", b"f": b"\f"}


@dataclass(frozen=True)
class Argument:
    """One argument."""

    value: bytes | Unknown
    source: bytes
    program: bytes = b""
    """The program between backticks that it contains."""
    quoted: bool = False
    semicolons: int = 0
    """Unquoted semicolons at its end, which most commands ignore."""

    @property
    def bare(self) -> bytes | Unknown:
        """The value without semicolons at its end."""
        if isinstance(self.value, Unknown) or not self.semicolons:
            return self.value
        return self.value[: -self.semicolons]


def command_name(line: bytes, at: int) -> tuple[str, int]:
    """The name of the command whose backslash stands before an offset, and where it ends."""
    found = _NAME.match(line, at)
    end = found.end() if found else at
    return line[at:end].decode("latin-1"), end


def whole_line(line: bytes, at: int) -> bytes:
    """The rest of the line as one argument."""
    return line[at:].strip(b" \t\n\r\f\v")


def arguments(line: bytes, at: int, variables: Variables | None, *, pipes: bool = False) -> tuple[list[Argument], int]:
    """The arguments from an offset in a line on, and where the command ends. Without variables, as in a branch that is
    not taken, none is expanded. With `pipes` an argument that begins with | takes the rest of the line."""
    found: list[Argument] = []
    while True:
        at = _skip(line, at)
        if at >= len(line):
            return found, at
        if line[at : at + 1] == b"\\":
            return found, at + 2 if line[at : at + 2] == b"\\\\" else at
        if pipes and line[at : at + 1] == b"|":
            rest = whole_line(line, at)
            return [*found, Argument(rest, rest, program=rest)], len(line)
        argument, at = _argument(line, at, variables)
        if argument is not None:
            found.append(argument)


def _skip(line: bytes, at: int) -> int:
    found = _SPACE.match(line, at)
    return found.end() if found else at


def _argument(line: bytes, at: int, variables: Variables | None) -> tuple[Argument | None, int]:
    start, parts, program, bare, quoted = at, list[bytes](), b"", 0, False
    known = True
    while at < len(line) and line[at] not in b" \t\n\r\f\v\\":
        sign = line[at : at + 1]
        if plain := _PLAIN.match(line, at):
            parts.append(plain.group())
            bare, at = bare + len(plain.group()), plain.end()
            continue
        if sign == b":":
            reference = _REFERENCE.match(line, at)
            if reference is None:
                parts.append(sign)
                bare, at = bare + 1, at + 1
                continue
            value = variables.reference_in_argument(reference.group()) if variables else reference.group()
            at = reference.end()
        elif sign == b"'":
            value, at = _quoted(line, at + 1)
        else:
            end = line.find(sign, at + 1)
            if end < 0:
                raise ConfigError(f"unterminated {sign.decode()} in the arguments of a backslash command")
            value = line[at : end + 1]
            if sign == b"`":
                program, value = line[at + 1 : end], UNKNOWN
                if variables:
                    for each in _REFERENCE.findall(program):
                        variables.reference_in_argument(each)
            at = end + 1
        quoted, bare = True, 0
        if isinstance(value, Unknown):
            known = False
        else:
            parts.append(value)
    value = b"".join(parts)
    if not value and not quoted:
        return None, at
    semicolons = min(bare, len(value) - len(value.rstrip(b";")))
    return Argument(value if known else UNKNOWN, line[start:at], program, quoted, semicolons), at


def _quoted(line: bytes, at: int) -> tuple[bytes, int]:
    parts: list[bytes] = []
    while at < len(line):
        sign = line[at : at + 1]
        if sign == b"'":
            if line[at + 1 : at + 2] != b"'":
                return b"".join(parts), at + 1
            parts.append(sign)
            at += 2
        elif sign == b"\\" and (found := _ESCAPE.match(line, at + 1)):
            code = found.group()
            if code[:1] in b"01234567":
                parts.append(bytes([int(code, 8) & 255]))
            elif code[:1] == b"x" and len(code) > 1:
                parts.append(bytes([int(code[1:], 16)]))
            else:
                parts.append(_LETTERS.get(code, code))
            at = found.end()
        else:
            parts.append(sign)
            at += 1
    raise ConfigError("unterminated quoted string in the arguments of a backslash command")
