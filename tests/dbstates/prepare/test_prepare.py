"""Prepare jobs against a real engine."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from gauss.clients.dbstates.client import DatabaseStates
from helpers.dbstates import prepare, request, unique, write_scripts
from helpers.waiting import wait_until


def test_a_prepared_instance_has_the_content_of_its_scripts(client: DatabaseStates, people_sql: Path) -> None:
    job = prepare(client, people_sql)
    assert job.status == "succeeded"
    assert job.sql("SELECT count(*) FROM people") == 100


def test_a_second_preparation_executes_nothing(client: DatabaseStates, people_sql: Path) -> None:
    write_scripts(people_sql, schema=unique())
    first = prepare(client, people_sql, "-f", "schema.sql")
    again = prepare(client, people_sql, "-f", "schema.sql")
    assert (first.cached, again.cached) == ([False], [True])
    assert first.state == again.state
    assert first.instance != again.instance


def test_a_change_of_the_last_script_executes_one_step(client: DatabaseStates, people_sql: Path) -> None:
    prepare(client, people_sql)
    (people_sql / "seed.sql").write_text(f"{unique()}INSERT INTO people VALUES (7, 'other');")
    job = prepare(client, people_sql)
    assert job.cached == [True, False]
    assert job.sql("SELECT name FROM people WHERE id = 7") == "other"


def test_tasks_come_in_order_without_resolving_an_image(client: DatabaseStates, people_sql: Path) -> None:
    job = prepare(client, people_sql)
    assert [task["type"] for task in job.result["tasks"]] == [
        "plan", "state_execute", "state_execute", "prepare_instance"
    ]  # fmt: skip


def test_plan_only_creates_nothing(client: DatabaseStates, people_sql: Path) -> None:
    write_scripts(people_sql, schema=unique())
    states, instances = client.get("states"), client.get("instances")
    job = prepare(client, people_sql, "-f", "schema.sql", plan_only=True)
    assert (job.status, job.cached, job.instance) == ("succeeded", [False], "None")
    assert client.get("states") == states
    assert len(client.get("instances")["instances"]) == len(instances["instances"])


def test_another_postgres_of_the_machine_has_states_and_servers_of_its_own(
    client: DatabaseStates, people_sql: Path
) -> None:
    other = next(Path("/usr/lib/postgresql").glob("*/bin/postgres"), None)
    if other is None:
        pytest.skip("no other Postgres is installed below /usr/lib/postgresql")
    jobs = [prepare(client, people_sql), prepare(client, people_sql, image=str(other.parent))]
    assert jobs[0].state != jobs[1].state
    versions = [int(job.sql("SHOW server_version_num")) // 10000 for job in jobs]
    assert versions[1] == int(other.parents[1].name) != versions[0]
    assert [job.sql("SELECT count(*) FROM people") for job in jobs] == [100, 100]
    assert prepare(client, people_sql, image=str(other.parent)).cached == [True, True]


def test_instances_of_one_state_do_not_see_each_other(client: DatabaseStates, people_sql: Path) -> None:
    one, two = prepare(client, people_sql), prepare(client, people_sql)
    one.sql("DELETE FROM people")
    assert two.sql("SELECT count(*) FROM people") == 100


def test_a_failing_script_fails_the_job_with_its_error(client: DatabaseStates, people_sql: Path) -> None:
    (people_sql / "seed.sql").write_text("SELECT 1;\nSELECT no_such_column;\n")
    job = prepare(client, people_sql)
    assert job.status == "failed"
    assert job.error["code"] == "script_failed"
    assert 'column "no_such_column" does not exist' in job.error["message"]
    tasks = client.get("prepare-jobs", job.job)["tasks"]
    assert [task["status"] for task in tasks[-2:]] == ["failed", "skipped"]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("ALTER ROLE postgres NOLOGIN;", "not permitted to log in"),
        ("ALTER SYSTEM SET shared_preload_libraries = 'no_such_library';", "no_such_library"),
    ],
)
def test_a_state_whose_server_does_not_start_again_is_not_used(
    client: DatabaseStates, people_sql: Path, script: str, why: str
) -> None:
    write_scripts(people_sql, bad=f"{unique()}{script}")
    job = prepare(client, people_sql, "-f", "bad.sql")
    assert job.error["code"] == "script_failed"
    assert why in job.error["message"]
    state = client.get("prepare-jobs", job.job)["tasks"][1]["state_id"]
    assert client.get("states", state)["status"] == "failed"
    assert prepare(client, people_sql, "-f", "bad.sql", plan_only=True).cached == [False]
    assert job.job not in str(client.get("instances"))


def test_the_password_is_in_no_event(client: DatabaseStates, people_sql: Path) -> None:
    job = prepare(client, people_sql)
    password = psycopg.conninfo.conninfo_to_dict(job.dsn)["password"]
    assert str(password) not in str(job.events)
    assert str(password) not in str(client.get("instances"))


def test_a_network_connection_needs_the_password_of_its_instance(client: DatabaseStates, people_sql: Path) -> None:
    one, two = prepare(client, people_sql), prepare(client, people_sql)
    password = psycopg.conninfo.conninfo_to_dict(two.dsn)["password"]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(one.dsn, password=password)
    with pytest.raises(psycopg.OperationalError, match=r"no password supplied|password authentication failed"):
        psycopg.connect(one.dsn, password="")


def test_a_job_is_cancelled_while_its_script_runs(client: DatabaseStates, people_sql: Path) -> None:
    write_scripts(people_sql, slow=f"{unique()}SELECT pg_sleep(600);")
    events = client.prepare(request(people_sql, "-f", "slow.sql"))
    job = next(events)["job_id"]
    wait_until(lambda: _executes(client, job), what="the script runs")
    assert client.post("prepare-jobs", job, "cancel")["status"] == "running"
    last = list(events)
    found = client.get("prepare-jobs", job)
    assert (found["status"], found["error"]["code"]) == ("failed", "cancelled")
    assert last[-1]["status"] == "failed"
    assert client.post("prepare-jobs", job, "cancel")["status"] == "failed"


def _executes(client: DatabaseStates, job: str) -> bool:
    tasks = client.get("prepare-jobs", job)["tasks"]
    return any(task["status"] == "running" and task["type"] == "state_execute" for task in tasks)


def test_a_job_that_exceeds_its_deadline_fails(client: DatabaseStates, people_sql: Path) -> None:
    write_scripts(people_sql, slow=f"{unique()}SELECT pg_sleep(600);")
    job = prepare(client, people_sql, "-f", "slow.sql", deadline_secs=1.5)
    assert job.error["code"] in ("deadline_exceeded", "script_failed")  # or its statement timeout was first
    assert job.status == "failed"


def test_the_last_task_event_is_repeated_while_nothing_happens(client: DatabaseStates, people_sql: Path) -> None:
    write_scripts(people_sql, slow=f"{unique()}SELECT pg_sleep(1.3);")
    job = prepare(client, people_sql, "-f", "slow.sql")
    seqs = [event["seq"] for event in job.events[1:]]
    assert len(seqs) > len(set(seqs))
    repeated = [event for event in job.events[1:] if seqs.count(event["seq"]) > 1]
    assert {event["task"]["type"] for event in repeated} == {"state_execute"}
    assert job.events[-1]["type"] == "status"


def test_events_are_resumed_from_a_number(client: DatabaseStates, people_sql: Path) -> None:
    job = prepare(client, people_sql)
    assert list(client.events(job.job, 3)) == [event for event in job.events[1:] if event["seq"] >= 3]


def test_an_input_that_another_process_writes_fails_the_job(client: DatabaseStates, people_sql: Path) -> None:
    import fcntl

    with (people_sql / "seed.sql").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        job = prepare(client, people_sql)
    assert job.error["code"] == "input_locked"
    assert "seed.sql" in job.error["message"]


def test_an_input_that_changes_while_it_runs_fails_the_job(client: DatabaseStates, people_sql: Path) -> None:
    seed = people_sql / "seed.sql"
    seed.write_text(f"{unique()}\\! echo '-- more' >> {seed}\n")
    job = prepare(client, people_sql)
    assert job.error["code"] == "input_changed"


def test_a_change_that_keeps_size_and_time_is_found(client: DatabaseStates, people_sql: Path) -> None:
    seed = people_sql / "seed.sql"
    command = f"cp -p {seed} {seed}.old; printf X | dd of={seed} bs=1 seek=3 conv=notrunc; touch -r {seed}.old {seed}"
    seed.write_text(f"-- one\n{unique()}\\! {command}\n")
    assert prepare(client, people_sql).error["code"] == "input_changed"
    seed.write_text(f"{unique()}\\! chmod 600 {seed}\n")
    assert prepare(client, people_sql).status == "succeeded"


def test_two_jobs_make_one_state_once(client: DatabaseStates, people_sql: Path) -> None:
    write_scripts(people_sql, slow=f"{unique()}SELECT pg_sleep(0.5);")
    streams = [client.prepare(request(people_sql, "-f", "slow.sql")) for _ in range(2)]
    first = [next(stream)["job_id"] for stream in streams]
    events = [list(stream) for stream in streams]
    assert [found[-1]["status"] for found in events] == ["succeeded", "succeeded"]
    logs = [event["message"] for found in events for event in found if event["type"] == "log"]
    assert sum(text.startswith("psql:") for text in logs) == 1
    assert len(set(first)) == 2


def test_only_the_newest_identical_jobs_are_kept(client: DatabaseStates, people_sql: Path) -> None:
    jobs = [prepare(client, people_sql, "-f", "schema.sql").job for _ in range(3)]
    known = {job["job_id"] for job in client.get("prepare-jobs")["jobs"]}
    wait_until(lambda: jobs[0] not in {job["job_id"] for job in client.get("prepare-jobs")["jobs"]})
    assert set(jobs[1:]) <= known


def test_many_identical_jobs_are_all_told_to_their_clients(client: DatabaseStates, people_sql: Path) -> None:
    prepare(client, people_sql)
    asked = [client.prepare(request(people_sql, plan_only=True)) for _ in range(6)]
    jobs = [next(events)["job_id"] for events in asked]
    wait_until(lambda: all(client.get("prepare-jobs", job)["status"] == "succeeded" for job in jobs))
    assert [list(events)[-1]["status"] for events in asked] == ["succeeded"] * 6


def test_a_snapshot_of_a_running_server_is_whole(client: DatabaseStates, tmp_path: Path) -> None:
    """Rows, index and sequence of a clone agree, though its server was never stopped."""
    table = f"{unique()}CREATE TABLE n AS SELECT g AS id, md5(g::text) AS hash FROM generate_series(1, 100000) g;"
    write_scripts(tmp_path, a=f"{table}\nCREATE UNIQUE INDEX ON n (hash);", b="DELETE FROM n;")
    both = prepare(client, tmp_path, "-f", "a.sql", "-f", "b.sql")
    if client.get("cache", "status")["backend"] == "btrfs":
        assert "snapshot taken of the running server" in both.logs
    job = prepare(client, tmp_path, "-f", "a.sql")
    assert job.cached == [True]
    assert job.sql("SELECT count(*) FROM n WHERE hash = md5(id::text)") == 100000
    assert job.sql("SELECT id FROM n WHERE hash = md5('77')") == 77
    assert both.sql("SELECT count(*) FROM n") == 0


def test_unlogged_tables_survive_a_snapshot(client: DatabaseStates, people_sql: Path) -> None:
    """Recovery of a snapshot that was taken of a running server would empty them."""
    table = unique().replace("TABLE", "UNLOGGED TABLE")
    write_scripts(people_sql, a=f"{table}CREATE UNLOGGED TABLE u AS SELECT 7 AS seven;", b="SELECT 1;")
    prepare(client, people_sql, "-f", "a.sql", "-f", "b.sql")
    job = prepare(client, people_sql, "-f", "a.sql")
    assert job.cached == [True]
    assert job.sql("SELECT seven FROM u") == 7


def test_a_tablespace_outside_the_data_directory_is_refused(client: DatabaseStates, people_sql: Path) -> None:
    write_scripts(people_sql, a=f"{unique()}SET allow_in_place_tablespaces = on; CREATE TABLESPACE x LOCATION '';")
    job = prepare(client, people_sql, "-f", "a.sql")
    assert "tablespace" in job.error["message"]
