"""Statements whose result differs from run to run.

A definition is no such statement: `DEFAULT now()`, a view or a function body runs nothing yet. Its name is remembered,
and the statements that use it are marked: an INSERT or COPY into the table, any statement that names the function or
view.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from gauss.dbstates.planning.effects import split
from gauss.dbstates.planning.lexer import words

_CALLED = words(
    "now clock_timestamp statement_timestamp transaction_timestamp timeofday random random_normal gen_random_uuid "
    "array_sample array_shuffle "
    "uuidv4 uuidv7 gen_random_bytes gen_salt txid_current pg_current_xact_id pg_backend_pid pg_read_file "
    "pg_read_binary_file pg_ls_dir pg_stat_file pg_postmaster_start_time inet_client_addr inet_client_port "
    "inet_server_port lo_import age normal_rand pgp_sym_encrypt pgp_sym_encrypt_bytea pgp_pub_encrypt "
    "pgp_pub_encrypt_bytea txid_current_snapshot pg_current_snapshot pg_export_snapshot pg_current_wal_lsn "
    "pg_current_wal_insert_lsn pg_control_system pg_control_checkpoint pg_conf_load_time "
)
_NAMED = words("current_timestamp current_date current_time localtime localtimestamp postgres_fdw file_fdw tablesample")
_RELATIVE = re.compile(rb"e?'\s*(now|today|tomorrow|yesterday)(?:\s+[\d:.]+)?\s*'", re.IGNORECASE)
"""A literal that a cast makes a time."""
_WATCHED = frozenset(each.encode() for each in _CALLED | _NAMED)
_PREFIXES = (b"dblink", b"uuid_generate_", b"pg_stat_", b"pg_statio_")
_READ = (b"dblink", b"pg_stat_", b"pg_statio_")
"""Prefixes of names that differ also where they are not called: connections, views."""
IN_LITERAL = re.compile(
    rb"\b(?:(%b|dblink\w*|uuid_generate_\w+)\s*\(|(%b|pg_stat(?:io)?_\w+)\b|copy\b[^;]*?\bfrom\s+(?:program\s+)?(')(?!'))"
    % ("|".join(sorted(_CALLED)).encode(), "|".join(sorted(_NAMED)).encode()),
    re.IGNORECASE,
)
_WRITES = frozenset([b"insert", b"copy", b"merge"])
_DEFINES = frozenset([b"function", b"procedure", b"view", b"aggregate", b"rule", b"domain", b"type", b"operator"])
_TABLE_PARTS = frozenset([b"constraint", b"primary", b"unique", b"check", b"foreign", b"exclude", b"like", b"("])
_SKIPPED = frozenset([b"only", b"if", b"not", b"exists", b"concurrently"])


@dataclass
class _Table:
    """A table with columns, or triggers, that give other values in each run."""

    reason: str
    columns: set[bytes] | None
    """The columns; None if a value that is given does not help."""


class Volatility:
    """What the statements so far have defined that gives other results in each run."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._tables: dict[bytes, _Table] = {}

    def copy(self) -> Volatility:
        """The same, for a script that may be followed twice."""
        found = Volatility()
        found._names, found._tables = dict(self._names), dict(self._tables)
        return found

    def reasons(self, tokens: list[bytes]) -> list[str]:
        """Why a statement that runs now can give another result in the next run."""
        found = list[str]()
        for each in split(tokens):
            for reason in self._of_one([token.lower() if token[:1] != b"'" else token for token in each], each):
                if reason not in found:
                    found.append(reason)
        return found

    def of_results(self, tokens: list[bytes]) -> list[str]:
        """Why the statements that a query makes, as far as its literals show them, can give another result."""
        return list(dict.fromkeys(each for token in tokens if b"'" in token for each in self._in_literal(token)))

    def _of_one(self, lowered: list[bytes], tokens: list[bytes]) -> list[str]:
        first = lowered[0]
        if first == b"create" and (made := _created(lowered)):
            kind, name, at = made
            if kind == b"table" and b"as" not in lowered[at : at + 2] and b"select" not in lowered:
                self._define_table(name, lowered[at:])
                return []
            if kind == b"trigger":
                self._define_trigger(lowered, tokens)
                return []
            if kind in _DEFINES and lowered[1] != b"materialized":
                if reasons := self._used(lowered, tokens):
                    self._names[name] = reasons[0]
                return []
        if first == b"alter" and b"default" in lowered and b"add" not in lowered:
            if (reasons := self._used(lowered, tokens)) and b"table" in lowered[:2]:
                name = _name(lowered, 2)[0]
                self._tables[name] = _Table(f"{reasons[0]} by a default of {_text(name)}", None)
            return []
        return [*self._used(lowered, tokens), *self._written(lowered)]

    def _used(self, lowered: list[bytes], tokens: list[bytes]) -> list[str]:
        found = list[str]()
        relative = any(b"'" in token and _RELATIVE.fullmatch(token) for token in lowered)
        if (
            relative
            or not _WATCHED.isdisjoint(lowered)
            or not self._names.keys().isdisjoint(lowered)
            or _prefixed(lowered)
        ):
            found = self._found(lowered)
        if lowered[0] in (b"do", b"create"):
            for token in tokens:
                if token[:1] in b"$'eE" and len(token) > 4:
                    found += self._in_literal(token)
        if lowered[0] == b"copy" and b"program" in lowered:
            found.append("COPY … PROGRAM")
        return found

    def _found(self, lowered: list[bytes]) -> list[str]:
        found = list[str]()
        for token, after in pairwise([*lowered, b""]):
            if relative := _RELATIVE.fullmatch(token):
                found.append(f"'{relative[1].decode().lower()}'")
            elif token in _WATCHED or token.startswith(_PREFIXES):
                name = token.decode("latin-1")
                if name in _NAMED:
                    found.append(name)
                elif after == b"(" or token.startswith(_READ):
                    found.append(f"{name}()" if after == b"(" else name)
            elif (reason := self._names.get(token.strip(b'"'))) is not None:
                found.append(f"{reason} by {_text(token)}")
        return found

    def _in_literal(self, text: bytes) -> list[str]:
        found = []
        if text[:1] != b"$":
            text = text.replace(b"''", b"'")
        for match in IN_LITERAL.finditer(text):
            called, named, file = (each.lower().decode("latin-1") if each else "" for each in match.groups())
            found.append(f"{called}()" if called else named or (file and "COPY from a file"))
        lowered = text.lower()
        return found + [f"{reason} by {_text(name)}" for name, reason in self._names.items() if name in lowered]

    def _define_table(self, name: bytes, lowered: list[bytes]) -> None:
        columns, reason, depth, column = set[bytes](), "", 0, b""
        for i, token in enumerate(lowered):
            if token in (b"(", b","):
                depth += token == b"("
                after = lowered[i + 1] if i + 1 < len(lowered) else b""
                if depth == 1 and after not in _TABLE_PARTS:
                    column = after.strip(b'"')
            elif token == b")":
                depth -= 1
            elif (
                (found := self._used([token, *lowered[i + 1 : i + 2]], [])) and found[0] and column != token.strip(b'"')
            ):
                columns.add(column)
                reason = reason or found[0]
        if reason:
            self._tables[name] = _Table(f"{reason} by a default of {_text(name)}", columns)

    def _define_trigger(self, lowered: list[bytes], tokens: list[bytes]) -> None:
        if (reasons := self._used(lowered, tokens)) and b"on" in lowered:
            name = _name(lowered, lowered.index(b"on") + 1)[0]
            self._tables[name] = _Table(f"{reasons[0]} in a trigger of {_text(name)}", None)

    def _written(self, lowered: list[bytes]) -> list[str]:
        found = []
        for i, token in enumerate(lowered[:-1] if self._tables else ()):
            if token not in _WRITES and not (token == b"update" and self._triggers(lowered, i)):
                continue
            name, at = _name(lowered, i + 2 if lowered[i + 1] == b"into" else i + 1)
            table = self._tables.get(name)
            if table is None:
                continue
            given = set[bytes]()
            if lowered[at : at + 1] == [b"("] and b")" in lowered[at:]:
                given = {each.strip(b'"') for each in lowered[at + 1 : lowered.index(b")", at)]}
            if table.columns is None or not table.columns <= given or b"default" in lowered:
                found.append(table.reason)
        return found

    def _triggers(self, lowered: list[bytes], at: int) -> bool:
        table = self._tables.get(_name(lowered, at + 1)[0])
        return table is not None and table.columns is None


def _created(lowered: list[bytes]) -> tuple[bytes, bytes, int] | None:
    """Kind and name of what a CREATE statement creates, and where its name ends."""
    for i, token in enumerate(lowered[1:8], 1):
        if token in _DEFINES or token in (b"table", b"trigger"):
            name, at = _name(lowered, i + 1)
            return token, name, at
    return None


def _name(lowered: list[bytes], at: int) -> tuple[bytes, int]:
    """The last part of a name, and where it ends."""
    while at < len(lowered) and lowered[at] in _SKIPPED:
        at += 1
    while at + 2 < len(lowered) and lowered[at + 1] == b".":
        at += 2
    return (lowered[at].strip(b'"') if at < len(lowered) else b""), at + 1


def _prefixed(lowered: list[bytes]) -> bool:
    joined = b"\n".join(lowered)
    return b'"' in joined or any(each in joined for each in _PREFIXES)


def _text(name: bytes) -> str:
    return name.strip(b'"').decode("utf-8", "replace")
