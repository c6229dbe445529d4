"""Positions in topics, and the event time that goes with them."""

from __future__ import annotations

import msgspec


class At(msgspec.Struct, frozen=True, omit_defaults=True):
    """A position in a topic: an offset of one partition, valid within one incarnation of the topic.

    The end of a batch also carries the event time of its processor, so that the time is logged with the batch and a
    replay finds the same records late. Fields at their default are not encoded: journals, checkpoints and stages
    written before partitions existed are read as partition 0, and partition 0 is written as they are.
    """

    inc: int
    off: int
    seen: int = 0
    """The largest event time of all earlier epochs."""
    beat: int = 0
    """The time up to which heartbeats have advanced an idle source."""
    partition: int = 0
    """Always 0 in a topic of the engine."""


Ends = dict[str, At]
"""Positions by `place_key`: one per partition of each topic.

The map is flat because positions are merged (`{**known, **moved}`), compared and looked up per partition all over the
engine: a map of maps would replace every partition of a topic where only some have moved. For a topic with one
partition the key is the topic's name.
"""


PARTITION_MARK = "/"
"""Between topic and partition in a key of Ends; no name contains it."""


def place_key(topic: str, partition: int = 0) -> str:
    """The key of a partition in Ends: `orders` for partition 0, `orders/3` for partition 3."""
    return f"{topic}{PARTITION_MARK}{partition}" if partition else topic


def topic_of(key: str) -> str:
    """The topic of a key of Ends."""
    return key.partition(PARTITION_MARK)[0]


def partition_of(key: str) -> int:
    """The partition of a key of Ends."""
    return int(key.partition(PARTITION_MARK)[2] or 0)


def place_at(key: str, inc: int, off: int) -> At:
    """A position under its key of Ends."""
    return At(inc, off, partition=partition_of(key))


TABLE_MARK = "table:"
"""Prefix of a key in Ends whose value is the version of a table that the batch looks rows up in, not a position."""


def places(ends: Ends) -> Ends:
    """The positions of readers, without the versions of tables."""
    return {name: at for name, at in ends.items() if not name.startswith(TABLE_MARK)}


def versions(ends: Ends) -> Ends:
    """The versions of the tables that a batch looks rows up in, by topic."""
    return {name.removeprefix(TABLE_MARK): at for name, at in ends.items() if name.startswith(TABLE_MARK)}


def time_basis(ends: Ends) -> int:
    """The event time from which the watermark of a batch is subtracted."""
    return max((max(at.seen, at.beat) for at in ends.values()), default=0)


class Timing(msgspec.Struct, frozen=True):
    """Event-time settings by which the engine advances the watermark of an idle source."""

    watermark_ms: int
    span_ms: int
    """Its largest window: how long the effect of a record may wait for later ones."""
    step_ms: int
    """Windows close only at multiples of this."""
    arrival: bool = True
    """Whether event time is the `ts_ms` of the records."""
    idle_ms: int | None = None
    """If it is not: how long the source must be idle before time advances; None: it does not."""
