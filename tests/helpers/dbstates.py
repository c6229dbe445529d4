"""Engines of database states, scripts for them, and what jobs told."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gauss.clients.dbstates.client import DatabaseStates, running, start
from gauss.dbstates.runtimes.container import LABEL
from gauss.dbstates.runtimes.process import MARK
from helpers.waiting import wait_until

SCHEMA = "CREATE TABLE people (id int PRIMARY KEY, name text);\n"
SEED = "INSERT INTO people SELECT n, 'name ' || n FROM generate_series(1, 100) n;\n"


def write_scripts(folder: Path, **scripts: str) -> Path:
    """Writes `NAME.sql` files. A unique comment outside of keys is not needed: states are told apart by content."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (scripts or {"schema": SCHEMA, "seed": SEED}).items():
        (folder / f"{name}.sql").write_text(text)
    return folder


def unique() -> str:
    """A script that no state was made of yet."""
    return f"CREATE TABLE t_{uuid.uuid4().hex} (a int);\n"


class Prepared:
    """A job with all its events."""

    def __init__(self, client: DatabaseStates, events: list[dict[str, Any]]) -> None:
        self.client, self.events = client, events
        self.job: str = events[0]["job_id"]
        self.status: str = events[-1]["status"]
        results = [event for event in events if event["type"] == "result"]
        self.result: dict[str, Any] = results[-1] if results else {}
        errors = [event["error"] for event in events if event["type"] == "error"]
        self.error: dict[str, Any] = errors[-1] if errors else {}

    @property
    def cached(self) -> list[bool]:
        return [task["cached"] for task in self.result["tasks"] if task["type"] == "state_execute"]

    @property
    def instance(self) -> str:
        return str(self.result["instance_id"])

    @property
    def state(self) -> str:
        return str(self.result["state_id"])

    @property
    def dsn(self) -> str:
        return str(self.client.get("instances", self.instance)["dsn"])

    @property
    def logs(self) -> list[str]:
        return [event["message"] for event in self.events if event["type"] == "log"]

    def sql(self, query: str) -> Any:
        """The first value of a query on the instance."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            found = connection.execute(query.encode())
            row = found.fetchone() if found.description else None
            return row[0] if row else None


def request(folder: Path, *args: str, **more: Any) -> dict[str, Any]:
    return {"args": list(args or ("-f", "schema.sql", "-f", "seed.sql")), "cwd": str(folder), "env": {}, **more}


def prepare(client: DatabaseStates, folder: Path, *args: str, **more: Any) -> Prepared:
    """Runs a job to its end."""
    return Prepared(client, list(client.prepare(request(folder, *args, **more))))


@contextmanager
def engine(data_dir: Path) -> Iterator[DatabaseStates]:
    """A running engine; afterwards it and its servers are gone."""
    try:
        yield start(data_dir)
    finally:
        if (left := running(data_dir)) is not None:
            left.post("shutdown")
            wait_until(lambda: running(data_dir) is None, what="the engine ends")


def identity(data_dir: Path, name: str) -> str:
    """What the store of a data directory is known by outside."""
    import sqlite3

    with sqlite3.connect(data_dir / "dbstates" / "state-store" / "metadata.db") as metadata:
        return str(metadata.execute("SELECT value FROM identity WHERE name = ?", (name,)).fetchone()[0])


def socket_folders(data_dir: Path) -> set[str]:
    """The folders of servers' sockets, outside the store."""
    folder = Path(identity(data_dir, "sockets"))
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def containers(data_dir: Path) -> set[str]:
    """The ids of all containers of the store, ended ones included."""
    wanted = f"label={LABEL}={identity(data_dir, 'store')}"
    command = ["podman", "ps", "--all", "--quiet", "--no-trunc", "--filter", wanted]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def marked_processes(data_dir: Path) -> list[int]:
    """Servers and tools of the store of a data directory: those whose environment names it."""
    store, found = identity(data_dir, "store"), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                if f"{MARK}={store}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@contextmanager
def btrfs(folder: Path, size: str = "4G") -> Iterator[Path]:
    """A btrfs file system on a loop device, made for the test. Skips the test where that can't be."""
    folder.mkdir(parents=True, exist_ok=True)
    image, mount = folder / "btrfs.img", folder / "btrfs"
    if os.geteuid() != 0 or shutil.which("mkfs.btrfs") is None:
        pytest.skip("a btrfs file system needs root and btrfs-progs (make packages)")
    subprocess.run(["truncate", "-s", size, image], check=True)
    subprocess.run(["mkfs.btrfs", "-q", image], check=True, capture_output=True)
    mount.mkdir()
    if (done := subprocess.run(["mount", "-o", "loop", image, mount], check=False, capture_output=True)).returncode:
        pytest.skip(f"btrfs can't be mounted here: {done.stderr.decode()}")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", mount], check=False)
        image.unlink()


def kill_engine(data_dir: Path) -> None:
    """kill -9, and waits until the engine's lock is free."""
    import signal

    client = running(data_dir)
    assert client is not None
    os.kill(client.place["pid"], signal.SIGKILL)
    wait_until(lambda: running(data_dir) is None, what="the engine is gone")


def check_nothing_is_left(data_dir: Path, client: DatabaseStates) -> None:
    """Processes, folders and states are those of the metadata, and no partial state is ready."""
    store = data_dir / "dbstates" / "state-store"
    instances = client.get("instances")["instances"]
    processes = [row for row in instances if row["runtime"] == "process"]
    servers = {int(row["runtime_id"].split("-")[0]) for row in processes if row["status"] == "running"}
    parents = {pid: psutil_parent(pid) for pid in marked_processes(data_dir)}
    assert {pid for pid, parent in parents.items() if parent not in servers} <= servers, (parents, servers)
    known = {row["instance_id"] for row in instances}
    assert {path.name for path in (store / "instances").iterdir()} == known
    assert socket_folders(data_dir) <= {instance[:12] for instance in known}
    jobs = {row["job_id"] for row in client.get("prepare-jobs")["jobs"]}
    assert {path.name for path in (store / "jobs").iterdir()} <= jobs
    if shutil.which("podman"):
        running = {row["runtime_id"] for row in instances if row["runtime"] == "container"}
        assert containers(data_dir) <= running
    states = client.get("states")["states"]
    ready = {row["state_id"] for row in states if row["status"] == "ready"}
    assert {path.name for path in store.glob("engines/*/*/states/*")} == ready
    for path in store.glob("engines/*/*/states/*"):
        assert (path / "PG_VERSION").exists() and not (path / "postmaster.pid").exists(), path


def psutil_parent(pid: int) -> int:
    import psutil

    try:
        return int(psutil.Process(pid).ppid())
    except psutil.NoSuchProcess:
        return 0
