"""Backslash commands of psql: what each does to variables, files and the session."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gauss.dbstates.planning import copies
from gauss.dbstates.planning.arguments import Argument
from gauss.dbstates.planning.lexer import Unterminated, normalized, words
from gauss.dbstates.planning.state import State
from gauss.dbstates.planning.variables import BEHAVIOUR, UNKNOWN, Unknown, name_of

INCLUDES = words("i include ir include_relative")
CONDITIONS = words("if elif else endif")
WHOLE_LINE = words("! copy h help sf sv ef ev sf+ sv+")
PIPES = words("g gx o out w write")
SENDS = words("g gx gset gexec gdesc crosstabview watch parse sendpipeline")
"""Commands that send the statement that has begun."""
OF_SESSION = words("set unset getenv setenv cd encoding pset timing echo a t x")
"""Commands that change nothing but the session, or only print."""
_SHOWS = words(
    "a C f H html t T x pset timing echo qecho warn copyright errverbose conninfo h help ? p print s sf sv sf+ sv+ z "
    "zx zS l l+ lx list list+ lo_list lo_list+ gdesc crosstabview"
)
_OF_LIBPQ = words(
    "PGHOST PGHOSTADDR PGPORT PGDATABASE PGUSER PGPASSWORD PGPASSFILE PGSERVICE PGSERVICEFILE PGSYSCONFDIR PGSSLMODE "
    "PGREQUIRESSL PGSSLNEGOTIATION PGSSLCOMPRESSION PGSSLCERT PGSSLKEY PGSSLCERTMODE PGSSLROOTCERT PGSSLCRL "
    "PGSSLCRLDIR PGSSLSNI PGREQUIREPEER PGREQUIREAUTH PGCHANNELBINDING PGGSSENCMODE PGGSSLIB PGGSSDELEGATION "
    "PGKRBSRVNAME PGCONNECT_TIMEOUT PGTARGETSESSIONATTRS PGLOADBALANCEHOSTS PGAPPNAME"
)
"""Variables of the environment that say which server libpq connects to, and how."""
_DESCRIBES = re.compile(r"d[A-Za-z]*[S+x]*")
_PIPELINES = words(
    "bind bind_named close close_prepared parse startpipeline endpipeline sendpipeline syncpipeline flush flushrequest "
    "getresults"
)
_REFUSED = {
    **dict.fromkeys(("c", "connect"), "a step has one connection, to the database that becomes the state"),
    **dict.fromkeys(("e", "edit", "ef", "ev"), "nobody is there to edit"),
    **dict.fromkeys(("prompt", "password"), "nobody is there to answer"),
}
_SAFE_ENCODINGS = re.compile(
    rb"utf-?8|unicode|sql_?ascii|latin-?\d+|iso[-_]?8859[-_]?\d+|win-?\d+|koi8-?[ru]?", re.IGNORECASE
)
_SHOWN_ONLY = words(
    "ON_ERROR_STOP QUIET ECHO ECHO_HIDDEN VERBOSITY SHOW_CONTEXT PROMPT1 PROMPT2 PROMPT3 HISTCONTROL HISTSIZE HISTFILE"
)


@dataclass(frozen=True)
class Call:
    """A backslash command with its arguments."""

    name: str
    arguments: list[Argument]
    statement: list[bytes]
    """The tokens of the statement that it sends."""

    def bare(self, index: int) -> bytes | Unknown | None:
        """An argument without semicolons at its end."""
        return self.arguments[index].bare if index < len(self.arguments) else None


def known(name: str) -> bool:
    """Whether psql has such a command."""
    return name in _HANDLERS | _REFUSED or name in INCLUDES | CONDITIONS | _SHOWS or bool(_DESCRIBES.fullmatch(name))


def follow(state: State, call: Call) -> None:
    """Follows a command other than an include or a condition."""
    name = call.name
    if name in _REFUSED:
        state.refuse(f"\\{name} can't be a part of a step: {_REFUSED[name]}")
    state.note_variables(state.variables.read)
    if any(each.program and not each.source.startswith(b"|") for each in call.arguments):
        state.mark("backticks")
        state.keep_whole()
    handler = _HANDLERS.get(name) or (_show if name in _SHOWS or _DESCRIBES.fullmatch(name) else None)
    if handler is None:
        state.refuse(f"unknown backslash command \\{name}", "see \\? in psql")
    handler(state, call)


def add(state: State, call: Call) -> None:
    """Adds the command itself to the content."""
    values = (each.source if isinstance(each.value, Unknown) else each.value for each in call.arguments)
    state.content.add("\\" + call.name, *values)


def _show(state: State, call: Call) -> None:
    add(state, call)


def _restrict(state: State, call: Call) -> None:
    # Its key is another one in each dump.
    state.session.restricted = call.name == "restrict"


def _set(state: State, call: Call) -> None:
    add(state, call)
    if not call.arguments:
        return
    name = _variable(state, call.arguments[0])
    values = [each.value for each in call.arguments[1:]]
    found = [each for each in values if not isinstance(each, Unknown)]
    value = UNKNOWN if len(found) < len(values) or state.maybe else b"".join(found)
    if state.maybe and name == "ON_ERROR_STOP":
        value = b"".join(found)
    _assign(state, name, value)


def _unset(state: State, call: Call) -> None:
    add(state, call)
    if not call.arguments:
        state.refuse("expected a variable after \\unset")
    _assign(state, _variable(state, call.arguments[0]), UNKNOWN if state.maybe else None)


def _assign(state: State, name: str, value: bytes | Unknown | None) -> None:
    state.variables.set(name, value)
    if name in BEHAVIOUR:
        state.session.leave(name)
    if name not in _SHOWN_ONLY:
        state.session.leave("a variable")


def _variable(state: State, argument: Argument) -> str:
    if isinstance(argument.value, Unknown):
        state.refuse("the name of the variable is only known while the script runs", "write it out")
    return name_of(argument.value)


def _getenv(state: State, call: Call) -> None:
    add(state, call)
    if len(call.arguments) < 2 or isinstance(call.arguments[1].value, Unknown):
        state.refuse("expected \\getenv VARIABLE NAME, with names that are written out")
    name = os.fsdecode(call.arguments[1].value)
    if name in _OF_LIBPQ:
        state.refuse(
            f"\\getenv {name}: the connection is the engine's, and differs from run to run",
            "give the value by -v, or by a variable of another name",
        )
    found = state.env.get(name)
    state.read_env.add(name)
    state.content.name("environment", name, found)
    if found is not None:
        _assign(state, _variable(state, call.arguments[0]), UNKNOWN if state.maybe else os.fsencode(found))


def _setenv(state: State, call: Call) -> None:
    add(state, call)
    state.session.leave("a variable of the environment")
    values = [each.value for each in call.arguments[:2]]
    if not values or any(isinstance(each, Unknown) for each in values) or state.maybe:
        state.refuse("expected \\setenv NAME [VALUE], with a value that is known and outside of conditions")
    name, value = (os.fsdecode(each) if isinstance(each, bytes) else None for each in (*values, None)[:2])
    if value is None:
        state.env.pop(str(name), None)
    else:
        state.env[str(name)] = value


def _gset(state: State, call: Call) -> None:
    """Sets a variable for each column: their names are among the words of the statement, unless it has a star."""
    add(state, call)
    state.session.leave("a variable")
    prefix = call.arguments[0].value if call.arguments else b""
    found = [token.lower() if token[:1] != b'"' else token[1:-1].replace(b'""', b'"') for token in call.statement]
    stars = any(token == b"*" and found[i - 1 : i + 2] != [b"(", b"*", b")"] for i, token in enumerate(found))
    plain = found[:1] in ([b"select"], [b"with"], [b"insert"], [b"update"], [b"delete"], [b"merge"])
    if isinstance(prefix, Unknown) or stars or not plain or any(len(token) > 63 for token in found):
        state.variables.forget_prefix("" if isinstance(prefix, Unknown) else name_of(prefix))
    else:
        state.variables.forget(name_of(prefix + token) for token in found)


def _gexec(state: State, call: Call) -> None:
    add(state, call)
    for reason in state.volatility.of_results(call.statement):
        state.mark(f"{reason} by \\gexec")
    state.session.leave("\\gexec")


def _g(state: State, call: Call) -> None:
    target = next((each for each in call.arguments if not each.source.startswith(b"(")), None)
    _output(state, call, target)


def _write(state: State, call: Call) -> None:
    _output(state, call, call.arguments[0] if call.arguments else None)


def _output(state: State, call: Call, target: Argument | None) -> None:
    add(state, call)
    if target is None:
        return
    if target.source.startswith(b"|"):
        state.mark(f"\\{call.name} |")
        state.keep_whole()
    else:
        state.write(target.bare, f"\\{call.name}")
        state.session.leave("an output file")


def _watch(state: State, call: Call) -> None:
    add(state, call)
    state.mark("\\watch")
    state.keep_whole()


def _program(state: State, call: Call) -> None:
    add(state, call)
    state.mark("\\!")
    state.keep_whole()


def _keep(state: State, call: Call) -> None:
    add(state, call)
    state.keep_whole()


def _cd(state: State, call: Call) -> None:
    add(state, call)
    state.session.leave("a working directory")
    if not call.arguments:
        state.refuse("\\cd without a folder depends on the user that runs it", "name the folder")
    folder = state.path(call.bare(0), "\\cd")
    if state.maybe:
        state.cwd = None
    elif not folder.is_dir():
        state.refuse(f"\\cd {state.files.label(folder)}: no such folder")
    else:
        state.cwd = Path(os.path.realpath(folder))


def _encoding(state: State, call: Call) -> None:
    add(state, call)
    if (found := call.bare(0)) is not None:
        check_encoding(state, found)
        state.session.leave("an encoding")


def safe_encoding(name: bytes) -> bool:
    """Whether every byte of a letter outside of ASCII is outside of ASCII in an encoding."""
    return _SAFE_ENCODINGS.fullmatch(name) is not None


def check_encoding(state: State, value: bytes | Unknown) -> None:
    """Refuses encodings in which a quote or backslash may be a part of a letter."""
    if isinstance(value, Unknown) or not safe_encoding(value):
        state.refuse(
            "expected UTF8, SQL_ASCII, LATINn, WINn, KOI8 or ISO_8859_n as the encoding of a script",
            "convert the script to UTF-8",
        )


def _copy(state: State, call: Call) -> None:
    line = call.arguments[0].source if call.arguments else b""
    copy = copies.command(line)
    if copy is None:
        state.refuse("\\copy can't be read: expected \\copy TABLE from 'FILE'", "see \\h COPY in psql")
    if copy.outside:
        state.refuse("\\copy … from pstdin reads the standard input, which a step does not have", "name a file")
    try:
        before, after = normalized(copy.before), normalized(copy.after)
    except Unterminated as error:
        state.refuse(f"\\copy: {error.what} is not terminated")
    state.content.add("\\copy", *before, copy.side, *after)
    statement = [b"copy", *before, b"stdin"]
    for reason in state.volatility.reasons(statement):
        state.mark(reason)
    if state.session.run(statement):
        state.keep_whole()
    if copy.side == "program":
        state.content.add(copy.path)
        state.mark("\\copy … program")
        state.keep_whole()
    elif copy.side == "output":
        state.write(copy.path, "\\copy … to")
    elif copy.side == "file":
        data_file(state, copy.path, "\\copy … from")


def _lo_import(state: State, call: Call) -> None:
    add(state, call)
    data_file(state, call.bare(0), "\\lo_import")


def _lo_export(state: State, call: Call) -> None:
    add(state, call)
    state.write(call.bare(1), "\\lo_export")


def data_file(state: State, value: bytes | Unknown | None, what: str) -> None:
    """Notes a data file that a command or statement reads."""
    path = state.readable(state.path(value, what), what)
    if state.exists(path):
        state.content.data(state.files.label(path), state.files.other(path, state.where))


_HANDLERS: dict[str, Callable[[State, Call], None]] = {
    **dict.fromkeys(("restrict", "unrestrict"), _restrict),
    **dict.fromkeys(_PIPELINES, _keep),
    **dict.fromkeys(("o", "out", "w", "write"), _write),
    **dict.fromkeys(("g", "gx"), _g),
    **dict.fromkeys(("r", "reset", "q", "quit", "lo_unlink"), _show),
    "!": _program,
    "cd": _cd,
    "copy": _copy,
    "encoding": _encoding,
    "getenv": _getenv,
    "gexec": _gexec,
    "gset": _gset,
    "lo_export": _lo_export,
    "lo_import": _lo_import,
    "set": _set,
    "setenv": _setenv,
    "unset": _unset,
    "watch": _watch,
}
