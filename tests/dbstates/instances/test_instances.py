"""Life time, reset, runs and the warm pool of instances, against a real engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from gauss.clients.dbstates.client import DatabaseStates
from gauss.model.errors import ConfigError, NotFound
from helpers.dbstates import engine, prepare, unique, write_scripts
from helpers.waiting import wait_until


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
