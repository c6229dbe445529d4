"""The engine as a whole: readiness, ports, draining, disk, health, dead letters and restarts."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.task_messages import Append, Claim, Latest
from gauss.contracts.letter import Letter
from gauss.model.errors import ConfigError, NotFound
from gauss.stream.engine.observe import status
from gauss.stream.engine.runtime import Engine
from helpers.engine_process import EngineProcess, prepare
from helpers.records import content, feed
from helpers.run import free_port
from helpers.waiting import wait_until

pytestmark = pytest.mark.system
NEWLINE = {"framing": "newline", "delimiter": "\n"}


def config(**given: Any) -> dict[str, Any]:
    """TCP → a (memory) → passthrough → b (file) → TCP."""
    ports = {"in": free_port(), "out": free_port()}
    made: dict[str, Any] = {
        "topics": [
            {"name": "a", "storage": "memory", "storage_config": {"storage_size": 100}},
            {"name": "b", "storage": "file", "storage_config": {"framing": "newline", "delimiter": "\n"}},
        ],
        "processors": [
            {"name": "in", "plugin": "tcp-source", "target": {"topic": "a"}},
            {
                "name": "pass",
                "plugin": "passthrough",
                "source": {"topic": "a", "read": "offset"},
                "target": {"topic": "b"},
            },
            {"name": "out", "plugin": "tcp-sink", "source": {"topic": "b", "read": "offset"}},
        ],
    }
    made["processors"][0]["config"] = {"port": ports["in"], "input": NEWLINE}
    made["processors"][2]["config"] = {"port": ports["out"], "output": NEWLINE}
    return {**made, **given}


def port(made: dict[str, Any], name: str) -> int:
    return next(int(each["config"]["port"]) for each in made["processors"] if each["name"] == name)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    engines: list[Engine] = []

    def start(**given: Any) -> Engine:
        prepare(tmp_path, config(**given))
        engine = Engine(tmp_path)
        engines.append(engine)
        engine.open()
        engine.start()
        return engine

    yield start
    for engine in engines:
        engine.close()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[EngineProcess]:
    engine = EngineProcess(tmp_path, config())
    yield engine
    engine.close()


def connected(engine: Engine) -> EngineClient:
    return EngineClient.from_file(engine.paths.flight_json, wait_s=60)


def test_process_says_ready_serves_and_ends_on_sigterm(process: EngineProcess) -> None:
    said = process.start()
    assert said["ready"] is True
    # It serves requests before its transforms have claimed their positions.
    wait_until(lambda: process.client.command("health")["status"] == "ready")
    assert process.client.command("health")["pid"] == said["pid"]
    feed(process.client, "a", b"one", b"two")
    wait_until(lambda: content(process.client, "b") == [b"one", b"two"])
    assert process.terminate() == 0
    assert all(json.loads(line)["level"] for line in process.log().splitlines())
    process.restart_ready()
    assert content(process.client, "b") == [b"one", b"two"]
    assert content(process.client, "a") == []


def test_process_that_moved_records_has_loaded_nothing_heavy(process: EngineProcess) -> None:
    said = process.start()
    feed(process.client, "a", b"one")
    wait_until(lambda: content(process.client, "b") == [b"one"])
    maps = Path(f"/proc/{said['pid']}/maps").read_text()
    assert [heavy for heavy in ("pandas", "polars", "numba", "pyspark") if f"/{heavy}/" in maps] == []


CRASH = """
import os, pathlib, sys
import pyarrow as pa
from gauss.contracts.chunk import Chunk
from gauss.stream.engine.runtime import Engine

engine = Engine(pathlib.Path(sys.argv[1]))
engine.open()
topic = engine.topic("b")
chunk, _ = topic.fit(Chunk(pa.array([b"half"] * 40, pa.binary()), 40, 1))
with topic.lock:
    topic.stage_append(chunk, engine.ledger.next_number())
