"""Publishing: one journal entry for all targets; a repeated publish has no effect, an invalid one is rejected."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gauss.clients.engine.positions import At
from gauss.clients.engine.task_messages import Abort, StageDead
from gauss.contracts.letter import Letter
from gauss.model.errors import ConfigError, DiskFull, Fenced, NotFound, ProtocolError, Unavailable
from gauss.model.names import DEAD_TOPIC
from helpers.delivery import Delivery
from helpers.waiting import wait_until


@pytest.fixture
def delivery(tmp_path: Path) -> Delivery:
    made = Delivery(tmp_path)
    made.feed(*(b"r%d" % number for number in range(10)))
    made.claim()
    return made


def test_epoch_becomes_visible_in_partition_order(delivery: Delivery) -> None:
    first, second = delivery.stage(b"a", b"b"), delivery.stage(b"c")
    published = delivery.publish(0, 5, second, first)
    assert (published.repeated, published.ends) == (False, {"out": 3})
    assert delivery.data() == [b"c", b"a", b"b"]
    assert delivery.stages.used == 0


def test_same_epoch_with_same_ends_changes_nothing_even_if_its_stages_are_gone(delivery: Delivery) -> None:
    stage = delivery.stage(b"a")
    delivery.publish(0, 5, stage)
    again = delivery.publish(0, 5, stage)
    assert (again.repeated, again.ends) == (True, {"out": 1})
    assert delivery.data() == [b"a"]


def test_earlier_epoch_repeated_after_a_later_one_is_a_no_op(delivery: Delivery) -> None:
    delivery.publish(0, 3)
    delivery.publish(1, 5)
    assert delivery.publish(0, 3).repeated


@pytest.mark.parametrize(
    ("epoch", "offset", "message"),
    [(0, 4, "other source ends"), (2, 7, "expected epoch 1, found 2"), (1, 2, "decreases")],
)
def test_publish_that_breaks_the_rules_is_refused(delivery: Delivery, epoch: int, offset: int, message: str) -> None:
    delivery.publish(0, 3, delivery.stage(b"a"))
    with pytest.raises(ProtocolError, match=message):
        delivery.publish(epoch, offset)
    assert delivery.data() == [b"a"]


def test_unknown_stage_other_checkpoint_and_unknown_names_are_refused(delivery: Delivery) -> None:
    with pytest.raises(ProtocolError, match="unknown stage"):
        delivery.publish(0, 3, "never")
    with pytest.raises(ProtocolError, match="checkpoint"):
        delivery.publish(0, 3, checkpoint="other")
    with pytest.raises(NotFound):
        delivery.publish(0, 3, targets={"nowhere": []})
    with pytest.raises(NotFound):
        delivery.publish(0, 3, processor="nobody")


def test_letters_that_a_writer_staged_are_published_with_its_records(delivery: Delivery) -> None:
    letter = json.dumps({"reason": "unencodable", "stage": "encode", "data": "e30="}).encode()
    targets = {"out": [delivery.stage(b"a")], DEAD_TOPIC: [delivery.stage(letter, topic=DEAD_TOPIC)]}
    delivery.publish(0, 3, targets=targets)
    assert delivery.publish(0, 3, targets=targets).repeated
    [found] = [json.loads(data) for data in delivery.data(DEAD_TOPIC)]
    assert (found["stage"], found["processor"], found["offset"]) == ("encode", "p", -1)
    assert delivery.data() == [b"a"]


def test_lower_generation_is_fenced_everywhere(delivery: Delivery) -> None:
    old, stage = delivery.generation, delivery.stage(b"zombie")
    delivery.claim()
    assert delivery.generation == old + 1
    with pytest.raises(Fenced):
        delivery.publish(0, 3, stage, generation=old)
    delivery.generation = old
    with pytest.raises(Fenced):
        delivery.latest(delivery.ends(0))
    with pytest.raises(ProtocolError):
        delivery.publisher.check_generation("p", old + 5)


def test_claim_sweeps_what_older_generations_staged(delivery: Delivery) -> None:
    delivery.stage(b"left")
    delivery.claim()
    assert delivery.stages.used == 0


def test_abort_after_a_publish_removes_nothing_published(delivery: Delivery) -> None:
    stage = delivery.stage(b"a")
    delivery.publish(0, 3, stage)
    abort = Abort("p", delivery.generation, [stage])
    assert delivery.stages.abort(abort.processor, abort.generation, abort.stages) == 0
    assert delivery.data() == [b"a"]


def test_all_targets_become_visible_together_or_none(delivery: Delivery, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = {"out": [delivery.stage(b"a")], "other": [delivery.stage(b"b", topic="other")]}

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(DiskFull):
        delivery.publish(0, 3, targets=targets)
    monkeypatch.undo()
    assert (delivery.data("out"), delivery.data("other"), delivery.topics["out"].version()) == ([], [], 0)
    delivery.publish(0, 3, targets=targets)
    assert (delivery.data("out"), delivery.data("other")) == ([b"a"], [b"b"])


def test_record_without_time_takes_the_largest_of_its_inputs_and_none_goes_back(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(b"x", ts_ms=100)
    delivery.feed(b"y", ts_ms=300)
    delivery.claim()
    delivery.publish(
        0, 2, delivery.stage(b"unset"), delivery.stage(b"early", ts_ms=200), delivery.stage(b"late", ts_ms=900)
    )
    assert [(row["data"], row["ts_ms"]) for row in delivery.rows()] == [
        (b"unset", 300),
        (b"early", 300),
        (b"late", 900),
    ]


def test_dead_letters_of_the_epochs_ranges_are_published_with_it(delivery: Delivery) -> None:
    inc = delivery.topics["in"].inc
    facts = {"reason": "bad_json", "stage": "decode", "topic": "in", "inc": inc, "offset": 1, "data": "eA=="}
    letter = msgspec.convert(facts, Letter)
    delivery.stages.dead.put(StageDead("p", delivery.generation, "in", inc, 0, 5, [letter]))
    delivery.stages.dead.put(StageDead("p", delivery.generation, "in", inc, 5, 10, [letter]))
    delivery.publish(0, 5)
    (found,) = [json.loads(data) for data in delivery.data(DEAD_TOPIC)]
    assert found == {**facts, "detail": "", "processor": "p", "ts_ms": 0, "column": "", "attempts": 1}
    delivery.publish(1, 10)
    assert len(delivery.data(DEAD_TOPIC)) == 2


def test_publish_waits_until_one_record_fits_then_appends_the_whole_epoch(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, size=4)
    reader = delivery.topics["out"].reader("slow", "earliest", keep=False)
    delivery.claim()
    delivery.publish(0, 0, delivery.stage(*(b"%d" % number for number in range(10))))
    assert delivery.topics["out"].version() == 10
    done = threading.Event()
    stage = delivery.stage(b"next")

    def publish() -> None:
        delivery.publish(1, 0, stage)
        done.set()

    thread = threading.Thread(target=publish)
    thread.start()
    assert not done.wait(0.2)
    reader.move(7)
    assert done.wait(60)
    thread.join()
    assert delivery.topics["out"].version() == 11


@pytest.mark.parametrize("how", ["claim", "shutdown"])
def test_waiting_publish_gives_up_for_a_newer_claim_or_shutdown_and_leaves_nothing(tmp_path: Path, how: str) -> None:
    delivery = Delivery(tmp_path, size=1)
    delivery.topics["out"].reader("slow", "earliest", keep=False)
    delivery.claim()
    delivery.publish(0, 0, delivery.stage(b"full"))
    stage, caught = delivery.stage(b"never"), []

    def publish() -> None:
        try:
            delivery.publish(1, 0, stage)
        except (Fenced, Unavailable) as error:
            caught.append(type(error))

    thread = threading.Thread(target=publish)
    thread.start()
    wait_until(lambda: delivery.topics["out"].blocked() is not None, 60, "it waits for space")
    if how == "claim":
        delivery.claim()
    else:
        delivery.publisher.close()
    thread.join(60)
    assert caught == [Fenced if how == "claim" else Unavailable]
    assert delivery.topics["out"].version() == 1


def test_start_is_fixed_per_checkpoint_at_the_first_claim(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, size=5)
    delivery.feed(b"a", b"b")
    first = delivery.claim()
    delivery.running.readers["in"].move(2)
    delivery.feed(*(b"%d" % number for number in range(5)))
    again = delivery.claim()
    assert (first.known, again.known) == (False, True)
    assert again.start == first.start == delivery.ends(0)


def test_fresh_checkpoint_starts_at_the_ledgers_ends_and_epoch_zero(delivery: Delivery) -> None:
    delivery.publish(0, 4)
    claimed = delivery.claim("fresh")
    assert (claimed.known, claimed.epoch, claimed.start) == (False, -1, delivery.ends(4))
    delivery.publish(0, 6, checkpoint="fresh")


def test_lost_checkpoint_of_a_stateful_processor_is_refused_unless_state_is_dropped(delivery: Delivery) -> None:
    delivery.publish(0, 4)
    with pytest.raises(ConfigError, match="state") as refused:
        delivery.claim("fresh", stateful=True)
    assert "gauss processors rebuild p" in refused.value.hint
    assert "gauss processors drop-state p" in refused.value.hint
    assert delivery.claim("fresh", stateful=True, drop_state=True).start == delivery.ends(4)


def test_seek_fences_the_query_and_its_next_claim_begins_there(delivery: Delivery) -> None:
    delivery.publish(0, 8)
    delivery.publisher.seek("p", "in", 2)
    with pytest.raises(Fenced):
        delivery.publish(1, 9)
    claimed = delivery.claim()
    assert (claimed.known, claimed.start["in"]) == (False, At(delivery.topics["in"].inc, 2))


def test_processor_with_too_many_dead_letters_is_stopped_with_the_reason(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(*[b"x"] * 300)
    delivery.claim()
    inc = delivery.topics["in"].inc
    letters = [Letter("bad_json", offset=number) for number in range(180)]
    delivery.stages.dead.put(StageDead("p", delivery.generation, "in", inc, 0, 200, letters))
    delivery.publish(0, 200)
    assert len(delivery.stopped) == 1 and "180 of 200" in delivery.stopped[0]
    assert delivery.latest(delivery.ends(200)).end == delivery.ends(200)
    delivery.publisher.resume("p")
    assert delivery.latest(delivery.ends(200)).end == delivery.ends(300)


def test_ledger_survives_reopening_and_epochs_go_on(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(b"a", b"b")
    delivery.claim()
    delivery.publish(0, 2, delivery.stage(b"a"))
    ends = delivery.ends(2)
    delivery.ledger.close()
    again = Delivery(tmp_path)
    claimed = again.claim()
    assert (claimed.known, claimed.epoch, claimed.generation) == (True, 0, 2)
    row = again.ledger.row("p")
    assert row is not None and row.ends == ends


@pytest.mark.parametrize(("synced", "expected"), [(frozenset[str](), 0), (frozenset({"out"}), 1)])
def test_commit_is_forced_to_disk_where_a_target_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: frozenset[str], expected: int
) -> None:
    delivery = Delivery(tmp_path, synced=synced)
    delivery.claim()
    stage = delivery.stage(b"a")
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    delivery.publish(0, 0, stage)
    assert len(calls) == expected


def test_skipped_epoch_becomes_dead_letters_and_stops_nobody(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(*(b"r%d" % number for number in range(200)))
    delivery.claim()
    delivery.publish(0, 50, delivery.stage(b"a"))
    delivery.publish(1, 200, skip=True)
    letters = [json.loads(data) for data in delivery.data(DEAD_TOPIC)]
    assert [letter["offset"] for letter in letters] == list(range(50, 200))
    assert {(letter["reason"], letter["processor"], letter["topic"]) for letter in letters} == {("skipped", "p", "in")}
    assert not delivery.stopped
    assert delivery.data() == [b"a"]
