"""Claims of partitions: who may commit which range of offsets.

Kafka assigns partitions, and the store fences them. Taking a partition raises its epoch. A range is committed in two
steps, each guarded by the epoch and by the owner's lease: the intent names the range before it is inserted, and the
advance moves `next_offset` behind it. An owner that finds an intent of its predecessor settles it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from gauss.clients.database import Database
from gauss.fleet.leases.owner import Owner
from gauss.fleet.store import audit, letters
from gauss.fleet.store.clock import now_ms
from gauss.fleet.store.letters import DeadLetter, Origin
from gauss.fleet.store.schema import CLAIMS, PIPELINES
from gauss.model.errors import Fenced, NotFound, ProtocolError

WINDOW_MS = 300_000
"""The time over which the share of dead letters is counted."""


class Intent(NamedTuple):
    """A range that is about to be inserted: from the claim's `next_offset` to `stop`."""

    stop: int
    version: int
    """The version of the config with which it is mapped, now and at every retry."""


class Claim(NamedTuple):
    """A partition as its owner got it, or after its last step."""

    topic: str
    partition: int
    topic_id: str
    inc: int
    """Unique per topic id and partition: it marks the rows of a table."""
    epoch: int
    next_offset: int
    sequence: int
    """The number of intents so far."""
    pending: Intent | None


class Outcome(NamedTuple):
    """What became of the pending range of a claim."""

    claim: Claim
    rows: int = 0
    bytes: int = 0
    letters: Sequence[DeadLetter] = ()
    """The records that became no rows."""
    ms: int = 0
    """How long it took to read and insert."""
    stop: int | None = None
    """The offset before which it is done, if not at the end of the range: the rest stays pending."""


class End(NamedTuple):
    """The end of a partition, and since when its owner is behind."""

    offset: int
    behind_ms: int | None = None
    """For how long the end has been past `next_offset`, as far as it was watched."""
    behind_since: int | None = None
    """Instead, if it was past it before: the time of the last record that was committed. Without either, the partition
    is behind for as long as was reported before, or from now on."""


class ClaimShown(NamedTuple):
    """A claim as it is shown."""

    topic: str
    partition: int
    worker_id: str | None
    slot: int | None
    epoch: int
    next_offset: int
    end_offset: int
    pending_to: int | None
    rows: int
    bytes: int
    batches: int
    dead_letters: int
    advanced_at: int | None
    pending_version: int | None
    lag_ms: int | None
    """The age of the oldest record that is not yet committed; None if there is none."""
    insert_ms: int
    """How long all batches together took to read and insert."""
    window_records: int
    """Records of the last minutes that became rows or dead letters."""
    window_letters: int
    is_former: bool
    """Whether the pipeline has read another topic since."""

    @property
    def lag(self) -> int:
        """Messages that are not yet committed. Nobody waits for those of a former topic."""
        return 0 if self.is_former else max(self.end_offset - self.next_offset, 0)


