"""Scripts and clients that do harm: the job says why it failed, and the next one works."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.clients.dbstates.client import DatabaseStates
from helpers.dbstates import check_nothing_is_left, engine, prepare, request, unique, write_scripts
from helpers.disks import fill, small_file_system
from helpers.waiting import wait_until

BIG = "CREATE TABLE big AS SELECT repeat(md5(n::text), 20) FROM generate_series(1, 500000) n;"


def test_line_ends_of_windows_a_mark_and_a_long_line_are_read(client: DatabaseStates, tmp_path: Path) -> None:
    long = f"INSERT INTO t VALUES ('{'x' * (1 << 20)}');"
    text = f"\ufeff{unique()}CREATE TABLE t (a text);\n{long}\nINSERT INTO t VALUES ('two\nlines');\n"
    (tmp_path / "a.sql").write_bytes(text.replace("\n", "\r\n").encode())
    job = prepare(client, tmp_path, "-f", "a.sql")
    assert job.status == "succeeded", job.error
    assert job.sql("SELECT array_agg(length(a) ORDER BY length(a)) FROM t") == [10, 1 << 20]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("SELECT pg_terminate_backend(pg_backend_pid());", "terminating connection"),
        ("COPY (SELECT 1) TO PROGRAM 'kill -9 $PPID';", "connection to server was lost"),
        ("COPY (SELECT 1) TO PROGRAM 'kill -9 $(head -1 postmaster.pid)'; SELECT pg_sleep(60);", "the server ended"),
        ("SELECT 1;\n\\! kill -9 $PPID\nSELECT pg_sleep(60);", "exit code -9"),
    ],
)
def test_a_script_that_ends_its_session_fails(client: DatabaseStates, tmp_path: Path, script: str, why: str) -> None:
    job = prepare(client, write_scripts(tmp_path, a=f"{unique()}{script}"), "-f", "a.sql")
    assert job.error["code"] == "script_failed"
    assert why in job.error["message"]
    assert job.job not in str(client.get("instances"))


def test_hostile_names_are_names_of_files(client: DatabaseStates, tmp_path: Path) -> None:
    folder = tmp_path / "a'b\"\n$(touch x);"
    folder.mkdir()
    (folder / "c 'd\"\n--.sql").write_text(f"{unique()}\\i 'e;f.sql'\n")
    (folder / "e;f.sql").write_text("CREATE TABLE made AS SELECT 7 AS n;")
    job = prepare(client, folder, "-f", "c 'd\"\n--.sql")
    assert job.status == "succeeded", job.error
    assert job.sql("SELECT n FROM made") == 7
    assert not (folder / "x").exists()


def test_a_client_that_never_reads_holds_up_nobody(client: DatabaseStates, tmp_path: Path) -> None:
    write_scripts(tmp_path, a=unique() + "\\echo " + "x" * 8000 + "\n", b="SELECT 1;")
    (tmp_path / "a.sql").write_text((tmp_path / "a.sql").read_text() + ("\\echo " + "x" * 8000 + "\n") * 900)
    made = client.post("prepare-jobs", body=request(tmp_path, "-f", "a.sql"))
    connection = client.connection()
    connection.request("GET", made["events_url"], headers={"Authorization": f"Bearer {client.place['authToken']}"})
    connection.getresponse()  # its events are never read
    events = list(client.events(made["job_id"]))
    assert events[-1]["status"] == "succeeded"
    assert sum(len(event.get("message", "")) for event in events) > 6_000_000
    connection.close()


def test_a_full_disk_fails_jobs_and_stores_nothing_partial(tmp_path: Path) -> None:
    with small_file_system(tmp_path / "small", "300m") as small, engine(small / "data") as client:
        write_scripts(tmp_path, big=BIG, slow="SELECT pg_sleep(1);\n\\echo done\n", one="SELECT 1;")
        big = prepare(client, tmp_path, "-f", "big.sql")
        assert big.error["code"] == "script_failed"  # the server says why, or has ended
        events = client.prepare(request(tmp_path, "-f", "slow.sql"))
        next(event for event in events if event.get("message") == "psql: slow.sql")
        fill(small / "filler")
        slow = list(events)
        error = next(event["error"] for event in slow if event["type"] == "error")
        assert error["code"] in ("disk_full", "script_failed"), error
        (small / "filler").unlink()
        again = prepare(client, tmp_path, "-f", "slow.sql")
        assert again.status == "succeeded", again.error
        assert again.sql("SELECT 1") == 1
        check_nothing_is_left(small / "data", client)


def test_a_moved_store_is_the_same_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_scripts(tmp_path, a="CREATE TABLE a AS SELECT 5 AS n;")
    monkeypatch.setenv("GAUSS_STATE_STORE", str(tmp_path / "here"))
    with engine(tmp_path / "data") as client:
        assert prepare(client, tmp_path, "-f", "a.sql").cached == [False]
    (tmp_path / "here").rename(tmp_path / "there")
    monkeypatch.setenv("GAUSS_STATE_STORE", str(tmp_path / "there"))
    with engine(tmp_path / "data") as client:
        job = prepare(client, tmp_path, "-f", "a.sql")
        assert job.cached == [True]
        assert job.sql("SELECT n FROM a") == 5
        assert (tmp_path / "there" / "engines").is_dir()
        assert not (tmp_path / "here").exists()
        client.remove("instances", job.instance)
        wait_until(lambda: not client.get("instances")["instances"])
