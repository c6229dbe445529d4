"""Kills engine, servers, tools and containers of database states at random moments of their work, and looks whether
each state is whole and nothing is left behind.

`make db-kills` makes 200 rounds and goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from gauss.clients.dbstates.client import DatabaseStates, running, start
from gauss.model.errors import GaussError, NotFound
from helpers.containers import use_podman
from helpers.dbstates import (
    Prepared,
    btrfs,
    check_nothing_is_left,
    containers,
    kill_engine,
    marked_processes,
    prepare,
    unique,
    write_scripts,
)
from helpers.waiting import wait_until

ROUNDS = [
    *(("engine", "prepare"), ("server", "prepare"), ("tool", "prepare"), ("engine", "clone"), ("server", "clone")),
    *(("engine", "delete"), ("engine", "reset"), ("server", "reset"), ("engine", "warm"), ("engine", "snapshot")),
]
"""What is killed, while what is done."""
CONTAINER_ROUNDS = [("container", "prepare"), ("engine", "prepare"), ("container", "clone"), ("engine", "delete")]
ROWS = 20_000
SCRIPTS = {
    "one": "CREATE TABLE n AS SELECT i, md5(i::text) AS hash FROM generate_series(1, {rows}) AS i;",
    "two": "CREATE UNIQUE INDEX n_hash ON n (hash);\nDELETE FROM n WHERE i % 2 = 0;",
    "three": "UPDATE n SET hash = hash || i;\nCREATE TABLE made AS SELECT count(*) AS n FROM n;",
}
CHECK = "SELECT (SELECT count(*) FROM n WHERE hash = md5(i::text) || i), (SELECT count(*) FROM n), (SELECT n FROM made)"
LONGEST = {"prepare": 2.5, "snapshot": 1.0, "clone": 0.3, "delete": 0.1, "reset": 0.3, "warm": 1.0, "container": 12.0}
"""Seconds within which a kill comes."""


class DbKills:
    """A data directory whose engine is killed."""

    def __init__(self, data_dir: Path, scripts: Path, image: str = "") -> None:
        self.data_dir, self.scripts, self._image = data_dir, scripts, image
        self._fault = ""

    def round(self, victim: str, work: str, chance: random.Random) -> str:
        """Kills something while something is done; raises AssertionError unless all is well afterwards. Returns what
        became of the work."""
        client = start(self.data_dir)
        texts = {name: text.format(rows=ROWS) for name, text in SCRIPTS.items()}
        write_scripts(self.scripts, **{**texts, "one": unique() + texts["one"]})
        made = None if work in ("prepare", "snapshot") else self._prepare(client)
        if work == "warm":
            client.patch("config", body={"path": "instances.warmPool", "value": {"size": 3, "afterHits": 1}})
        ended: list[str] = []
        doing = threading.Thread(target=self._do, args=(client, work, made, ended), daemon=True)
        doing.start()
        self._kill(victim, work, client, doing, chance)
        doing.join(120)
        assert not doing.is_alive(), "the client waits for ever"
        client = start(self.data_dir)
        self._let_end(client)
        if work == "warm":
            client.delete("config", path="instances.warmPool")
        wait_until(self._is_clean, 60, lambda: self._fault)
        if made is not None and work == "reset":
            self._reset_again(client, made)
        self._check_contents(client)
        self._clear(client)
        return ended[0] if ended else "interrupted"

    def _prepare(self, client: DatabaseStates) -> Prepared:
        files = [each for name in SCRIPTS for each in ("-f", f"{name}.sql")]
        return prepare(client, self.scripts, *files, image=self._image)

    def _do(self, client: DatabaseStates, work: str, made: Prepared | None, ended: list[str]) -> None:
        """The work; its failure is not an error, for something is killed meanwhile."""
        with contextlib.suppress(GaussError, OSError, psycopg.Error, StopIteration):
            if made is not None and work == "delete":
                first = client.get("prepare-jobs", made.job)["tasks"]
                state = next(task["state_id"] for task in first if task["type"] == "state_execute")
                ended.append(client.remove("states", state, recurse="true", force="true")["outcome"])
            elif made is not None and work == "reset":
                client.post("instances", made.instance, "reset")
                ended.append("reset")
            else:
                ended.append(self._prepare(client).status)

    def _kill(
        self, victim: str, work: str, client: DatabaseStates, doing: threading.Thread, chance: random.Random
    ) -> None:
        before = set(marked_processes(self.data_dir))
        longest = LONGEST["container" if self._image else work]
        time.sleep(chance.random() * longest)  # the moment is what differs between rounds
        if work == "snapshot":
            self._wait_for_snapshot(client)
        match victim:
            case "engine":
                kill_engine(self.data_dir)
            case "container":
                self._one(lambda: sorted(containers(self.data_dir)), doing, chance, _kill_container)
            case _:
                word = b"postgres\0-D" if victim == "server" else b"psql\0"
                kept = before if victim == "tool" else set[int]()
                self._one(lambda: _processes(self.data_dir, word, kept), doing, chance, _kill_process)

    def _one(
        self, find: Callable[[], list[str]], doing: threading.Thread, chance: random.Random, kill: Callable[[str], None]
    ) -> None:
        """Kills one of what is found, as soon as there is one, unless the work ends before."""
        while not (found := find()) and doing.is_alive():
            time.sleep(0.005)
        if found:
            kill(chance.choice(found))

    def _wait_for_snapshot(self, client: DatabaseStates) -> None:
        """Until a job of this round takes a snapshot."""
        job = client.get("prepare-jobs")["jobs"][-1]["job_id"]
        for event in client.events(job):
            if event.get("message") == "snapshot prepare":
                return

    def _let_end(self, client: DatabaseStates) -> None:
        for job in client.get("prepare-jobs")["jobs"]:
            with contextlib.suppress(NotFound):  # only the newest of identical jobs are kept
                for last in list(client.events(job["job_id"]))[-1:]:  # none if it is removed at this moment
                    assert last["status"] in ("succeeded", "failed"), last

    def _is_clean(self) -> bool:
        try:
            check_nothing_is_left(self.data_dir, start(self.data_dir))
        except AssertionError as error:
            self._fault = str(error)
            return False
        return True

    def _reset_again(self, client: DatabaseStates, made: Prepared) -> None:
        """A reset that was interrupted forbids no other one, and leaves nothing."""
        if made.instance not in str(client.get("instances")):
            return
        client.post("instances", made.instance, "reset")
        made.client = client  # of the next engine
        assert made.sql("SELECT count(*) FROM n") == ROWS // 2
        folder = self.data_dir / "dbstates" / "state-store" / "instances" / made.instance
        assert not (folder / "data.old").exists()

    def _check_contents(self, client: DatabaseStates) -> None:
        """Each instance and a new clone have what the scripts make, whatever was cached."""
        made = self._prepare(client)
        assert made.status == "succeeded", made.error
        with psycopg.connect(made.dsn) as connection:
            found = connection.execute(CHECK).fetchone()
        assert found == (ROWS // 2, ROWS // 2, ROWS // 2), found
        for name in ("one", "two"):
            files = ["-f", "one.sql"] if name == "one" else ["-f", "one.sql", "-f", "two.sql"]
            part = prepare(client, self.scripts, *files, image=self._image)
            rows = ROWS if name == "one" else ROWS // 2
            assert part.sql("SELECT count(*) FROM n WHERE hash = md5(i::text)") == rows, name
            assert part.cached == [True] * len(part.cached)

    def _clear(self, client: DatabaseStates) -> None:
        """Removes all states with their instances; afterwards there is nothing but the empty cluster."""
        roots = [row for row in client.get("states")["states"] if row["parent_state_id"] is None]
        for row in roots:
            client.remove("states", row["state_id"], recurse="true", force="true")
        assert client.get("instances")["instances"] == []
        check_nothing_is_left(self.data_dir, client)
        store = self.data_dir / "dbstates" / "state-store"
        assert list(store.glob("engines/*/*/states/*")) == []


def _processes(data_dir: Path, word: bytes, without: set[int]) -> list[str]:
    found = []
    for pid in marked_processes(data_dir):
        with contextlib.suppress(OSError):
            if pid not in without and word in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(str(pid))
    return found


def _kill_process(pid: str) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid), signal.SIGKILL)


def _kill_container(container: str) -> None:
    subprocess.run(["podman", "kill", "--signal=KILL", container], check=False, capture_output=True)


def _rounds(image: str) -> list[tuple[str, str, str]]:
    plain = [(*each, "") for each in ROUNDS * 4]
    return plain + [(*each, image) for each in CONTAINER_ROUNDS] if image else plain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path(".cache/db-kills"))
    asked = parser.parse_args()
    record = asked.folder.absolute() / "rounds.json"
    done = json.loads(record.read_text()) if record.exists() else []
    folder = record.parent / f"{len(done)}-{os.getpid()}"
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        image, place = "", folder
        with contextlib.suppress(pytest.skip.Exception):
            place = stack.enter_context(btrfs(folder / "fs"))
        with contextlib.suppress(pytest.skip.Exception):
            image = use_podman(folder, stack.enter_context(pytest.MonkeyPatch.context()))
        data_dir, chance, rounds = place / "data", random.Random(len(done)), _rounds(image)
        stack.callback(_end, data_dir)
        start(data_dir).patch("config", body={"path": "container", "value": {"memory": "", "cpus": 0}})
        while len(done) < asked.kills:
            began, (victim, work, image) = time.monotonic(), rounds[len(done) % len(rounds)]
            became = DbKills(data_dir, folder / "scripts", image).round(victim, work, chance)
            done.append(f"{victim}, {work}")
            record.write_text(json.dumps(done))
            where = " in a container" if image else ""
            print(f"{len(done)} of {asked.kills}: {victim} killed in {work}{where}, which {became}: nothing is left, "
                  f"states are whole ({time.monotonic() - began:.0f} s)", flush=True)  # fmt: skip


def _end(data_dir: Path) -> None:
    if (client := running(data_dir)) is not None:
        client.post("shutdown")
        wait_until(lambda: running(data_dir) is None, what="the engine ends")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
