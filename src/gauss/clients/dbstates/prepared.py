"""Instances of prepared databases: one for each test, and those that a data directory keeps."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gauss.clients.dbstates.client import DatabaseStates, start
from gauss.config.databases import DatabaseDef
from gauss.model.errors import ConfigError, GaussError, NotFound, Unavailable, from_dict
from gauss.model.files import read_json, write_private
from gauss.process import locks

TEST_SECONDS = 600.0
"""A test that was killed leaves an instance, which ends this long after its last connection."""
KEPT_SECONDS = 10 * 365 * 86_400.0
"""Instances of data directories are there until somebody removes them."""
LOCK_SECONDS = 600.0


@dataclass(frozen=True)
class Prepared:
    """An instance of a prepared state."""

    instance: str
    state: str
    dsn: str


def request_of(kind: str, args: Iterable[str], folder: Path, image: str = "") -> dict[str, Any]:
    """The request for the state that scripts of a folder make."""
    asked = {"prepare_kind": kind, "args": list(args), "cwd": str(folder.absolute()), "image": image}
    return {**asked, "env": dict(os.environ)}


def prepare(client: DatabaseStates, request: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a job. Raises the error with which it failed."""
    result: dict[str, Any] | None = None
    for event in client.prepare(dict(request)):
        if event["type"] == "error":
            error: GaussError = from_dict(event["error"])
            raise error
        if event["type"] == "result":
            result = event
    if result is None:
        raise Unavailable("the job was removed before it ended", hint="prepare it again")
    return result


def instance(client: DatabaseStates, request: Mapping[str, Any], ttl_seconds: float) -> Prepared:
    """A new instance."""
    result = prepare(client, {**request, "ttl_secs": ttl_seconds})
    made = result["instance_id"]
    return Prepared(made, result["state_id"], client.get("instances", made)["dsn"])


def remove(client: DatabaseStates, made: Prepared) -> None:
    """Removes an instance, though clients may be connected. Idempotent."""
    with suppress(NotFound):
        client.remove("instances", made.instance, force="true")


@contextmanager
def clone(client: DatabaseStates, request: Mapping[str, Any]) -> Iterator[Prepared]:
    """An instance of its own for a test."""
    made = instance(client, request, TEST_SECONDS)
    try:
        yield made
    finally:
        remove(client, made)


def named_instance(client: DatabaseStates, database: DatabaseDef, folder: Path, ttl_seconds: float) -> Prepared:
    """An instance of a `[[databases]]` entry, whose name is in the message of an error."""
    with _telling(database):
        return instance(client, _request(database, folder), ttl_seconds)


def kept_instances(data_dir: Path, databases: Iterable[DatabaseDef], folder: Path) -> dict[str, str]:
    """DSNs by the names of databases: those of the instances that a data directory keeps, made where there are none.

    Positions and other state of the data directory belong to the content of these instances."""
    client = start(data_dir)
    place = data_dir.absolute() / "dbstates" / "kept.json"
    lock = locks.take(place.with_suffix(".lock"), wait_seconds=LOCK_SECONDS)
    if lock is None:
        raise Unavailable("another command has been preparing databases for ten minutes", hint="gauss db status")
    try:
        kept: dict[str, str] = read_json(place) or {}
        found = {}
        for database in databases:
            with _telling(database):
                made = _kept(client, kept.get(database.name), database, folder)
            kept[database.name] = made.instance
            found[database.name] = made.dsn
            write_private(place, kept)
        return found
    finally:
        os.close(lock)


def _kept(client: DatabaseStates, known: str | None, database: DatabaseDef, folder: Path) -> Prepared:
    """The known instance if it is there and has the content of the scripts, else a new one."""
    request = _request(database, folder)
    try:
        row = None if known is None else client.get("instances", known)
    except NotFound:
        row = None
    if row is None:
        return instance(client, request, KEPT_SECONDS)
    planned = prepare(client, {**request, "plan_only": True})["state_id"]
    if planned != row["state_id"]:
        raise ConfigError(
            f"its scripts have changed since this data directory got its instance {row['instance_id'][:12]}",
            hint=f"remove that one with gauss db rm {row['instance_id'][:12]}, or use another --data-dir",
        )
    if row["status"] != "running":
        list(client.run({"instance_id": row["instance_id"], "args": ["-c", "SELECT 1"]}))
        row = client.get("instances", row["instance_id"])
    return Prepared(row["instance_id"], row["state_id"], row["dsn"])


def _request(database: DatabaseDef, folder: Path) -> dict[str, Any]:
    return request_of(database.prepare.kind, database.prepare.args, folder, database.prepare.image)


@contextmanager
def _telling(database: DatabaseDef) -> Iterator[None]:
    try:
        yield
    except GaussError as error:
        error.message = f'database "{database.name}": {error.message}'
        raise
