"""The command line of psql, as far as a step may have one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from gauss.model.errors import ConfigError

_SHORT = {
    "a": "echo-all",
    "A": "no-align",
    "b": "echo-errors",
    "c": "command",
    "d": "dbname",
    "e": "echo-queries",
    "E": "echo-hidden",
    "f": "file",
    "F": "field-separator",
    "h": "host",
    "H": "html",
    "l": "list",
    "L": "log-file",
    "n": "no-readline",
    "o": "output",
    "p": "port",
    "P": "pset",
    "q": "quiet",
    "R": "record-separator",
    "s": "single-step",
    "S": "single-line",
    "t": "tuples-only",
    "T": "table-attr",
    "U": "username",
    "v": "set",
    "V": "version",
    "w": "no-password",
    "W": "password",
    "x": "expanded",
    "X": "no-psqlrc",
    "z": "field-separator-zero",
    "0": "record-separator-zero",
    "1": "single-transaction",
    "?": "help",
}
_WITH_VALUE = frozenset("cdfFhLopPRTUv")
_LONG = {name: letter for letter, name in _SHORT.items()} | {"variable": "v", "csv": "csv"}
_SHOWN = frozenset("aAbeEHntqxz0") | {"csv"}
"""Change only what psql prints."""
_SHOWN_WITH_VALUE = frozenset("FPRT")
_CONNECTION = frozenset("dhpUwW")
_REFUSED = {
    "l": "it lists databases and runs no script",
    "V": "it prints a version and runs no script",
    "?": "it prints help and runs no script",
    "s": "it asks before each statement",
    "S": "with it, a line break would end a statement",
    "L": "the output is in the log of the job",
    "o": "the output is in the log of the job",
}


@dataclass(frozen=True)
class Item:
    """A `-f` or `-c`."""

    kind: str
    value: str


@dataclass
class Options:
    """A command line that has been read."""

    items: list[Item] = field(default_factory=list)
    variables: dict[str, bytes | None] = field(default_factory=dict)
    single_transaction: bool = False
    shown: list[str] = field(default_factory=list)
    """Options that change only what is printed."""
    others: list[str] = field(default_factory=list)
    """Arguments that are no options."""

    def command(self) -> tuple[str, ...]:
        """The options that every step gets."""
        found = [*self.shown]
        for name, value in self.variables.items():
            found += ["-v", name if value is None else f"{name}={os.fsdecode(value)}"]
        return (*found, "-1") if self.single_transaction else tuple(found)


def read(args: Sequence[str], *, items: bool = True) -> Options:
    """Reads arguments as psql does: combined letters, values with or without a space, shortened long names. Without
    `items`, arguments that are no options are paths in place of -f and -c."""
    options, rest, queue = Options(), list[str](), list(args)
    while queue:
        arg = queue.pop(0)
        if arg == "--":
            rest += queue
            break
        if arg.startswith("--"):
            name, equals, value = arg[2:].partition("=")
            letter = _long(name)
            if letter in _WITH_VALUE:
                _apply(options, letter, value if equals else _next(queue, arg), items)
            elif equals:
                raise ConfigError(f"psql option --{name} takes no value, found {arg!r}")
            else:
                _apply(options, letter, "", items)
        elif arg.startswith("-") and arg != "-":
            _letters(options, arg[1:], queue, items)
        else:
            rest.append(arg)
    if rest and items:
        raise ConfigError(
            f"expected -f FILE or -c COMMAND, found {rest[0]!r}: psql would take it for a database",
            hint="the engine chooses the server, the database and the user of a state; a script needs -f",
        )
    options.others = rest
    return options


def _letters(options: Options, letters: str, queue: list[str], items: bool) -> None:
    for at, letter in enumerate(letters):
        if letter not in _SHORT:
            raise ConfigError(f"psql has no option -{letter}", hint="psql --help lists them")
        if letter in _WITH_VALUE:
            value = letters[at + 1 :] or _next(queue, f"-{letter}")
            _apply(options, letter, value, items)
            return
        _apply(options, letter, "", items)


def _long(name: str) -> str:
    found = {_LONG[each] for each in ([name] if name in _LONG else [each for each in _LONG if each.startswith(name)])}
    if len(found) != 1:
        what = "no option" if not found else "more than one option that begins with"
        raise ConfigError(f"psql has {what} --{name}", hint="psql --help lists them")
    return found.pop()


def _next(queue: list[str], option: str) -> str:
    if not queue:
        raise ConfigError(f"expected a value after {option}, found the end of the arguments")
    return queue.pop(0)


def _apply(options: Options, letter: str, value: str, items: bool) -> None:
    if "\0" in value:
        raise ConfigError(f"the value of -{letter} contains a NUL")
    shown = f"-{letter} (--{_SHORT[letter]})" if letter in _SHORT else f"--{letter}"
    if letter in _CONNECTION:
        raise ConfigError(
            f"psql option {shown} can't be given: the engine chooses the server, the database and the user of a state",
            hint="leave it out",
        )
    if letter in _REFUSED:
        raise ConfigError(f"psql option {shown} can't be a part of a step: {_REFUSED[letter]}", hint="leave it out")
    if letter in ("f", "c"):
        if not items:
            raise ConfigError(f"option {shown} can't be given with folders of migrations", hint="leave it out")
        if letter == "f" and value == "-":
            raise ConfigError(
                "-f - reads the standard input, which is not a part of the request", hint="save the script as a file"
            )
        options.items.append(Item(letter, value))
    elif letter == "v":
        name, equals, text = value.partition("=")
        options.variables[name] = os.fsencode(text) if equals else None
    elif letter == "1":
        options.single_transaction = True
    elif letter in _SHOWN:
        options.shown.append(f"-{letter}" if len(letter) == 1 else f"--{letter}")
    elif letter in _SHOWN_WITH_VALUE:
        options.shown += [f"-{letter}", value]