class PartitionClaims:
    """The claims of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def missing(self, pipeline_id: str, topic: str, topic_id: str, partitions: Iterable[int]) -> list[int]:
        """The partitions that were not known since the topic was made: they need an offset to start at."""
        query = sa.select(CLAIMS.c.partition).where(
            CLAIMS.c.pipeline_id == pipeline_id, CLAIMS.c.topic == topic, CLAIMS.c.topic_id == topic_id
        )
        with self._database.transaction() as connection:
            known = set(connection.execute(query).scalars())
        return [partition for partition in partitions if partition not in known]

    def has_any(self, pipeline_id: str, topic: str) -> bool:
        """Whether any partition of a topic of this name was ever known."""
        query = sa.select(sa.exists().where(CLAIMS.c.pipeline_id == pipeline_id, CLAIMS.c.topic == topic))
        with self._database.transaction() as connection:
            return bool(connection.execute(query).scalar_one())

    def take(
        self, owner: Owner, topic: str, topic_id: str, partitions: Sequence[int], starts: Mapping[int, int]
    ) -> list[Claim]:
        """Takes partitions from whoever had them. `starts`: the offsets at which those that are `missing` start, and
        other partitions that are to be known from now on.

        Raises Fenced without a live lease, and NotFound if the pipeline was deleted."""
        with self._database.transaction() as connection:
            _lock_pipeline(connection, owner.pipeline_id)
            if not connection.execute(sa.select(owner.holds_lease())).scalar_one():
                raise _lost_lease(owner)
            _know(connection, owner.pipeline_id, (topic, topic_id), starts)
            return [_take(connection, owner, (topic, each), topic_id, starts.get(each)) for each in sorted(partitions)]

    def intend(self, owner: Owner, intents: Sequence[tuple[Claim, Intent]]) -> list[Claim]:
        """Records ranges before they are inserted: all of them, or none. The same call may be repeated after an unclear
        answer. Raises Fenced if a partition has another owner or the lease is gone."""
        with self._database.transaction() as connection:
            return [self._intend(connection, owner, *each) for each in sorted(intents, key=_place)]

    def _intend(self, connection: sa.Connection, owner: Owner, claim: Claim, intent: Intent) -> Claim:
        if intent.stop <= claim.next_offset:
            raise ProtocolError(f"an intent needs a range (found {claim.next_offset} to {intent.stop})")
        columns = CLAIMS.c
        values = {"pending_to": intent.stop, "pending_version": intent.version, "sequence": columns.sequence + 1}
        update = CLAIMS.update().where(
            *_owned(owner, claim), columns.sequence == claim.sequence, columns.pending_to.is_(None),
            columns.next_offset == claim.next_offset,
        )  # fmt: skip
        wanted = claim._replace(sequence=claim.sequence + 1, pending=intent)
        if not connection.execute(update.values(**values)).rowcount:
            self._expect(connection, owner, wanted)
        return wanted

    def advance(self, owner: Owner, outcomes: Sequence[Outcome]) -> list[Claim]:
        """Moves partitions behind their pending ranges, whose rows are in the table: all of them, or none. Repeatable
        after an unclear answer. Raises Fenced as `intend` does."""
        with self._database.transaction() as connection:
            if any(outcome.letters for outcome in outcomes):
                _lock_pipeline(connection, owner.pipeline_id)
            ordered = sorted(outcomes, key=lambda each: (each.claim.topic, each.claim.partition))
            return [self._advance(connection, owner, each) for each in ordered]

    def _advance(self, connection: sa.Connection, owner: Owner, outcome: Outcome) -> Claim:
        claim, columns = outcome.claim, CLAIMS.c
        if claim.pending is None:
            raise ProtocolError(f"partition {claim.partition} of {claim.topic} has no pending range")
        end = claim.pending.stop
        stop = end if outcome.stop is None else outcome.stop
        left = claim.pending if stop < end else None
        update = CLAIMS.update().where(
            *_owned(owner, claim), columns.sequence == claim.sequence, columns.pending_to == end,
            columns.next_offset == claim.next_offset,
        )  # fmt: skip
        to, version = left or (None, None)
        values = {
            "next_offset": stop, "pending_to": to, "pending_version": version,
            "rows": columns.rows + outcome.rows, "bytes": columns.bytes + outcome.bytes,
            "batches": columns.batches + 1, "dead_letters": columns.dead_letters + len(outcome.letters),
            "insert_ms": columns.insert_ms + outcome.ms, "advanced_at": now_ms(),
            "behind_since": sa.case((columns.end_offset <= stop, None), else_=columns.behind_since),
            **_window(outcome),
        }  # fmt: skip
        moved = claim._replace(next_offset=stop, pending=left)
        if connection.execute(update.values(**values)).rowcount:
            origin = Origin(claim.inc, claim.topic, claim.partition)
            letters.add(connection, owner.pipeline_id, origin, outcome.letters)
        else:
            self._expect(connection, owner, moved)
        return moved

    def _expect(self, connection: sa.Connection, owner: Owner, wanted: Claim) -> None:
        """Raises Fenced unless the step has already been made: its answer was lost."""
        row = connection.execute(sa.select(CLAIMS).where(*_owned(owner, wanted))).first()
        if row is None or _claim(row) != wanted:
            raise _taken(wanted)

    def release(self, owner: Owner, claims: Iterable[Claim]) -> None:
        """Leaves partitions without an owner. Those that have another one are not touched."""
        with self._database.transaction() as connection:
            for claim in sorted(claims, key=lambda each: (each.topic, each.partition)):
                where = (*_at(owner.pipeline_id, claim.topic, claim.partition), CLAIMS.c.epoch == claim.epoch)
                mine = CLAIMS.c.worker_id == owner.worker_id
                values = {"worker_id": None, "slot": None, "lease_epoch": None}
                connection.execute(CLAIMS.update().where(*where, mine).values(**values))

    def report_ends(self, owner: Owner, ends: Mapping[Claim, End]) -> None:
        """Notes the ends of partitions, from which their lag is computed. Raises Fenced if one has another owner."""
        with self._database.transaction() as connection:
            for claim, end in sorted(ends.items(), key=lambda each: (each[0].topic, each[0].partition)):
                where = (*_at(owner.pipeline_id, claim.topic, claim.partition), CLAIMS.c.epoch == claim.epoch)
                update = CLAIMS.update().where(*where).values(end_offset=end.offset, behind_since=_since(claim, end))
                if not connection.execute(update).rowcount:
                    raise _taken(claim)

    def use_newest_config(self, pipeline_id: str, who: str) -> int:
        """Lets pending ranges be tried with the newest config, because an operator says so; returns how many there
        are. Their owners are fenced, and claim the partitions anew."""
        newest = sa.select(PIPELINES.c.version).where(PIPELINES.c.id == pipeline_id).scalar_subquery()
        columns = CLAIMS.c
        where = (columns.pipeline_id == pipeline_id, columns.pending_version < newest)
        with self._database.transaction() as connection:
            _lock_pipeline(connection, pipeline_id)
            update = CLAIMS.update().where(*where).values(pending_version=newest, epoch=columns.epoch + 1)
            changed = int(connection.execute(update).rowcount)
            audit.record(connection, who, "pending.newest_config", pipeline_id, ranges=changed)
            return changed

    def all(self) -> dict[str, list[ClaimShown]]:
        """The partitions of all pipelines, by pipeline."""
        found: dict[str, list[ClaimShown]] = {}
        with self._database.transaction() as connection:
            for row in connection.execute(sa.select(CLAIMS.c.pipeline_id, *_shown())):
                found.setdefault(row.pipeline_id, []).append(ClaimShown(*row[1:]))
        return found

    def list(self, pipeline_id: str) -> list[ClaimShown]:
        """All partitions of a pipeline that were ever claimed, those without an owner included."""
        query = sa.select(*_shown()).where(CLAIMS.c.pipeline_id == pipeline_id)
        with self._database.transaction() as connection:
            rows = connection.execute(query.order_by(CLAIMS.c.topic, CLAIMS.c.partition)).all()
        return [ClaimShown(*row) for row in rows]


def _shown() -> list[sa.ColumnElement[Any]]:
    """The columns of `ClaimShown`. A window without a batch for long is empty."""
    recent = CLAIMS.c.window_at > now_ms() - 2 * WINDOW_MS
    newest = sa.func.first_value(CLAIMS.c.topic)
    newest_topic = newest.over(partition_by=CLAIMS.c.pipeline_id, order_by=CLAIMS.c.taken_at.desc())
    made: dict[str, sa.ColumnElement[Any]] = {
        "lag_ms": now_ms() - CLAIMS.c.behind_since,
        "window_records": sa.case((recent, CLAIMS.c.window_records), else_=0),
        "window_letters": sa.case((recent, CLAIMS.c.window_letters), else_=0),
        "is_former": newest_topic != CLAIMS.c.topic,
    }
    return [made[name].label(name) if name in made else CLAIMS.c[name] for name in ClaimShown._fields]


def _since(claim: Claim, end: End) -> Any:
    """The value of `behind_since`."""
    if end.offset <= claim.next_offset:
        return None
    if end.behind_ms is not None:
        return now_ms() - end.behind_ms
    return end.behind_since or sa.func.coalesce(CLAIMS.c.behind_since, now_ms())


def _window(outcome: Outcome) -> dict[str, Any]:
    """Counts records and dead letters; an old window is replaced by a new one."""
    columns, letters = CLAIMS.c, len(outcome.letters)
    is_old = columns.window_at < now_ms() - WINDOW_MS
    return {
        "window_at": sa.case((is_old, now_ms()), else_=columns.window_at),
        "window_records": sa.case((is_old, 0), else_=columns.window_records) + outcome.rows + letters,
        "window_letters": sa.case((is_old, 0), else_=columns.window_letters) + letters,
    }


def _take(connection: sa.Connection, owner: Owner, place: tuple[str, int], topic_id: str, start: int | None) -> Claim:
    topic, partition = place
    where = _at(owner.pipeline_id, topic, partition)
    known = connection.execute(sa.select(CLAIMS).where(*where).with_for_update()).first()
    lease_epoch = None if owner.lease is None else owner.lease.epoch
    mine = {"worker_id": owner.worker_id, "slot": owner.slot, "lease_epoch": lease_epoch, "taken_at": now_ms()}
    statement: Any = CLAIMS.update().where(*where).values(**mine, epoch=CLAIMS.c.epoch + 1)
    if known is None or known.topic_id != topic_id:
        if start is None or known is None:
            raise ProtocolError(f"partition {partition} of {topic} is new, and no offset to start at was given")
        # Another topic of the same name: what was not read of the old one can no longer be.
        lost = _unread(known)
        letters.add(connection, owner.pipeline_id, Origin(known.inc, topic, partition), lost)
        statement = statement.values(
            topic_id=topic_id, inc=_new_inc(connection), next_offset=start, end_offset=start, behind_since=None,
            pending_to=None, pending_version=None, dead_letters=CLAIMS.c.dead_letters + len(lost),
        )  # fmt: skip
    return _claim(connection.execute(statement.returning(CLAIMS)).one())


def _know(connection: sa.Connection, pipeline_id: str, topic: tuple[str, str], starts: Mapping[int, int]) -> None:
    """Notes partitions of a topic (its name and id) that are not known yet, without an owner. Before any is locked, and
    in one order: others do the same at the same time."""
    if not starts:
        return
    name, topic_id = topic
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    zeros = dict.fromkeys((*_COUNTERS, "epoch"), 0)
    insert = dialect.insert(CLAIMS).values(taken_at=now_ms()).on_conflict_do_nothing()
    rows = [
        {"pipeline_id": pipeline_id, "topic": name, "partition": partition, "topic_id": topic_id, "inc": inc,
         "next_offset": start, "end_offset": start, **zeros}
        for inc, (partition, start) in enumerate(sorted(starts.items()), _new_inc(connection))
    ]  # fmt: skip
    connection.execute(insert, rows)


def _unread(known: Any) -> list[DeadLetter]:
    """A letter about the records that a topic had when it was deleted, if it is known to have had any."""
    stop = max(known.end_offset, known.pending_to or 0)
    if stop <= known.next_offset:
        return []
    detail = f"the topic was deleted and made anew before offsets {known.next_offset} to {stop - 1} were read"
    if known.pending_to is not None:
        detail += f" for sure: those up to {known.pending_to - 1} may be rows"
    return [DeadLetter(known.next_offset, "read", "recreated", "", detail, None, 0)]


def _place(intent: tuple[Claim, Intent]) -> tuple[str, int]:
    return intent[0].topic, intent[0].partition


def _at(pipeline_id: str, topic: str, partition: int) -> tuple[sa.ColumnElement[bool], ...]:
    return CLAIMS.c.pipeline_id == pipeline_id, CLAIMS.c.topic == topic, CLAIMS.c.partition == partition


def _owned(owner: Owner, claim: Claim) -> tuple[sa.ColumnElement[bool], ...]:
    """The guard of every step."""
    return (
        *_at(owner.pipeline_id, claim.topic, claim.partition),
        CLAIMS.c.worker_id == owner.worker_id,
        CLAIMS.c.epoch == claim.epoch,
        owner.holds_lease(),
    )


def _lock_pipeline(connection: sa.Connection, pipeline_id: str) -> None:
    """Before rows that refer to it, in the order of a deletion."""
    lock = sa.select(PIPELINES.c.id).where(PIPELINES.c.id == pipeline_id).with_for_update(read=True, key_share=True)
    if connection.execute(lock).first() is None:
        raise NotFound(f'no pipeline "{pipeline_id}": it was deleted')


def _new_inc(connection: sa.Connection) -> int:
    """Larger than all others of this store, and hardly one of another store that writes to the same table."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _INC_LOCK})
    newest = sa.select(sa.func.coalesce(sa.func.max(CLAIMS.c.inc), 0), now_ms())
    known, now = connection.execute(newest).one()
    return int(max(known + 1, now))


_INC_LOCK = 0x67617574
_COUNTERS = (
    "sequence", "rows", "bytes", "batches", "dead_letters", "insert_ms", "window_at", "window_records", "window_letters"
)  # fmt: skip


def _claim(row: Any) -> Claim:
    pending = None if row.pending_to is None else Intent(row.pending_to, row.pending_version)
    return Claim(row.topic, row.partition, row.topic_id, row.inc, row.epoch, row.next_offset, row.sequence, pending)


def _taken(claim: Claim) -> Fenced:
    return Fenced(
        f"partition {claim.partition} of {claim.topic} has another owner, or the lease of its slot is gone",
        hint="it is claimed again when Kafka assigns it again",
    )


def _lost_lease(owner: Owner) -> Fenced:
    slot = "" if owner.lease is None else f" of slot {owner.lease.slot}"
    return Fenced(f"the lease{slot} is gone", hint="the slot is acquired again")
