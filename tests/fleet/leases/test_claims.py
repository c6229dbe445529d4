"""What the store knows of partitions beside their offsets: lag in time, shares of dead letters, stuck ranges."""

from __future__ import annotations

import pytest

from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.leases.claims import WINDOW_MS, Claim, ClaimShown, End, Intent, Outcome
from gauss.fleet.leases.owner import Owner
from gauss.fleet.status import LEAST_RECORDS, dead_ratio, lag_seconds, status
from gauss.fleet.store.configs import Config, Kind
from gauss.fleet.store.letters import DeadLetter
from gauss.fleet.store.schema import CLAIMS
from gauss.model.errors import Fenced, NotFound

MINUTE = 60_000


class Partition:
    """Partition 0 of a pipeline, and its owner."""

    def __init__(self, store: FleetStore) -> None:
        self.store = store
        self.id = store.pipelines.create("orders", "", "me").id
        self.owner = Owner("w", self.id)
        self.claim: Claim
        self.take()

    def take(self) -> None:
        (self.claim,) = self.store.claims.take(self.owner, "t", "id", [0], {0: 0})

    def commit(self, stop: int, letters: int = 0) -> None:
        (claim,) = self.store.claims.intend(self.owner, [(self.claim, Intent(stop, 1))])
        found = [DeadLetter(claim.next_offset + each, "map", "bad", "", "", b"", 0) for each in range(letters)]
        rows = stop - claim.next_offset - letters
        (self.claim,) = self.store.claims.advance(self.owner, [Outcome(claim, rows, letters=found, ms=250)])

    def report(self, end: End) -> None:
        self.store.claims.report_ends(self.owner, {self.claim: end})

    def pass_time(self, milliseconds: int) -> None:
        """As if all that is in the store had happened earlier."""
        times = {name: CLAIMS.c[name] - milliseconds for name in ("behind_since", "window_at")}
        with self.store.database.transaction() as connection:
            connection.execute(CLAIMS.update().values(**times))

    @property
    def shown(self) -> ClaimShown:
        (found,) = self.store.claims.list(self.id)
        return found

    @property
    def lag_seconds(self) -> float:
        return lag_seconds(self.shown)


@pytest.fixture
def partition(store: FleetStore) -> Partition:
    return Partition(store)


def test_lag_in_time_grows_from_when_the_end_passed_the_offset_until_all_is_committed(partition: Partition) -> None:
    partition.report(End(10, behind_ms=3_000))
    assert 3.0 <= partition.lag_seconds < 30.0
    partition.pass_time(MINUTE)
    assert 63.0 <= partition.lag_seconds < 90.0
    partition.commit(10)
    assert (partition.lag_seconds, partition.shown.lag_ms) == (0.0, None)


def test_a_backlog_of_unknown_age_is_behind_from_its_first_report_and_for_a_new_owner_too(partition: Partition) -> None:
    partition.report(End(10))
    assert 0.0 <= partition.lag_seconds < 30.0
    partition.pass_time(MINUTE)
    partition.report(End(10))
    assert partition.lag_seconds >= 60.0
    partition.take()
    partition.report(End(20))
    assert partition.lag_seconds >= 60.0
    partition.commit(20)
    partition.report(End(20))
    assert partition.lag_seconds == 0.0


def test_the_time_of_the_last_committed_record_counts_for_a_backlog(partition: Partition) -> None:
    partition.report(End(10, behind_since=1_000))
    assert partition.lag_seconds > 365 * 24 * 3600


def test_only_the_owner_reports_ends(partition: Partition) -> None:
    old = partition.claim
    partition.take()
    with pytest.raises(Fenced):
        partition.store.claims.report_ends(partition.owner, {old: End(10)})


def test_the_share_of_dead_letters_counts_recent_records_and_raises_an_alert(partition: Partition) -> None:
    partition.commit(LEAST_RECORDS - 1, letters=5)
    assert dead_ratio([partition.shown]) == 0.0, "too few records"
    partition.commit(100, letters=5)
    assert dead_ratio([partition.shown]) == 0.1
    pipeline = partition.store.pipelines.get(partition.id)
    seen = status(pipeline, [], [partition.shown], [])
    assert seen.alert == "10% of the recent records became dead letters (limit 5%)"
    pipeline = partition.store.pipelines.update(partition.id, "me", alert_ratio=0.1)
    assert status(pipeline, [], [partition.shown], []).alert == ""
    partition.pass_time(WINDOW_MS + 1)
    partition.commit(200)
    assert dead_ratio([partition.shown]) == 0.0
    assert (partition.shown.batches, partition.shown.insert_ms, partition.shown.dead_letters) == (3, 750, 10)


def test_old_windows_are_empty_also_if_nothing_comes_any_more(partition: Partition) -> None:
    partition.commit(100, letters=50)
    partition.pass_time(2 * WINDOW_MS + 1)
    assert (partition.shown.window_records, partition.shown.window_letters) == (0, 0)