os._exit(9)
"""


def test_epoch_on_disk_without_its_journal_entry_is_cut_at_open(process: EngineProcess) -> None:
    process.restart_ready()
    feed(process.client, "a", b"whole")
    wait_until(lambda: content(process.client, "b") == [b"whole"])
    process.terminate()
    (segment,) = (process.paths.topics / "b").glob("*.log")
    before = segment.stat().st_size
    crashed = subprocess.run([sys.executable, "-c", CRASH, str(process.paths.root)], check=False)
    assert crashed.returncode == 9
    assert segment.stat().st_size > before
    process.restart_ready()
    topic = process.client.command("topic", {"name": "b"})
    assert (topic["end"], topic["lost"]) == (1, 0)
    feed(process.client, "a", b"next")
    wait_until(lambda: content(process.client, "b") == [b"whole", b"next"])


def test_client_that_stalls_in_the_middle_of_a_call_does_not_hold_up_the_end(process: EngineProcess) -> None:
    process.restart_ready()
    told = json.loads(process.paths.flight_json.read_text())
    options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + told["token"].encode())])
    with flight.FlightClient(told["endpoint"]) as stalling:
        descriptor = flight.FlightDescriptor.for_command(msgspec.json.encode(Append("a")))
        writer, _ = stalling.do_put(descriptor, pa.schema([("data", pa.binary())]), options)
        writer.write_batch(pa.record_batch({"data": pa.array([b"x"], pa.binary())}))
        wait_until(lambda: content(process.client, "a") == [b"x"])
        assert process.terminate() == 0


def test_port_in_use_at_the_first_start_is_reported_with_a_hint(process: EngineProcess) -> None:
    made = json.loads(process.paths.pipeline_json.read_text())
    with socket.create_server(("127.0.0.1", port(made, "in"))):
        said = process.start()
    assert str(port(made, "in")) in said["error"]["message"]
    assert said["error"]["hint"]


def test_port_in_use_at_a_restart_is_tried_again(process: EngineProcess) -> None:
    process.restart_ready()
    process.kill()
    made = json.loads(process.paths.pipeline_json.read_text())
    with socket.create_server(("127.0.0.1", port(made, "in"))):
        process.restart_ready()
        wait_until(lambda: process.client.command("health")["status"] == "degraded")
        assert "source in" in process.client.command("health")["reasons"][0]
    wait_until(lambda: process.client.command("health")["status"] == "ready")


def test_missing_pipeline_file_is_a_reported_error(tmp_path: Path) -> None:
    engine = EngineProcess(tmp_path, config())
    engine.paths.pipeline_json.unlink()
    said = engine.start()
    assert (said["error"]["code"], "pipeline.json" in said["error"]["message"]) == ("config", True)


def test_records_pass_from_socket_to_socket(run: Callable[..., Engine]) -> None:
    engine = run()
    made = json.loads(engine.paths.pipeline_json.read_text())
    with (
        socket.create_connection(("127.0.0.1", port(made, "in"))) as source,
        socket.create_connection(("127.0.0.1", port(made, "out"))) as sink,
    ):
        source.sendall(b"".join(b"line %d\n" % number for number in range(1000)))
        sink.settimeout(60)
        got = b""
        while got.count(b"\n") < 1000:
            got += sink.recv(1 << 16)
    assert got.splitlines()[-1] == b"line 999"


def test_sink_with_another_output_format_converts(run: Callable[..., Engine]) -> None:
    made = config()
    fields = [{"name": "a", "type": "string"}, {"name": "n", "type": "int64"}]
    made["processors"][0]["config"]["input"] = {**NEWLINE, "format": "quote"}
    made["processors"][2]["config"]["output"] = {**NEWLINE, "format": "json"}
    engine = run(
        formats=[{"name": "quote", "plugin": "csv", "config": {"fields": fields}}], processors=made["processors"]
    )
    with (
        socket.create_connection(("127.0.0.1", port(made, "in"))) as source,
        socket.create_connection(("127.0.0.1", port(made, "out"))) as sink,
    ):
        source.sendall(b"x,1\ny,many\nz,3\n")
        sink.settimeout(60)
        got = b""
        while got.count(b"\n") < 2:
            got += sink.recv(1 << 16)
    assert got == b'{"a":"x","n":1}\n{"a":"z","n":3}\n'
    assert [letter["offset"] for letter in connected(engine).command("dlq.show", {"limit": 2})["letters"]] == [1]


def test_blocked_topic_degrades_health_and_names_the_client(
    run: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "BLOCKED_S", 0.2)
    made = config()
    made["processors"] = [made["processors"][2] | {"source": {"topic": "a", "read": "offset"}}]
    engine = run(**made)
    client = connected(engine)
    with socket.create_connection(("127.0.0.1", port(made, "out"))) as idle:
        wait_until(lambda: client.command("readers.ls", {"topic": "a"})["readers"])
        peer = idle.getsockname()[0]
        writer = EngineClient.from_file(engine.paths.flight_json)
        # More than both socket buffers hold, into a ring of 100 records: the topic must block.
        big = [b"x" * 100_000] * 400
        threading.Thread(target=lambda: feed(writer, "a", *big), daemon=True).start()
        # Both from one answer: a short delay may be over at the next.
        health = wait_until(lambda: (told := client.command("health"))["reasons"] and told, 60, "reasons")
        (reason,) = health["reasons"]
        assert health["status"] == "degraded"
        assert "topic a is blocked: sink out" in reason and peer in reason and "has not read for" in reason


def test_disk_below_the_minimum_stops_sources_and_degrades_health(run: Callable[..., Engine]) -> None:
    engine = run(engine={"min_free_bytes": 1 << 60})
    assert not engine.may_read()
    health = connected(engine).command("health")
    assert health["status"] == "degraded" and "min_free_bytes" in health["reasons"][0]


def test_deleted_data_directory_degrades_health_and_maintenance_goes_on(
    run: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gauss.stream.engine.runtime.MAINTAIN_S", 0.1)
    engine = run()
    client = connected(engine)
    assert client.command("health")["status"] == "ready"
    moved = engine.paths.root.rename(engine.paths.root.with_name("moved"))
    health = wait_until(lambda: (told := client.command("health"))["reasons"] and not engine.may_read() and told)
    assert health["status"] == "degraded" and "was deleted" in health["reasons"][0]
    moved.rename(engine.paths.root)
    wait_until(engine.may_read)


def test_memory_topic_begins_a_new_incarnation_and_file_topic_keeps_its_own(process: EngineProcess) -> None:
    process.restart_ready()
    before = {name: process.client.command("topic", {"name": name})["inc"] for name in ("a", "b")}
    process.kill()
    process.restart_ready()
    after = {name: process.client.command("topic", {"name": name})["inc"] for name in ("a", "b")}
    assert after["a"] > before["a"]
    assert after["b"] == before["b"]


def test_unread_records_of_a_memory_topic_are_counted_as_lost(tmp_path: Path) -> None:
    made = config()
    made["processors"][1]["plugin"] = "filter"
    made["processors"][1]["config"] = {"input": {"format": "json"}, "where": ".x > 1"}
    engine = EngineProcess(tmp_path, made)
    engine.restart_ready()
    feed(engine.client, "a", *[b"x"] * 40)
    claimed = engine.client.claim(Claim("pass", "c", ["a"], ["b"]))
    engine.kill()  # at once: even the newest record must be counted
    engine.restart_ready()
    again = engine.client.claim(Claim("pass", "c", ["a"], ["b"]))
    assert again.start == claimed.start
    engine.client.latest(Latest("pass", again.generation, again.start, 100, 1 << 20))
    (reader,) = engine.client.command("readers.ls", {"topic": "a"})["readers"]
    assert reader["lost_on_restart"] == 40
    engine.close()


def test_processor_gone_from_the_config_loses_its_position_with_a_line(tmp_path: Path) -> None:
    engine = EngineProcess(tmp_path, config())
    engine.restart_ready()
    feed(engine.client, "a", b"x")
    wait_until(lambda: content(engine.client, "b") == [b"x"])
    engine.terminate()
    made = config()
    del made["processors"][1]
    again = EngineProcess(tmp_path, made)
    again.restart_ready()
    assert "processor pass is no longer in the config" in again.log()
    again.close()


def test_dead_letters_are_listed_shown_and_replayed_once(run: Callable[..., Engine]) -> None:
    engine = run()
    client = connected(engine)
    topic = engine.topic("a")
    for offset in (3, 4, 3):
        letter = Letter("bad_json", "no brace", "decode", "pass", b"bytes %d" % offset, "a", topic.inc, offset, 50)
        engine.dead.write(letter, engine.stopping)
    engine.dead.write(Letter("too_long", "", "frame", "in", b"z" * (2 << 20), ts_ms=60), engine.stopping)
    listed = client.command("dlq.ls")
    assert listed["total"] == 4
    assert [(group["reason"], group["count"]) for group in listed["groups"]] == [("bad_json", 3), ("too_long", 1)]
    newest = client.command("dlq.show", {"limit": 2})["letters"]
    assert [letter["dead_offset"] for letter in newest] == [3, 2]
    assert newest[0]["truncated"] == 2 << 20 and len(base64.b64decode(newest[0]["data"])) == 1 << 20
    assert client.command("dlq.replay", {"processor": "pass"})["replayed"] == 2
    wait_until(lambda: sorted(content(client, "b")) == [b"bytes 3", b"bytes 4"])
    again = client.command("dlq.replay", {"processor": "pass"})
    assert (again["replayed"], again["already"]) == (0, 3)
    with pytest.raises(ConfigError, match="source or sink"):
        client.command("dlq.replay", {"processor": "in"})
    with pytest.raises(NotFound):
        client.command("dlq.replay", {"processor": "nobody"})


def test_record_that_the_target_can_not_hold_becomes_a_dead_letter_of_the_epoch(run: Callable[..., Engine]) -> None:
    engine = run()
    client = connected(engine)
    feed(client, "a", b"fine", b"two\nlines", b"good")
    wait_until(lambda: content(client, "b") == [b"fine", b"good"])
    (letter,) = client.command("dlq.show")["letters"]
    assert (letter["stage"], letter["processor"]) == ("store", "pass")
    assert base64.b64decode(letter["data"]) == b"two\nlines"


def test_commands_answer_in_their_documented_shapes(run: Callable[..., Engine]) -> None:
    engine = run()
    client = connected(engine)
    feed(client, "a", b"x", b"y")
    wait_until(lambda: client.command("topic", {"name": "b"})["end"] == 2)
    # Published records are removed from the source a moment later.
    wait_until(lambda: client.command("topic", {"name": "a"})["fill"] == 0.0)
    names = [topic["name"] for topic in client.command("topics")["topics"]]
    assert names == ["_dead", "_retry.pass", "a", "b"]
    topic = client.command("topic", {"name": "a"})
    assert (topic["storage"], topic["hidden"], topic["appended"], topic["fill"]) == ("memory", False, 2, 0.0)
    (reader,) = topic["readers"]
    assert (reader["name"], reader["position"], reader["behind"], reader["behind_ms"]) == ("pass", 2, 0, 0)
    states = {row["name"]: row["state"] for row in client.command("processors.ls")["processors"]}
    assert states == {"in": "running", "pass": "running", "out": "running"}
    metrics = client.command("metrics")["metrics"]
    assert all(row["name"].startswith("gauss_") and isinstance(row["value"], int | float) for row in metrics)
    values = {(row["name"], row["labels"].get("topic")): row["value"] for row in metrics}
    assert values["gauss_topic_records_total", "a"] == 2
    sought = client.command("readers.seek", {"topic": "a", "reader": "pass", "to": "earliest"})
    assert sought["name"] == "pass"
    wait_until(lambda: client.command("topic", {"name": "b"})["end"] == 4)
    with pytest.raises(NotFound):
        client.command("readers.seek", {"topic": "a", "reader": "nobody", "to": "end"})
    with pytest.raises(ConfigError, match="needs"):
        client.command("readers.seek", {"topic": "a", "reader": "pass"})
    assert client.command("readers.drop", {"topic": "a", "reader": "pass"})["dropped"]["name"] == "pass"
    assert client.command("readers.ls", {"topic": "a"})["readers"] == []
    assert client.command("drain", {"seconds": 1}) == {"drained": True}
    assert client.command("health")["status"] == "draining"


def test_file_topic_that_lost_its_tail_uses_no_offset_twice_and_counts_the_loss(run: Callable[..., Engine]) -> None:
    made = config(topics=[{"name": name, "storage": "file"} for name in ("a", "b")])
    engine = run(**made)
    client = connected(engine)
    feed(client, "a", *(b"%d" % number for number in range(100)))
    wait_until(lambda: engine.topic("b").version() == 100)
    client.close()
    engine.close()
    for name in ("a", "b"):
        (segment,) = (engine.paths.topics / name).glob("*.log")
        os.truncate(segment, segment.stat().st_size // 2)
    again = run(**made)
    for name in ("a", "b"):
        topic = again.topic(name)
        assert (topic.version(), topic.counters.lost > 30) == (100, True)
    client = connected(again)
    feed(client, "a", b"new")
    wait_until(lambda: content(client, "b")[-1:] == [b"new"])
    assert again.topic("b").version() == 101
