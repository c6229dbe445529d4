"""Life time, reset, runs and the warm pool of instances, against a real engine."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from gauss.clients.dbstates.client import DatabaseStates
from gauss.dbstates.instances.leases import GRACE_SECONDS
from gauss.model.errors import ConfigError, NotFound
from gauss.process import locks
from helpers.dbstates import engine, prepare, request, unique, write_scripts
from helpers.waiting import stays, wait_until

MANY = 50


def setting(client: DatabaseStates, path: str, value: object) -> None:
    client.patch("config", body={"path": path, "value": value})


@pytest.fixture(scope="module")
def own(fast_folder: Path) -> Iterator[DatabaseStates]:
    """An engine whose settings the tests change."""
    with engine(fast_folder / "own") as found:
        yield found


def test_an_instance_is_collected_when_its_time_ends(own: DatabaseStates, people_sql: Path) -> None:
    setting(own, "instances.ttlSecs", 1)
    job = prepare(own, people_sql)
    with psycopg.connect(job.dsn) as connection:
        until = time.monotonic() + 2.5  # a connected one outlives its time
        while time.monotonic() < until:
            assert connection.execute("SELECT 1").fetchone() == (1,)
            time.sleep(0.1)
        assert own.get("instances", job.instance)["connections"] == 1
    wait_until(lambda: job.instance not in str(own.get("instances")), 10, "it is collected")
    own.delete("config", path="instances.ttlSecs")


def test_an_instance_keeps_the_parameters_of_its_key(own: DatabaseStates, people_sql: Path) -> None:
    setting(own, "parameters.work_mem", "7MB")
    job = prepare(own, people_sql)
    setting(own, "parameters.work_mem", "9MB")
    own.post("instances", job.instance, "reset")
    assert job.sql("SHOW work_mem") == "7MB"
    own.delete("config", path="parameters")
    assert prepare(own, people_sql).sql("SHOW work_mem") == "4MB"


def test_many_instances_are_collected_within_a_second_of_their_end(own: DatabaseStates, people_sql: Path) -> None:
    prepare(own, people_sql)
    setting(own, "instances.ttlSecs", 6)
    with ThreadPoolExecutor(8) as threads:
        jobs = list(threads.map(lambda _: prepare(own, people_sql), range(MANY)))
    own.delete("config", path="instances.ttlSecs")
    wanted = {job.instance for job in jobs}
    ends = {row["instance_id"]: row["expires_ms"] for row in own.get("instances")["instances"]}
    audit = Path(own.place["lockfile"]).parents[1] / "audit.ndjson"

    def collected() -> dict[str, int]:
        notes = [json.loads(line) for line in audit.read_text().splitlines()]
        expired = [note for note in notes if note["event"] == "instance_expired" and note["instance_id"] in wanted]
        return {note["instance_id"]: note["ts"] for note in expired}

    wait_until(lambda: len(collected()) == MANY, 30, "all are collected")
    late = sorted((ts - ends[instance]) / 1000 for instance, ts in collected().items() if instance in ends)
    assert late, "all had gone before they were listed"
    assert late[0] >= -0.1 and late[-1] <= 1, late


def test_reset_gives_the_content_of_the_state_at_the_same_address(client: DatabaseStates, people_sql: Path) -> None:
    job = prepare(client, people_sql)
    dsn = job.dsn
    job.sql("DROP TABLE people")
    client.post("instances", job.instance, "reset")
    assert job.dsn == dsn
    assert job.sql("SELECT count(*) FROM people") == 100


def test_a_run_streams_output_and_exit_code(client: DatabaseStates, people_sql: Path) -> None:
    job = prepare(client, people_sql)
    events = list(client.run({"instance_id": job.instance[:8], "args": ["-At"], "stdin": "SELECT 6*7;\nSELECT x;"}))
    assert (events[0]["type"], events[-1]) == ("start", {**events[-1], "type": "exit", "code": 0})
    assert [event["data"] for event in events if event["type"] == "stdout"] == ["42"]
    assert 'column "x" does not exist' in str([event for event in events if event["type"] == "stderr"])
    bench = list(client.run({"instance_id": job.instance, "kind": "pgbench", "args": ["-i", "-s", "1"]}))
    assert bench[-1] == {**bench[-1], "type": "exit", "code": 0}


def test_a_reader_that_pauses_gets_all_lines_and_the_exit_code(client: DatabaseStates, people_sql: Path) -> None:
    job = prepare(client, people_sql)
    query = "SELECT n FROM generate_series(1, 20000) n UNION ALL SELECT 0 ORDER BY 1"
    found = list[str]()
    for event in client.run({"instance_id": job.instance, "args": ["-Atc", query]}):
        found.append(event["data"] if event["type"] == "stdout" else event["type"])
        if len(found) == 17_000:
            time.sleep(3)  # psql has ended, and more waits than is kept for a reader
    assert found == ["start", *map(str, range(20_001)), "exit"]
    events = client.run({"instance_id": job.instance, "args": ["-Atc", "SELECT repeat('é', 400000)"]})
    lines = [event for event in events if event["type"] == "stdout"]
    assert "".join(event["data"] for event in lines) == "é" * 400_000
    assert [event.get("more") for event in lines[-2:]] == [True, None]


def test_a_run_ends_with_its_deadline_or_when_its_reader_leaves(client: DatabaseStates, people_sql: Path) -> None:
    job = prepare(client, people_sql)
    slow = {"instance_id": job.instance, "args": ["-c", "SELECT pg_sleep(600)"]}
    events = list(client.run({**slow, "deadline_secs": 0.5}))
    assert (events[-1]["type"], events[-1]["error"]["code"]) == ("error", "deadline_exceeded")
    wait_until(lambda: client.get("instances", job.instance)["connections"] == 0, 20, "the statement has ended too")
    endless = "SELECT repeat('x', 100), generate_series(1, 1000000000)"
    left = client.run({"instance_id": job.instance, "args": ["-Atc", f"COPY ({endless}) TO STDOUT"]})
    assert next(left)["type"] == "start"
    left.close()  # type: ignore[attr-defined]
    wait_until(lambda: client.get("instances", job.instance)["connections"] == 0, 20, "psql has ended")


def test_an_instance_that_refuses_the_engine_is_in_use_while_clients_are_connected(
    client: DatabaseStates, people_sql: Path
) -> None:
    job = prepare(client, people_sql)
    with psycopg.connect(job.dsn, autocommit=True) as connection:
        connection.execute("ALTER ROLE postgres NOLOGIN")
        assert client.get("instances", job.instance)["connections"] == 1
        assert client.remove("instances", job.instance)["root"]["reason"] == "active_connections"
    wait_until(lambda: client.get("instances", job.instance)["connections"] == 0)
    assert client.remove("instances", job.instance)["outcome"] == "deleted"


def test_a_holder_that_can_not_be_locked_is_refused(client: DatabaseStates, people_sql: Path) -> None:
    job = prepare(client, people_sql)
    with pytest.raises(ConfigError, match="held_by"):
        client.post("instances", job.instance, "start", body={"held_by": "/tmp"})
    assert job.instance in str(client.get("instances"))
    with pytest.raises(ConfigError, match="held_by"):
        list(client.prepare(request(people_sql, held_by="/tmp")))


def test_an_instance_that_is_asked_for_outlives_its_holder_for_a_moment(
    client: DatabaseStates, people_sql: Path, tmp_path: Path
) -> None:
    """A client that has just got its address can still connect, however long the instance was held before."""
    holder = locks.take(tmp_path / "holder")
    assert holder is not None
    job = prepare(client, people_sql)
    client.post("instances", job.instance, "start", body={"held_by": str(tmp_path / "holder")})
    time.sleep(GRACE_SECONDS + 0.2)
    client.post("instances", job.instance, "start", body={})
    os.close(holder)
    stays(lambda: job.instance in str(client.get("instances")), GRACE_SECONDS / 3)
    assert job.sql("SELECT count(*) FROM people") == 100


def test_an_interrupted_reset_is_settled_by_the_next(
    client: DatabaseStates, people_sql: Path, fast_folder: Path
) -> None:
    """The engine was killed when the new content was there, and the old one too; or only the old one."""
    job = prepare(client, people_sql)
    data = fast_folder / "shared" / "dbstates" / "state-store" / "instances" / job.instance / "data"
    old = data.with_name("data.old")
    old.mkdir()
    (old / "PG_VERSION").touch()
    client.post("instances", job.instance, "reset")
    assert not old.exists()
    assert job.sql("SELECT count(*) FROM people") == 100
    job.sql("DELETE FROM people WHERE id > 7")
    os.kill(int(client.get("instances", job.instance)["runtime_id"].split("-")[0]), signal.SIGKILL)
    wait_until(lambda: client.get("instances", job.instance)["status"] == "stopped")
    data.rename(old)
    client.post("instances", job.instance, "start", body={})
    assert job.sql("SELECT count(*) FROM people") == 7


def test_a_run_may_not_name_another_server(client: DatabaseStates, people_sql: Path) -> None:
    job = prepare(client, people_sql)
    with pytest.raises(ConfigError, match="--host"):
        list(client.run({"instance_id": job.instance, "args": ["--host=example"]}))


def test_ids_are_found_by_eight_digits_and_no_fewer(client: DatabaseStates, people_sql: Path) -> None:
    job = prepare(client, people_sql)
    assert client.get("instances", job.instance[:8])["instance_id"] == job.instance
    with pytest.raises(ConfigError, match="too short"):
        client.get("instances", job.instance[:7])
    with pytest.raises(NotFound):
        client.get("instances", "%; DROP")


def test_a_hot_state_has_instances_ready(own: DatabaseStates, tmp_path: Path) -> None:
    setting(own, "instances.warmPool", {"size": 2, "afterHits": 1})
    write_scripts(tmp_path, one=f"{unique()}CREATE TABLE seven AS SELECT 7 AS n;")
    state = prepare(own, tmp_path, "-f", "one.sql").state
    prepare(own, tmp_path, "-f", "one.sql")
    wait_until(lambda: own.get("states", state)["warm"] == 2, what="the pool is full")
    job = prepare(own, tmp_path, "-f", "one.sql")
    assert "instance taken from the warm pool" in job.logs
    assert job.sql("SELECT n FROM seven") == 7
    wait_until(lambda: own.get("states", state)["warm"] == 2, what="the pool is full again")
    setting(own, "instances.warmPool", {"size": 0})
    wait_until(lambda: own.get("states", state)["warm"] == 0, what="a smaller pool is emptied")
    assert own.remove("states", state, recurse="true")["outcome"] == "deleted"
    own.delete("config", path="instances.warmPool")


def test_least_used_states_are_evicted_when_the_cache_is_full(own: DatabaseStates, tmp_path: Path) -> None:
    write_scripts(
        tmp_path,
        big=f"{unique()}CREATE TABLE big AS SELECT repeat(md5(n::text), 9) t FROM generate_series(1, 60000) n;",
        used=unique(),
    )
    big = prepare(own, tmp_path, "-f", "big.sql")
    wait_until(lambda: own.get("states", big.state)["bytes"], what="it is measured")
    used = own.get("cache", "status")["used_bytes"]
    assert used > 15e6, "its blocks count though its instance shares them"
    own.remove("instances", big.instance)
    used = prepare(own, tmp_path, "-f", "used.sql")
    setting(own, "cache.capacity", {"maxBytes": 1, "minStateAgeSecs": 0})
    wait_until(lambda: big.state not in str(own.get("states")), what="the unused state is evicted")
    assert own.get("states", used.state)["status"] == "ready"  # an instance of it lives
    assert used.sql("SELECT 1") == 1
    own.delete("config", path="cache.capacity")