def test_a_stuck_range_is_given_the_newest_config_and_its_owner_is_fenced(partition: Partition) -> None:
    store = partition.store
    for config in (Config({"table": "a"}, {}), Config({"table": "b"}, {})):
        store.configs.change(partition.id, Kind.CLICKHOUSE, "me", lambda _, new=config: new)  # type: ignore[misc]
    (pending,) = store.claims.intend(partition.owner, [(partition.claim, Intent(10, 1))])
    assert store.claims.use_newest_config(partition.id, "me") == 1
    with pytest.raises(Fenced):
        store.claims.advance(partition.owner, [Outcome(pending, 10)])
    partition.take()
    assert partition.claim.pending == Intent(10, 2)
    assert store.claims.use_newest_config(partition.id, "me") == 0
    store.claims.advance(partition.owner, [Outcome(partition.claim, 10)])
    assert [each.detail for each in store.audit.entries(limit=2)] == [{"ranges": 0}, {"ranges": 1}]
    with pytest.raises(NotFound):
        store.claims.use_newest_config("nobody", "me")


def test_a_range_is_advanced_in_parts_and_each_part_is_counted_once(partition: Partition) -> None:
    claims, letter = partition.store.claims, DeadLetter(3, "map", "bad", "", "", b"", 0)
    (pending,) = claims.intend(partition.owner, [(partition.claim, Intent(10, 1))])
    outcome = Outcome(pending, 3, letters=[letter], stop=4)
    for _ in range(2):  # the answer of the first was lost
        (part,) = claims.advance(partition.owner, [outcome])
        assert (part.next_offset, part.pending) == (4, Intent(10, 1))
    partition.take()
    assert partition.claim.pending == Intent(10, 1), "the next owner goes on behind the part"
    with pytest.raises(Fenced):
        claims.advance(partition.owner, [outcome])
    (done,) = claims.advance(partition.owner, [Outcome(partition.claim, 6)])
    assert (done.next_offset, done.pending) == (10, None)
    assert (partition.shown.rows, partition.shown.dead_letters, partition.shown.batches) == (9, 1, 2)


def test_what_a_topic_had_that_was_made_anew_is_told_and_its_successor_gets_another_incarnation(
    partition: Partition,
) -> None:
    store, old = partition.store, partition.claim
    partition.report(End(30))
    store.claims.intend(partition.owner, [(partition.claim, Intent(10, 1))])
    assert store.claims.missing(partition.id, "t", "other", [0]) == [0]
    (new,) = store.claims.take(partition.owner, "t", "other", [0], {0: 0})
    assert (new.next_offset, new.pending, new.epoch) == (0, None, old.epoch + 1)
    assert new.inc > old.inc
    (told,) = store.letters.list(partition.id)
    assert (told.origin.inc, told.letter.reason) == (old.inc, "recreated")
    assert "offsets 0 to 29 were read for sure: those up to 9 may be rows" in told.letter.detail
    assert partition.shown.dead_letters == 1
    store.claims.take(partition.owner, "t", "third", [0], {0: 0})
    assert len(store.letters.list(partition.id)) == 1, "it had nothing"


def test_partitions_are_known_with_their_start_before_they_are_taken(store: FleetStore) -> None:
    pipeline = store.pipelines.create("orders", "", "me").id
    assert not store.claims.has_any(pipeline, "t")
    store.claims.take(Owner("w", pipeline), "t", "id", [1], {0: 10, 1: 20, 2: 30})
    assert store.claims.has_any(pipeline, "t")
    assert store.claims.missing(pipeline, "t", "id", [0, 1, 2, 3]) == [3]
    found = store.claims.take(Owner("v", pipeline), "t", "id", [0, 2], {0: 99, 2: 99})
    assert [(each.next_offset, each.epoch) for each in found] == [(10, 1), (30, 1)], "as they were noted first"
    assert len({each.inc for each in found}) == 2


def test_partitions_of_a_former_topic_have_no_lag_and_an_unsettled_range_of_them_is_an_alert(
    partition: Partition,
) -> None:
    store = partition.store
    partition.report(End(30))
    store.claims.intend(partition.owner, [(partition.claim, Intent(10, 1))])
    with store.database.transaction() as connection:
        connection.execute(CLAIMS.update().values(taken_at=CLAIMS.c.taken_at - 1))
    (other,) = store.claims.take(partition.owner, "u", "id2", [0], {0: 0})
    store.claims.report_ends(partition.owner, {other: End(5)})
    seen = status(store.pipelines.get(partition.id), [], store.claims.list(partition.id), [])
    assert (seen.lag, [each.is_former for each in store.claims.list(partition.id)]) == (5, [True, False])
    assert seen.alert.startswith("offsets 0 to 9 of partition 0 of the former topic t were not inserted for sure")
    shown = store.claims.all()[partition.id]
    assert {each.topic: each.lag for each in shown} == {"t": 0, "u": 5}
