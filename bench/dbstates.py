"""Database states: an instance at a cache hit beside a bare snapshot and server, copies of a template database, a fresh
cluster, and a bare container. All are measured in turns, so that a busy machine slows all of them.

`GAUSS_BENCH_LARGEST_MB` limits the largest database (5000); `GAUSS_BENCH_IMAGE` names an image for containers."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
from bench.bare_postgres import BarePostgres

from gauss.clients.dbstates.client import DatabaseStates, running, start
from gauss.clients.dbstates.prepared import prepare, request_of
from gauss.dbstates.statefs.exclusive import disk_use

LARGEST_MB = int(os.environ.get("GAUSS_BENCH_LARGEST_MB", "5000"))
SIZES = sorted({10, min(500, LARGEST_MB), LARGEST_MB})
IMAGE = os.environ.get("GAUSS_BENCH_IMAGE", "")
TIMES = 15
CASES, POOL, AT_ONCE = 100, 10, 32
ROWS_PER_MB = 900
"""Rows of about a kilobyte, with the room that pages need."""
SCHEMA = "CREATE TABLE items (id int PRIMARY KEY, name text);\n"
SEED = """
ALTER TABLE items ALTER name SET STORAGE plain;
INSERT INTO items SELECT n, repeat(md5(n::text), 32) FROM generate_series(1, {rows}) n;
"""
Row = dict[str, object]


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, file_system(Path(folder)) as place, engine(place / "data") as client:
        return list(Bench(Path(folder), place, client).rows())


class Bench:
    """One engine with states of several sizes."""

    def __init__(self, scripts: Path, place: Path, client: DatabaseStates) -> None:
        self._scripts, self._place, self._client = scripts, place, client
        self._store = place / "data" / "dbstates" / "state-store"
        self._backend = client.get("cache", "status")["backend"]
        (scripts / "schema.sql").write_text(SCHEMA)

    def rows(self) -> Iterator[Row]:
        client = self._client
        hits: dict[int, float] = {}
        bare: dict[int, float] = {}
        for size in SIZES:
            (self._scripts / f"seed{size}.sql").write_text(SEED.format(rows=max(size - 8, 1) * ROWS_PER_MB))
            state = self._prepare(size)["state_id"]
            other = BarePostgres(self._state(state), self._place / "bare")
            hits[size], bare[size] = in_turns(lambda s=size: self._hit(s), other.timed)  # type: ignore[misc]
            yield ratio(f"instance at a cache hit, {size:,} MB", hits[size], "snapshot + spawn", bare[size], "≤ 1.3")
            if size == SIZES[0]:
                yield from self._small(size, other)
        flat = f"{max(hits.values()) / min(hits.values()):.2f}"
        yield row("the slowest size beside the fastest", f"{shown(max(hits.values()))}", ratio=flat, aim="≤ 1.5")
        yield row("snapshot of a step", f"{self._snapshot_ms():.0f} ms", aim="≤ 25 ms")
        yield from self._container()
        client.post("shutdown")

    def _small(self, size: int, bare: BarePostgres) -> Iterator[Row]:
        result = self._prepare(size)
        instance = result["instance_id"]
        reset = lambda: self._timed(lambda: self._client.post("instances", instance, "reset"))  # noqa: E731
        again, plain = in_turns(reset, bare.timed)
        yield ratio("reset", again, "snapshot + spawn", plain, "≤ 1.5")
        yield from self._idle(instance)
        yield from self._warm(size)
        with psycopg.connect(self._dsn(instance), dbname="template1", autocommit=True) as connection:
            template = Template(connection, self._dsn(instance))
            hit, copied = in_turns(lambda: self._hit(size), template.timed)
            yield ratio(f"instance at a cache hit, {size} MB", hit, "CREATE DATABASE … TEMPLATE", copied)
            yield from self._cases(size, template)
        fresh = bare.fresh([self._scripts / "schema.sql", self._scripts / f"seed{size}.sql"])
        yield ratio(f"instance at a cache hit, {size} MB", hit, "initdb, start, scripts", fresh)

    def _idle(self, instance: str) -> Iterator[Row]:
        """What a clone takes that nobody uses."""
        subprocess.run(["sync", "-f", self._place], check=True)
        alone = disk_use(self._store / "instances" / instance / "data").exclusive
        pid = int(self._client.get("instances", instance)["runtime_id"].split("-")[0])
        server = psutil.Process(pid)
        pss = sum(each.memory_full_info().pss for each in [server, *server.children(recursive=True)])
        yield row("disk of an idle clone", f"{alone / 1e6:.1f} MB", aim="≤ 2 MB")
        yield row("PSS of an idle clone", f"{pss / 1e6:.1f} MB", aim="≤ 15 MB")

    def _warm(self, size: int) -> Iterator[Row]:
        """Instances that are started before they are asked for, one by one and many at once."""
        self._pool(AT_ONCE)
        state = self._prepare(size)["state_id"]
        wait_for(lambda: self._client.get("states", state)["warm"] == AT_ONCE)
        handed = [self._hit(size) for _ in range(TIMES)]
        yield row("from the warm pool", f"{statistics.median(handed):.1f} ms", aim="≤ 10 ms")
        wait_for(lambda: self._client.get("states", state)["warm"] == AT_ONCE)
        with ThreadPoolExecutor(AT_ONCE) as threads:
            began = time.perf_counter()
            found = list(threads.map(lambda _: self._hit(size, keep=True), range(AT_ONCE)))
            took = (time.perf_counter() - began) * 1000
        told = f"p50 {statistics.median(found):.0f}, longest {max(found):.0f} ms, all {took:.0f} ms"
        yield row(f"{AT_ONCE} at once from the warm pool", told, aim="longest ≤ 100 ms")
        self._pool(0)
        for each in self._client.get("instances")["instances"][-AT_ONCE:]:
            self._client.remove("instances", each["instance_id"], force="true")

    def _cases(self, size: int, template: Template) -> Iterator[Row]:
        """A hundred tests, each with a database of its own."""
        ways: dict[str, Callable[[], Callable[[], None]]] = {
            "clones": lambda: self._case(size), "warm clones": lambda: self._case(size), "TEMPLATE": template.case,
            "a pool of template copies": template.pooled_case,
        }  # fmt: skip
        seconds = {}
        for name, way in ways.items():
            self._pool(POOL if name == "warm clones" else 0)
            if name == "a pool of template copies":
                template.fill(POOL)
            with ThreadPoolExecutor(1) as removing:
                began = time.perf_counter()
                for _ in range(CASES):
                    removing.submit(way())
                seconds[name] = time.perf_counter() - began
            template.stop()
        self._pool(0)
        for name in ("clones", "warm clones"):
            for other in ("TEMPLATE", "a pool of template copies"):
                yield ratio(f"{CASES} tests with {name}", seconds[name] * 1000, other, seconds[other] * 1000)

    def _case(self, size: int) -> Callable[[], None]:
        result = self._prepare(size)
        with psycopg.connect(self._dsn(result["instance_id"])) as connection:
            work(connection)
        return lambda: self._remove(result["instance_id"])

    def _container(self) -> Iterator[Row]:
        """A clone in a container beside the time that podman needs for one that does nothing."""
        if not IMAGE or shutil.which("podman") is None:
            return
        self._client.patch("config", body={"path": "container", "value": {"memory": "", "cpus": 0}})
        self._prepare(SIZES[0], IMAGE)
        command = ["podman", "run", "--rm", "--network=host", "--entrypoint=/bin/sh", IMAGE, "-c", ":"]
        hit, bare = in_turns(
            lambda: self._hit(SIZES[0], IMAGE),
            lambda: self._timed(lambda: subprocess.run(command, check=True, capture_output=True)),
            times=5,
        )
        more = f"{hit - bare:+.0f} ms"
        yield row(
            "instance at a cache hit, container", shown(hit), f"podman run {shown(bare)}", ratio=more, aim="+100 ms"
        )

    # --- one instance ---

    def _prepare(self, size: int, image: str = "") -> dict[str, Any]:
        args = ["-f", "schema.sql", "-f", f"seed{size}.sql"]
        return prepare(self._client, request_of("psql", args, self._scripts, image))

    def _hit(self, size: int, image: str = "", *, keep: bool = False) -> float:
        """Milliseconds to an instance that accepts connections and whose address is known."""
        began = time.perf_counter()
        instance = self._prepare(size, image)["instance_id"]
        self._dsn(instance)
        took = (time.perf_counter() - began) * 1000
        if not keep:
            self._remove(instance)
        return took

    def _dsn(self, instance: str) -> str:
        return self._client.dsn(instance)

    def _remove(self, instance: str) -> None:
        self._client.remove("instances", instance, force="true")

    def _state(self, state: str) -> Path:
        return next(self._store.glob(f"engines/*/*/states/{state}"))

    def _pool(self, size: int) -> None:
        self._client.patch("config", body={"path": "instances.warmPool", "value": {"size": size, "afterHits": 1}})

    def _snapshot_ms(self) -> float:
        """The median of the snapshots after steps behind which others follow."""
        for number in range(11):
            (self._scripts / f"step{number}.sql").write_text(f"CREATE TABLE s{number} (a int);")
        args = [each for number in range(11) for each in ("-f", f"step{number}.sql")]
        begun, found = 0, list[int]()
        for event in self._client.prepare(request_of("psql", args, self._scripts)):
            match event.get("message"):
                case "snapshot prepare":
                    begun = event["ts"]
                case "snapshot taken of the running server":
                    found.append(event["ts"] - begun)
        return statistics.median(found) if found else float("nan")

    @staticmethod
    def _timed(call: Callable[[], object]) -> float:
        began = time.perf_counter()
        call()
        return (time.perf_counter() - began) * 1000


class Template:
    """Copies of a database on one server, and a pool of such that a thread fills, as IntegreSQL has."""

    def __init__(self, connection: psycopg.Connection[Any], dsn: str) -> None:
        self._connection, self._dsn = connection, dsn
        self._lock = threading.Lock()
        self._number = 0
        self._ready: list[str] = []
        self._wanted = threading.Semaphore(0)
        self._filled = threading.Semaphore(0)
        self._stopping = False
        self._thread: threading.Thread | None = None

    def make(self) -> str:
        with self._lock:
            self._number += 1
            name = f"copy{self._number}"
            self._connection.execute(f"CREATE DATABASE {name} TEMPLATE postgres".encode())
        return name

    def drop(self, name: str) -> None:
        with self._lock:
            self._connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def timed(self) -> float:
        began = time.perf_counter()
        name = self.make()
        took = (time.perf_counter() - began) * 1000
        self.drop(name)
        return took

    def case(self) -> Callable[[], None]:
        return self._used(self.make())

    def pooled_case(self) -> Callable[[], None]:
        self._filled.acquire()
        name = self._ready.pop(0)
        self._wanted.release()
        return self._used(name)

    def fill(self, count: int) -> None:
        self._stopping = False
        for _ in range(count):
            self._wanted.release()
        self._thread = threading.Thread(target=self._fill, daemon=True)
        self._thread.start()
        wait_for(lambda: len(self._ready) == count)

    def stop(self) -> None:
        if self._thread is not None:
            self._stopping = True
            self._wanted.release()
            self._thread.join()
            self._thread = None

    def _fill(self) -> None:
        while True:
            self._wanted.acquire()
            if self._stopping:
                return
            self._ready.append(self.make())
            self._filled.release()

    def _used(self, name: str) -> Callable[[], None]:
        with psycopg.connect(self._dsn, dbname=name) as connection:
            work(connection)
        return lambda: self.drop(name)


def work(connection: psycopg.Connection[Any]) -> None:
    """What a test does with its database."""
    connection.execute("INSERT INTO items SELECT n, 'new' FROM generate_series(-100, -1) n")
    connection.execute("DELETE FROM items WHERE id % 100 = 0")
    connection.execute("SELECT count(*) FROM items").fetchone()


def in_turns(one: Callable[[], float], other: Callable[[], float], times: int = TIMES) -> tuple[float, float]:
    """The medians of two ways, measured in turns after a first time."""
    one(), other()
    found = [(one(), other()) for _ in range(times)]
    return statistics.median(each for each, _ in found), statistics.median(each for _, each in found)


def ratio(name: str, gauss: float, other_name: str, other: float, aim: str = "") -> Row:
    return row(name, shown(gauss), f"{other_name} {shown(other)}", ratio=f"{gauss / other:.2f}", aim=aim)


def row(name: str, gauss: str, other: str = "", *, ratio: str = "", aim: str = "") -> Row:
    return {"work": name, "Gauss": gauss, "compared with": other, "ratio": ratio, "aim": aim}


def shown(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 10_000 else f"{milliseconds / 1000:.1f} s"


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the benchmark waits for ever")
        time.sleep(0.02)


@contextmanager
def engine(data_dir: Path) -> Iterator[DatabaseStates]:
    client = start(data_dir)
    try:
        yield client
    finally:
        if (left := running(data_dir)) is not None:
            left.post("shutdown")
            with suppress(TimeoutError):
                wait_for(lambda: running(data_dir) is None, 30)


@contextmanager
def file_system(folder: Path) -> Iterator[Path]:
    """A btrfs file system on a loop device; the folder itself where that can't be."""
    image, place = folder / "btrfs.img", folder / "btrfs"
    place.mkdir()
    if os.geteuid() != 0 or shutil.which("mkfs.btrfs") is None:
        yield place
        return
    subprocess.run(["truncate", "-s", f"{LARGEST_MB * 4 + 4000}M", image], check=True)
    subprocess.run(["mkfs.btrfs", "-q", image], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, place], check=False, capture_output=True)
    try:
        yield place
    finally:
        if not mounted.returncode:
            subprocess.run(["umount", "-l", place], check=False)
