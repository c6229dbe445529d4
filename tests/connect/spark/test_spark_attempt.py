"""An attempt on Spark with a fake job: how the coordinator handles lost tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gauss.connect.attempt import Outcome, Side
from gauss.connect.spark.attempt import SparkAttempt
from gauss.connect.spark.link import Link
from gauss.connect.spark.task import outcome_json
from gauss.contracts.connector.cursor import CursorInfo, CursorType, CursorValue, Int64Cursor
from gauss.contracts.connector.host import Host
from gauss.contracts.connector.json_form import decode, encode
from gauss.contracts.connector.lifecycle import JsonConfig, OpenContext, OpenInfo
from gauss.contracts.connector.progress import Counter, Metric, ReadSummary, WriteSummary
from gauss.contracts.connector.stream import StreamContext, SyncMode
from helpers.connectors import OneStream


class Parted:
    def __init__(self, host: Host) -> None:
        pass

    def open(self, context: OpenContext) -> OpenInfo:  # noqa: ARG002
        return OpenInfo()

    def partitions(self, stream: StreamContext, count: int) -> list[Any]:  # noqa: ARG002
        return list(range(count))

    def close(self) -> None:
        pass


class Ended:
    """A job whose tasks have run. Implements `attempt.Job`."""

    is_active = False

    def error(self) -> BaseException | None:
        return None

    def cancel(self) -> None:
        pass


def attempt(
    tasks: Callable[[tuple[str, int, bytes]], None], *, reports: bool = True, both: OneStream | None = None
) -> Outcome:
    def submit(address: tuple[str, int, bytes], partitions: list[Any]) -> Ended:
        assert len(partitions) == 3
        tasks(address)
        return Ended()

    side = Side(Parted, "source", "1", JsonConfig({}))
    run = (both or OneStream()).run
    made = SparkAttempt(run, side, submit, parts=3, host="127.0.0.1", drains=True, reports=reports)
    return made()


@pytest.mark.parametrize("reports", [True, False], ids=["tasks", "query"])
def test_partition_without_a_report_fails_the_attempt_unless_it_is_a_query(reports: bool) -> None:
    def two_of_three(address: tuple[str, int, bytes]) -> None:
        for number in (0, 2):
            Link(address).call("finished", number, outcome_json(Outcome(ReadSummary(5), WriteSummary(5))))

    outcome = attempt(two_of_three, reports=reports)
    if not reports:  # a query need not read everything
        assert outcome.error is None
        return
    assert outcome.error is not None and outcome.error.retryable
    assert "1 of 3 tasks have reported nothing" in outcome.error.message


def test_task_is_claimed_once() -> None:
    answers: list[bool] = []

    def twice(address: tuple[str, int, bytes]) -> None:
        answers.extend(Link(address).call("claim", number) for number in (0, 1, 0))

    attempt(twice, reports=False)
    assert answers == [True, True, False]


def test_cursor_is_unchanged_if_the_source_reports_none() -> None:
    cursors: list[Any] = []
    both = OneStream()
    info = CursorInfo("n", CursorType.INT64, Int64Cursor(41))
    both.run.stream = StreamContext("users", both.run.stream.schema, SyncMode.INCREMENTAL, info)
    attempt(lambda address: cursors.append(Link(address).call("last_cursor")), reports=False, both=both)
    assert decode(cursors[0], CursorValue) == Int64Cursor(41)


def test_counter_of_an_attempt_is_the_sum_of_those_of_its_tasks() -> None:
    seen: list[tuple[str, Metric]] = []
    both = OneStream()
    both.run.observer.measured = lambda *given: seen.append(given)  # type: ignore[method-assign]

    def tasks(address: tuple[str, int, bytes]) -> None:
        for number, records in ((0, 5), (1, 7), (0, 6)):
            Link(address).call("measured", number, "source", encode(Metric("records", Counter(records))))

    attempt(tasks, reports=False, both=both)
    assert [(connector, metric.value) for connector, metric in seen] == [("source", Counter(n)) for n in (5, 12, 13)]
