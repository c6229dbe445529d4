"""Instances of prepared databases: one for each test, and those that a data directory keeps."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gauss.clients.dbstates.client import DatabaseStates, running, start
from gauss.config.databases import DatabaseDef
from gauss.model.errors import ConfigError, GaussError, NotFound, Unavailable, from_dict
from gauss.model.files import PRIVATE_FILE, read_json, write_private
from gauss.process import locks

LOCK_SECONDS = 600.0


@dataclass(frozen=True)
class Prepared:
    """An instance of a prepared state."""

    instance: str
    state: str
    dsn: str


class Holder:
    """A lock on a file by which this process holds instances: when it is closed, or the process ends in any way, so do
    their preparation and their life. Several processes may hold the same file."""

    def __init__(self, path: Path) -> None:
        path.touch(PRIVATE_FILE)
        self.path = path.absolute()
        self._descriptor: int | None = locks.share(path)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


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


def instance(client: DatabaseStates, request: Mapping[str, Any], holder: Holder) -> Prepared:
    """A new instance, which lives as long as its holder."""
    result = prepare(client, {**request, "held_by": str(holder.path)})
    made = result["instance_id"]
    return Prepared(made, result["state_id"], client.dsn(made))


def remove(client: DatabaseStates, made: Prepared) -> None:
    """Removes an instance, though clients may be connected. Idempotent."""
    with suppress(NotFound):
        client.remove("instances", made.instance, force="true")


def named_instance(client: DatabaseStates, database: DatabaseDef, folder: Path, holder: Holder) -> Prepared:
    """An instance of a `[[databases]]` entry, whose name is in the message of an error."""
    with _telling(database):
        return instance(client, _request(database, folder), holder)


def kept_instances(data_dir: Path, databases: Iterable[DatabaseDef], folder: Path) -> tuple[dict[str, str], Holder]:
    """DSNs by the names of databases, and what holds them: the instances that a data directory keeps, made where there
    are none. When nobody holds them their servers are stopped; what they contain stays.

    Positions and other state of the data directory belong to the content of these instances."""
    client, place = start(data_dir), _place(data_dir)
    lock = locks.take(place.with_name("preparing.lock"), wait_seconds=LOCK_SECONDS)
    if lock is None:
        raise Unavailable("another command has been preparing databases for ten minutes", hint="gauss db status")
    holder = Holder(place.with_name("kept.lock"))
    try:
        kept: dict[str, str] = read_json(place) or {}
        found = {}
        for database in databases:
            with _telling(database):
                made = _kept(client, kept.get(database.name), database, folder, holder)
                kept[database.name] = made.instance
                write_private(place, kept)  # before it is kept: one that nobody knows must not be
                client.patch("instances", made.instance, body={"kept": True})
            found[database.name] = made.dsn
        return found, holder
    except BaseException:
        holder.close()
        raise
    finally:
        os.close(lock)


def kept_ids(data_dir: Path) -> dict[str, str]:
    """The ids of the instances that a data directory keeps, by the names of databases."""
    return read_json(_place(data_dir)) or {}


def known_instances(data_dir: Path) -> dict[str, str]:
    """DSNs by the names of databases: those of the kept instances whose servers run. Starts nothing."""
    client = running(data_dir)
    kept = {} if client is None else kept_ids(data_dir)
    found = {}
    for name, known in kept.items():
        assert client is not None
        with suppress(NotFound):
            row = client.get("instances", known)
            if row["status"] == "running":
                found[name] = row["dsn"]
    return found


def _place(data_dir: Path) -> Path:
    """The file with the ids of the kept instances, by the names of databases."""
    return data_dir.absolute() / "dbstates" / "kept.json"


def _kept(client: DatabaseStates, known: str | None, database: DatabaseDef, folder: Path, holder: Holder) -> Prepared:
    """The known instance if it is there and has the content of the scripts, else a new one."""
    request = _request(database, folder)
    try:
        row = None if known is None else client.get("instances", known)
    except NotFound:
        row = None
    if row is None:
        return instance(client, request, holder)
    planned = prepare(client, {**request, "plan_only": True, "held_by": str(holder.path)})["state_id"]
    if planned != row["state_id"]:
        short = row["instance_id"][:12]
        raise ConfigError(
            f"its scripts, or the Postgres that runs them, have changed since this data directory got instance {short}",
            hint=f"use another --data-dir; or remove what this one has with gauss db rm {short}: the next run makes it"
            " anew, but goes on reading where the last one ended",
        )
    row = client.post("instances", row["instance_id"], "start", body={"held_by": str(holder.path)})
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
