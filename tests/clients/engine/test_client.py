"""The engine's client over a real Flight server: typed errors, reads, stages, restarts, forks, the run lock."""

from __future__ import annotations

import fcntl
import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.cursor_messages import Read
from gauss.clients.engine.driver_messages import DriverSync, QueryStatus
from gauss.clients.engine.positions import At
from gauss.clients.engine.task_messages import (
    Abort,
    Claim,
    Latest,
    Publish,
    Stage,
    StageDead,
)
from gauss.contracts.cursor import Mode, Program
from gauss.contracts.letter import Letter
from gauss.model.errors import ConfigError, Fenced, NotFound, ProtocolError, Unavailable
from gauss.stream.engine.runtime import Engine
from helpers.engine_process import engine_here, prepare
from helpers.waiting import wait_until

CONFIG: dict[str, Any] = {
    "topics": [{"name": "in", "storage": "memory"}, {"name": "out", "storage": "memory"}],
    "processors": [
        {
            "name": "f",
            "plugin": "filter",
            "source": {"topic": "in", "read": "offset"},
            "target": {"topic": "out"},
            "config": {"input": {"format": "json"}, "where": ".x > 1"},
        }
    ],
}


def records(*data: bytes) -> pa.RecordBatch:
    return pa.record_batch({"data": pa.array(data, pa.binary())})


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with engine_here(tmp_path, CONFIG) as made:
        yield made


@pytest.fixture
def client(engine: Engine) -> Iterator[EngineClient]:
    made = EngineClient.from_file(engine.paths.flight_json, wait_s=60)
    yield made
    made.close()


LIVE = Program(mode=Mode.LIVE)


def data(batches: Iterator[pa.RecordBatch]) -> list[bytes]:
    return [value for batch in batches for value in batch.column("data").to_pylist()]


def test_wrong_token_is_refused(engine: Engine, client: EngineClient) -> None:
    stranger = EngineClient(client.endpoint, "guess", wait_s=2)
    with pytest.raises(ConfigError, match="token"):
        stranger.command("health")
    with pytest.raises(ConfigError, match="token"):
        stranger.append("in", [records(b"x")])
    assert engine.topic("in").version() == 0


def test_call_without_any_token_is_refused(client: EngineClient) -> None:
    with flight.FlightClient(client.endpoint) as bare, pytest.raises(flight.FlightUnauthenticatedError):
        list(bare.do_action(flight.Action("call", b'{"type":"Command","name":"health"}')))


def test_errors_come_back_as_their_own_class_with_their_hint(client: EngineClient) -> None:
    with pytest.raises(NotFound) as caught:
        client.command("topic", {"name": "inn"})
    assert "in, out" in caught.value.hint
    with pytest.raises(NotFound):
        list(client.scan("nowhere"))
    with pytest.raises(NotFound):
        client.append("nowhere", [records(b"x")])
    with pytest.raises(ConfigError, match="no command"):
        client.command("dance")


def test_epoch_travels_from_read_to_publish(client: EngineClient) -> None:
    assert client.append("in", [records(b"a", b"b"), records(b"c")]) == 3
    claimed = client.claim(Claim("f", "check", ["in"], ["out"]))
    latest = client.latest(Latest("f", claimed.generation, claimed.start, 1000, 1 << 20))
    at, end = claimed.start["in"], latest.end["in"]
    assert (latest.rows, latest.lag) == (3, 3)
    read = data(client.read(Read("in", at.inc, at.off, end.off, "f", claimed.generation)))
    assert read == [b"a", b"b", b"c"]
    batch = pa.record_batch({"ts_ms": pa.array([None, 7], pa.int64()), "data": pa.array([b"A", b"B"], pa.binary())})
    assert client.stage(Stage("s", "f", claimed.generation, "out"), [batch]) == 2
    letter = Letter("bad_json", stage="decode", topic="in", inc=at.inc, offset=2, data=b"c")
    client.stage_dead(StageDead("f", claimed.generation, "in", at.inc, 0, 3, [letter]))
    publish = Publish("f", claimed.generation, "check", 0, latest.end, {"out": ["s"]})
    assert not client.publish(publish).repeated
    assert client.publish(publish).repeated
    client.abort(Abort("f", claimed.generation, ["s"]))
    assert data(client.scan("out")) == [b"A", b"B"]
    assert client.command("dlq.ls")["total"] == 1
    again = client.latest(Latest("f", claimed.generation, latest.end, 1000, 1 << 20))
    assert again.end == latest.end


def test_zombie_is_fenced_over_the_wire(client: EngineClient) -> None:
    old = client.claim(Claim("f", "check", ["in"], ["out"])).generation
    client.claim(Claim("f", "check", ["in"], ["out"]))
    with pytest.raises(Fenced):
        client.stage(Stage("s", "f", old, "out"), [records(b"x")])
    with pytest.raises(Fenced):
        list(client.read(Read("in", 1, 0, 5, "f", old)))
    with pytest.raises(ProtocolError):
        client.publish(Publish("f", old + 9, "check", 0, {"in": At(1, 0)}, {}))


def test_stage_without_records_is_known(client: EngineClient) -> None:
    generation = client.claim(Claim("f", "check", ["in"], ["out"])).generation
    assert client.stage(Stage("empty", "f", generation, "out"), []) == 0


