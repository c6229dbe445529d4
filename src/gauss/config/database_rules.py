"""Checks `[[databases]]`: their scripts, and that every reference has an entry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gauss.config.database_refs import KEY, PARTS, database_of, side_database
from gauss.config.databases import DatabaseDef
from gauss.config.entries import Entries
from gauss.config.faults import Scope
from gauss.config.sync_rules import KINDS
from gauss.config.validate import did_you_mean
from gauss.model.errors import PluginError

NEEDED = {"psql": '["-f", "schema.sql"]', "migrations": '["FOLDER"] with files such as V001__schema.sql'}
"""The arguments of the kinds that do nothing without."""


def check_databases(entries: Entries, base_dir: Path) -> None:
    """Reports unknown databases, entries that nothing refers to, and scripts that do not exist."""
    known = entries.names["databases"]
    used = set()
    for scope, name in _references(entries):
        used.add(name)
        if name not in known:
            scope.add(
                (KEY,),
                f'unknown database "{name}"',
                expected=f"one of {', '.join(sorted(known))}" if known else "a [[databases]] entry",
                hint=did_you_mean(name, known) or "define it in [[databases]], or name a server by host or dsn",
            )
    for scope, entry in entries.databases:
        if entry.name not in used:
            hint = f'set database = "{entry.name}" in a Postgres topic, a pg-source or a sync'
            scope.add(("name",), "nothing refers to it", hint=hint, warning=True)
        _check_scripts(entry, base_dir, scope.inside("prepare", "args"))


def _check_scripts(entry: DatabaseDef, base_dir: Path, scope: Scope) -> None:
    """Reports missing arguments, and files and folders in them that do not exist."""
    kind, args = entry.prepare.kind, entry.prepare.args
    if kind in NEEDED and not args:
        scope.add((), f'"args" is missing: {kind} has nothing to prepare', expected=NEEDED[kind])
    for number, word in enumerate(args):
        place = base_dir / word
        if kind == "psql" and number and args[number - 1] in ("-f", "--file") and word != "-" and not place.is_file():
            _missing(scope, number, "file", place)
        if kind == "migrations" and not word.startswith("-") and not place.is_dir():
            _missing(scope, number, "folder", place)


def _missing(scope: Scope, number: int, what: str, place: Path) -> None:
    hint = "relative paths start at the folder of the config file"
    scope.add(
        (number,), f'"args" names a {what} that does not exist', expected=f"a {what}", found=str(place), hint=hint
    )


def _references(entries: Entries) -> Iterator[tuple[Scope, str]]:
    """The tables that refer to a database, and its name."""
    for part in PARTS:
        for each in getattr(entries, part.section):
            name = database_of(each.spec, getattr(each.definition, part.config_key))
            if name is not None:
                yield each.scope.inside(part.config_key), name
    for scope, sync in entries.syncs:
        for role in KINDS:
            try:
                name = side_database(role, getattr(sync, role))
            except PluginError:  # reported with the connector
                continue
            if name is not None:
                yield scope.inside(role), name
