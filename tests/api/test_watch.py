"""What pages read of a run, as any program may."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gauss.api.processes import READ_BYTES, LogTail
from helpers.run import Run
from helpers.waiting import wait_until

pytestmark = pytest.mark.system

if TYPE_CHECKING:
    from .conftest import Ask


def test_overview_has_headline_and_figures_of_each_part(ask: Ask) -> None:
    found = wait_until(lambda: (said := ask("GET", "/api/overview").json())["topics"] and said, what="a sample")
    assert found["headline"]["text"] and found["bottleneck"] is None
    assert {"rate", "fill", "pressure", "records"} <= set(found["topics"]["plain"])
    assert found["processors"]["copy"]["state"] == "running"
    assert "_dead" not in found["topics"]


def test_history_has_a_rate_per_second(ask: Ask) -> None:
    found = wait_until(lambda: ask("GET", "/api/history").json()["topics"].get("plain"), what="a sample")
    assert all(rate >= 0 for rate in found) and len(found) <= 60


def test_latest_gives_the_newest_records_and_counts_those_between(ask: Ask) -> None:
    put = b"".join(b'{"n": %d}\n' % number for number in range(300))
    ask("POST", "/api/topics/tailed/records", put)
    found = ask("GET", "/api/topics/tailed/latest?count=10").json()
    assert [json.loads(row["data"])["n"] for row in found["records"]] == list(range(290, 300))
    assert found["seen"] == 300
    again = ask("GET", f"/api/topics/tailed/latest?after={found['end']}").json()
    assert (again["records"], again["seen"]) == ([], 0)
    some = ask("GET", "/api/topics/tailed/latest?where=.n%20%3E%20297&oldest=true").json()
    assert len(some["records"]) == 2 and some["oldest_ms"] is not None
    assert (some["matched"], some["searched"]) == (2, 300)
    many = ask("GET", "/api/topics/tailed/latest?where=.n%20%3E%200&count=10&after=100").json()
    assert len(many["records"]) == 10 and (many["matched"], many["searched"]) == (200, 200)
    assert ask("GET", "/api/topics/tailed/latest?where=.n%20%3E").status == 422


def test_plan_and_actions_of_a_processor_say_what_they_do(ask: Ask) -> None:
    plan = ask("GET", "/api/processors/copy/plan").json()
    assert plan["runs"] == "pump" and any(line["step"] == "guarantee" for line in plan["lines"])
    found = {each["action"]: each for each in ask("GET", "/api/processors/copy/actions?to=-1").json()["actions"]}
    assert set(found) == {"retry", "skip", "drop-state", "rebuild", "seek"}
    assert not found["retry"]["allowed"] and "nothing to retry" in found["retry"]["refusal"]
    assert found["rebuild"]["destructive"] and "small" in found["rebuild"]["goes"][0]
    refused = ask("GET", "/api/processors/copy/actions?to=999999999").json()["actions"][-1]
    assert not refused["allowed"] and "holds offsets" in refused["refusal"]
    assert ask("GET", "/api/processors/feed/actions").json() == {"actions": []}
    assert ask("GET", "/api/processors/none/actions").status == 404


def test_processes_have_memory_and_processor_time(ask: Ask) -> None:
    found = {each["name"]: each for each in ask("GET", "/api/processes").json()["processes"]}
    assert set(found) == {"control", "engine"}
    assert all(each["memory_bytes"] > 1 << 20 and each["cpu_seconds"] > 0 for each in found.values())


def test_logs_are_searched_by_text_process_and_level(ask: Ask) -> None:
    found = ask("GET", "/api/logs?process=control&search=ENGINE").json()["lines"]
    assert found and all(line["process"] == "control" for line in found)
    assert ask("GET", "/api/logs?search=no%20such%20line").json()["lines"] == []
    assert ask("GET", "/api/logs?process=none").status == 404
    assert ask("GET", "/api/logs?level=loud").status == 422


def test_lines_of_spark_have_their_own_time(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text("2026-11-19 06:00:37.900 WARN NativeCodeLoader: no library\n\tat java.lang.Thread\n")
    first, second = LogTail("spark", log).rows()
    assert (first["level"], first["message"]) == ("warning", "WARN NativeCodeLoader: no library")
    local = datetime.fromisoformat(first["time"]).astimezone().replace(tzinfo=None)
    assert local == datetime(2026, 11, 19, 6, 0, 37, 900_000)
    assert second["time"] == first["time"]


def test_a_log_is_read_on_from_where_it_was_and_anew_when_it_is_rotated(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    row = '{"time": "2026-11-19T06:00:0%d+00:00", "level": "INFO", "message": "%s"}\n'
    log.write_text(row % (1, "one") + "printed\n" + row[:20])
    tail = LogTail("engine", log)
    first = tail.rows()
    assert [each["message"] for each in first] == ["one", "printed"]
    with log.open("a") as file:
        file.write(row[20:] % (2, "two"))
    second = tail.rows()
    assert [each["message"] for each in second] == ["one", "printed", "two"]
    assert [id(each) for each in second[:2]] == [id(each) for each in first], "what was read is not decoded again"
    with log.open("a") as file:
        file.writelines(row % (3, "x" * 1000) for _ in range(READ_BYTES // 1000))
    assert READ_BYTES // 1100 < len(tail.rows()) < READ_BYTES // 1000
    log.rename(tmp_path / "engine.log.1")
    log.write_text(row % (4, "new"))
    assert [each["message"] for each in tail.rows()] == ["new"]
    log.unlink()
    assert tail.rows() == []


def test_pipeline_file_has_entries_with_lines_and_no_secret(ask: Ask, run: Run) -> None:
    found = ask("GET", "/api/pipeline").json()
    line = next(each["line"] for each in found["entries"] if each["name"] == "copy")
    assert found["text"].splitlines()[line - 1] == "[[processors]]"
    assert all(fault["warning"] for fault in found["faults"])
    assert not found["changed"] and found["file"] == run.config.name


def test_secrets_of_a_file_that_is_not_toml_stay_hidden(ask: Ask, run: Run) -> None:
    before = run.config.read_text()
    broken = 'password = hunter2\ntoken = "abc-def\nurl = "postgres://me:pw-123@host/db"\nprivate_key_file = "me.key"\n'
    try:
        run.config.write_text(before + broken)
        found = ask("GET", "/api/pipeline").json()
    finally:
        run.config.write_text(before)
    assert found["changed"] and not found["faults"][0]["warning"]
    assert not any(secret in json.dumps(found) for secret in ("hunter2", "abc-def", "pw-123"))
    assert "password = ***" in found["text"] and '"me.key"' in found["text"]


@pytest.mark.parametrize(
    ("body", "status"),
    [({"processor": "none", "data": "x"}, 404), ({"processor": "copy"}, 422), ({"processor": "copy", "data": 1}, 422)],
)
def test_a_try_without_a_record_or_processor_is_refused(ask: Ask, body: dict[str, Any], status: int) -> None:
    reply = ask("POST", "/api/dlq/try", json.dumps(body).encode(), **{"Content-Type": "application/json"})
    assert reply.status == status