def test_read_of_a_dead_incarnation_is_empty_and_counted(engine: Engine, client: EngineClient) -> None:
    generation = client.claim(Claim("f", "check", ["in"], ["out"])).generation
    assert list(client.read(Read("in", 5, 0, 40, "f", generation))) == []
    assert engine.publisher.running["f"].readers["in"].lost_on_restart == 40


def test_large_range_comes_in_batches_of_about_a_mebibyte(client: EngineClient, engine: Engine) -> None:
    for _ in range(40):
        client.append("in", [records(*[b"x" * 1000] * 100)])
    batches = list(client.read(Read("in", engine.topic("in").inc, 0, 4000)))
    assert sum(batch.num_rows for batch in batches) == 4000
    assert [batch.column(0)[0].as_py() for batch in batches] == sorted({b.column(0)[0].as_py() for b in batches})
    assert 3 <= len(batches) <= 8


@pytest.mark.parametrize(
    ("program", "limit", "expected"),
    [
        ("seq", 2, [b"0", b"1"]),
        ("seq(from: 3)", None, [b"3", b"4"]),
        ("seq(from: 5)", None, []),
        ("range(ts: 0, 1)", None, []),
        ("range(ts: 0)", None, [b"0", b"1", b"2", b"3", b"4"]),
        ("point(last)", None, [b"4"]),
    ],
)
def test_scan_gives_what_was_asked(
    client: EngineClient, program: str, limit: int | None, expected: list[bytes]
) -> None:
    client.append("in", [records(*(b"%d" % number for number in range(5)))])
    assert data(client.scanning("in", program).batches(limit)) == expected


def test_live_scan_follows_and_ends_when_the_engine_stops(engine: Engine, client: EngineClient) -> None:
    client.append("in", [records(b"old")])
    found: list[bytes] = []

    def follow() -> None:
        for batch in client.scan("in", LIVE):
            found.extend(batch.column("data").to_pylist())

    thread = threading.Thread(target=follow)
    thread.start()
    client.append("in", [records(b"new")])
    wait_until(lambda: len(found) >= 2)
    assert found == [b"old", b"new"]
    engine.close()
    thread.join(60)
    assert not thread.is_alive()


def test_closed_live_scan_frees_its_thread_in_the_engine(client: EngineClient) -> None:
    client.append("in", [records(b"x")])
    before = threading.active_count()
    scans = [client.scan("in", LIVE) for _ in range(5)]
    for scan in scans:
        next(scan)
        scan.close()  # type: ignore[attr-defined]
    wait_until(lambda: threading.active_count() <= before)


def test_append_to_a_topic_of_the_engine_itself_is_refused(client: EngineClient) -> None:
    with pytest.raises(ConfigError, match="engine's own"):
        client.append("_dead", [records(b"x")])


def test_driver_sync_shows_queries_and_brings_commands(client: EngineClient) -> None:
    assert client.sync(DriverSync([QueryStatus("f", "running", epoch=4)])).commands == []
    assert client.command("health")["status"] == "ready"
    client.command("processors.retry", {"name": "f"})
    commands = client.sync(DriverSync([QueryStatus("f", "failed", "no more")])).commands
    assert [(command.processor, command.action) for command in commands] == [("f", "retry")]
    health = client.command("health")
    assert (health["status"], health["reasons"]) == ("degraded", ["transform f failed: no more"])


def test_call_waits_for_an_engine_that_is_restarting(tmp_path: Path) -> None:
    paths = prepare(tmp_path, CONFIG)
    client = EngineClient.from_file(paths.flight_json, wait_s=60)
    engines: list[Engine] = []

    def later() -> None:
        time.sleep(0.5)
        engine = Engine(tmp_path)
        engine.open()
        engine.start()
        engines.append(engine)

    thread = threading.Thread(target=later)
    thread.start()
    assert client.claim(Claim("f", "check", ["in"], ["out"])).generation == 1
    thread.join()
    engines[0].close()


def test_engine_that_stays_away_is_unavailable(tmp_path: Path) -> None:
    client = EngineClient.from_file(prepare(tmp_path, CONFIG).flight_json, wait_s=0.3)
    with pytest.raises(Unavailable, match="does not answer"):
        client.command("health")
    with pytest.raises(Unavailable, match="does not answer"):
        list(client.read(Read("in", 1, 0, 10)))
    with pytest.raises(Unavailable, match="does not answer"):
        client.stage(Stage("s", "f", 1, "out"), [records(b"x")])


def test_missing_flight_file_says_that_nothing_runs(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no engine is running"):
        EngineClient.from_file(tmp_path / "flight.json")


def _is_told_not_to_hang(client: EngineClient) -> None:
    with pytest.raises(ProtocolError, match="forked"):
        client.command("health")


def test_child_forked_from_a_connected_process_is_told_so_instead_of_hanging(client: EngineClient) -> None:
    client.command("health")
    child = multiprocessing.get_context("fork").Process(target=_is_told_not_to_hang, args=(client,))
    child.start()
    child.join(60)
    assert child.exitcode == 0


def test_client_made_before_a_fork_connects_in_the_child(engine: Engine) -> None:
    script = f"""
import os, pathlib
from gauss.clients.engine.client import EngineClient
client = EngineClient.from_file(pathlib.Path({str(engine.paths.flight_json)!r}), wait_s=60)
child = os.fork()
if child == 0:
    client.command("health")
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_client_holds_the_run_lock_shared(engine: Engine, client: EngineClient) -> None:
    client.command("health")
    with (engine.paths.run / "1.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
