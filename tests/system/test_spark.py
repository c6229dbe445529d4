"""TCP → topic → Spark → topic with real kills: no acknowledged record is lost, and none is published twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from helpers.feeds import Counter, send
from helpers.pipelines import doubler, doubler_beside
from helpers.run import DRIVER, Run, free_port
from helpers.waiting import stays, wait_until

Make = Callable[[str], Run]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def outputs(run: Run, topic: str = "doubles") -> list[dict[str, Any]]:
    """All records of a topic, decoded."""
    done = run.cli("query", topic, "--json")
    return [json.loads(json.loads(line)["data"]) for line in done.stdout.splitlines()]


def published(run: Run, topic: str = "doubles") -> int:
    return int(run.topic(topic)["end"])


class Doublers:
    """One run, and so one Spark, with a doubler for each test that needs no run of its own."""

    def __init__(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.feeds = {name: free_port() for name in ("plain", "bad", "ring", "latest")}
        parts = [
            doubler(self.feeds["plain"]),
            doubler_beside("bad", self.feeds["bad"]),
            doubler_beside("ring", self.feeds["ring"], "memory", "{ storage_size = 1000 }"),
            doubler_beside("latest", self.feeds["latest"], read="latest"),
        ]
        self.run = Run(tmp_path_factory.mktemp("doublers"), "".join(parts))

    def send(self, name: str, lines: Iterator[bytes]) -> None:
        send(self.feeds[name], b"".join(lines))


@pytest.fixture(scope="module")
def doublers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doublers]:
    made = Doublers(tmp_path_factory)
    try:
        made.run.start()
        yield made
    finally:
        made.run.end()


def test_filter_and_derive_give_exactly_the_expected_rows(doublers: Doublers) -> None:
    doublers.send("plain", (b'{"n":%d,"extra":"x"}\n' % n for n in range(1_000)))
    wait_until(lambda: published(doublers.run) == 500, 120, "500 doubles")
    assert outputs(doublers.run) == [{"n": n, "d": 2 * n} for n in range(0, 1_000, 2)]


def test_bad_record_costs_one_record_and_is_a_dead_letter(doublers: Doublers) -> None:
    doublers.send("bad", iter([b'{"n":2}\nnot json\n{"n":"four"}\n{"n":6}\n']))
    wait_until(lambda: published(doublers.run, "doubles.bad") == 2, 120, "2 doubles")
    assert [row["n"] for row in outputs(doublers.run, "doubles.bad")] == [2, 6]
    listed = json.loads(doublers.run.cli("dlq", "ls", "--json").stdout)
    assert sum(group["count"] for group in listed["groups"]) == 2, listed


def test_ring_smaller_than_one_burst_passes_everything(doublers: Doublers) -> None:
    doublers.send("ring", (b'{"n":%d}\n' % n for n in range(20_000)))
    wait_until(lambda: published(doublers.run, "doubles.ring") == 10_000, 180, "10,000 doubles")
    assert [row["n"] for row in outputs(doublers.run, "doubles.ring")] == list(range(0, 20_000, 2))


def test_latest_reader_on_spark_gives_newest_records_in_order(doublers: Doublers) -> None:
    run = doublers.run
    doublers.send("latest", (b'{"n":%d}\n' % n for n in range(0, 10_000, 2)))
    wait_until(
        lambda: published(run, "doubles.latest") and outputs(run, "doubles.latest")[-1]["n"] == 9_998, 120, "the newest"
    )
    seen = [row["n"] for row in outputs(run, "doubles.latest")]
    assert seen == sorted(set(seen))
    assert len(seen) < 5_000


def end_or_none(run: Run, name: str) -> int | None:
    try:
        return published(run, f"doubles{name}")
    except (OSError, ValueError, KeyError):
        return None


def kill(run: Run, victim: str) -> None:
    match victim:
        case "jvm":
            run.kill("org.apache.spark.deploy")
        case "worker":
            run.kill_worker(lambda workers: workers[-1])
        case "control":
            assert run.process is not None
            run.process.kill()
            run.process.wait()
            run.start()
        case "driver":
            run.kill(DRIVER)
        case _:
            run.kill(f"gauss.stream.{victim}")


SQL = 'plugin = "sql"', 'query = "SELECT n, n * 2 AS d FROM input WHERE n % 2 = 0"'
HOSTED = 'plugin = "expression"', 'program = "select(.n % 2 == 0) | {n, d: .n * 2}"'


def hosted(text: str) -> str:
    """The doubler as a hosted processor, whose tasks stage at the engine themselves."""
    for before, after in zip(SQL, HOSTED, strict=True):
        assert before in text
        text = text.replace(before, after)
    return text


@pytest.mark.fault
@pytest.mark.timeout(1800)  # Spark starts four times in this test
def test_killed_parts_lose_and_double_nothing(gauss: Make) -> None:
    feeds = {"": free_port(), ".hosted": free_port()}
    run = gauss(doubler(feeds[""]) + hosted(doubler_beside("hosted", feeds[".hosted"]))).start()
    counters = {name: Counter(feed, per_second=1_000) for name, feed in feeds.items()}

    def flows(seen: dict[str, int], what: str) -> None:
        for name, before in seen.items():
            wait_until(lambda b=before, n=name: (end_or_none(run, n) or 0) > b + 500, 180, f"{name}: flow {what}")  # type: ignore[misc]

    flows(dict.fromkeys(feeds, 0), "at first")
    for victim in ("jvm", "worker", "engine", "driver", "worker", "engine", "control"):
        seen = {name: wait_until(lambda n=name: end_or_none(run, n)) for name in feeds}  # type: ignore[misc]
        kill(run, victim)
        flows(seen, f"after {victim} died")
    totals = {name: counter.finish() for name, counter in counters.items()}
    for name, total in totals.items():
        # The sender repeats input after a lost acknowledgement. The output must be exactly what the input topic holds,
        # in order, once.
        inputs = [row["n"] for row in outputs(run, f"numbers{name}")]
        assert sorted(set(inputs)) == list(range(total))
        even = [n for n in inputs if n % 2 == 0]
        wait_until(lambda n=name, e=even: (end_or_none(run, n) or 0) >= len(e), 180, f"{name}: all published")  # type: ignore[misc]
        assert outputs(run, f"doubles{name}") == [{"n": n, "d": 2 * n} for n in even]
    listed = json.loads(run.cli("processors", "ls", "--json").stdout)["processors"]
    assert next(entry for entry in listed if entry["name"] == "doubler.hosted")["runs"] == "hosted"


FLAWED = """
[[formats]]
name = "flawed"
plugin = "json"
config = { fields = [{ name = "n", type = "int64" }] }
"""


@pytest.mark.fault
def test_deleted_checkpoint_goes_on_where_the_ledger_ends_and_dead_letters_are_replayed_once_after_the_fix(
    gauss: Make,
) -> None:
    feed, other = free_port(), free_port()
    beside = FLAWED + doubler_beside("fixed", other, numbers="flawed")
    run = gauss(doubler(feed) + beside).start()
    send(feed, b"".join(b'{"n":%d}\n' % n for n in range(1_000)))
    send(other, b'{"n":2}\n{"n":4.5}\n{"n":6}\n')
    wait_until(lambda: published(run) == 500, 120, "500 doubles")
    wait_until(lambda: published(run, "doubles.fixed") == 2, 120, "2 doubles")
    assert run.stop() == 0

    shutil.rmtree(run.data_dir / "checkpoints" / "doubler")
    assert list((run.data_dir / "checkpoints").iterdir())
    fixed = beside.replace('type = "int64"', 'type = "double"').replace("n % 2 = 0", "n > 0")
    run.config.write_text(doubler(feed) + fixed)
    run.start()
    send(feed, b"".join(b'{"n":%d}\n' % n for n in range(1_000, 2_000)))
    assert json.loads(run.cli("dlq", "replay", "--processor", "doubler.fixed", "--json").stdout)["replayed"] == 1
    wait_until(lambda: published(run, "doubles.fixed") == 3, 120, "the replayed record")
    assert json.loads(run.cli("dlq", "replay", "--processor", "doubler.fixed", "--json").stdout)["replayed"] == 0
    wait_until(lambda: published(run) >= 1_000, 120, "1,000 doubles")
    stays(lambda: published(run) == 1_000, 1)
    assert [row["n"] for row in outputs(run)] == list(range(0, 2_000, 2))
    assert [row["n"] for row in outputs(run, "doubles.fixed")] == [2, 6, 4.5]
