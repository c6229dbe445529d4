"""Applies entries of the commit journal to the ledger's state."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterable

import msgspec

from gauss.stream.engine.journal.entries import (
    KEPT_EPOCHS,
    ClaimMade,
    Dropped,
    Entry,
    EpochPublished,
    GrantMade,
    Incarnated,
    LedgerState,
    LettersKept,
    Moved,
    ProcessorRow,
    Pulled,
    Pushed,
    Rebuilt,
    RunOpened,
)

encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)
decode = _decoder.decode


def apply(state: LedgerState, entry: Entry) -> LedgerState:
    """The state after an entry; changes the given one, unless the entry is a snapshot."""
    if isinstance(entry, LedgerState):
        return entry
    if isinstance(entry, RunOpened):
        state.run = entry.run
    elif isinstance(entry, Incarnated):
        state.incs[entry.topic] = entry.inc
    elif isinstance(entry, ClaimMade):
        _claimed(state, entry)
    elif isinstance(entry, GrantMade):
        row = state.processors[entry.processor]
        if row.generation == entry.generation:
            row.granted, row.lanes = [*row.granted, entry.ends], [*row.lanes, entry.lane]
    elif isinstance(entry, Rebuilt):
        _rebuilt(state, entry)
    elif isinstance(entry, EpochPublished):
        _published(state, entry)
    elif isinstance(entry, Moved):
        for topic, positions in entry.positions.items():
            state.positions.setdefault(topic, {}).update(positions)
    elif isinstance(entry, Dropped):
        for topic, reader in entry.readers:
            state.positions.get(topic, {}).pop(reader, None)
        for processor in entry.processors:
            state.processors.pop(processor, None)
            state.outside.pop(processor, None)
    elif isinstance(entry, Pulled):
        state.outside[entry.processor] = entry.position
        state.published.update(entry.topics)
        commit_number(state, entry.number)
    elif isinstance(entry, Pushed):
        state.outside[entry.processor] = entry.state
        for topic, at in entry.positions.items():
            state.positions.setdefault(topic, {})[entry.processor] = at
    elif isinstance(entry, LettersKept):
        state.replayed.clear()
        state.emptied.update(entry.emptied)
        state.published.update(entry.topics)
        commit_number(state, entry.number)
    else:
        state.replayed.setdefault(entry.processor, set()).update(entry.keys)
        for retry_topic, at in entry.topics.items():
            first = at.off - len(entry.origins)
            state.retried.setdefault(retry_topic, {}).update(enumerate(entry.origins, first))
        state.published.update(entry.topics)
        commit_number(state, entry.number)
    return state


def replayed_state(bodies: Iterable[bytes]) -> LedgerState:
    """The state after entries; those that refer to something unknown are ignored."""
    state = LedgerState()
    for body in bodies:
        with contextlib.suppress(KeyError, msgspec.MsgspecError):
            state = apply(state, decode(body))
    return state


def _claimed(state: LedgerState, entry: ClaimMade) -> None:
    row = state.processors.get(entry.processor)
    if row is None:
        row = ProcessorRow(entry.checkpoint, entry.generation, entry.start, bounds=entry.bounds)
        state.processors[entry.processor] = row
    if (row.checkpoint, row.bounds) != (entry.checkpoint, entry.bounds):
        row.checkpoint, row.epoch, row.recent, row.seen = entry.checkpoint, -1, [], {}
    row.generation, row.start, row.bounds = entry.generation, entry.start, entry.bounds
    row.rewound = {**row.rewound, **entry.rewound}
    if not entry.granted:
        row.granted, row.lanes = [], []


def _rebuilt(state: LedgerState, entry: Rebuilt) -> None:
    for claim in entry.claims:
        _claimed(state, claim)
        row = state.processors[claim.processor]
        row.ends = {}  # nothing is published from the new position yet, and no state is missing
        row.empties = {name: at for name, at in claim.start.items() if entry.emptied.get(name) == at}
    state.emptied.update(entry.emptied)


def _published(state: LedgerState, entry: EpochPublished) -> None:
    row = state.processors[entry.processor]
    row.epoch, row.empties = entry.epoch, {}
    row.granted, row.lanes = row.granted[1:], row.lanes[1:]
    row.ends = {**row.ends, **entry.ends}
    row.recent = [*row.recent, (entry.epoch, entry.ends)][-KEPT_EPOCHS:]
    row.seen = {**row.seen, **{name: max(seen, row.seen.get(name, 0)) for name, seen in entry.seen.items()}}
    for name, places in entry.moved.items():
        member = state.processors[name]
        member.start, member.ends = {**member.start, **places}, {**member.ends, **places}
    for retry_topic in state.retried.keys() & entry.ends.keys():
        waiting = state.retried[retry_topic]
        for offset in [offset for offset in waiting if offset < entry.ends[retry_topic].off]:
            del waiting[offset]
    state.published.update(entry.topics)
    commit_number(state, entry.number)


def committed(state: LedgerState, number: int) -> bool:
    """Whether the publish with this number is in the journal."""
    at = bisect.bisect_right(state.committed, number, key=lambda each: each[0]) - 1
    return at >= 0 and number <= state.committed[at][1]


def commit_number(state: LedgerState, number: int) -> None:
    """Adds a publish to the sorted ranges of committed ones."""
    if committed(state, number):
        return
    ranges = state.committed
    at = bisect.bisect_right(ranges, number, key=lambda each: each[0])
    if at and ranges[at - 1][1] == number - 1:
        ranges[at - 1][1] = number
    else:
        ranges.insert(at, [number, number])
        at += 1
    if at < len(ranges) and ranges[at][0] == ranges[at - 1][1] + 1:
        ranges[at - 1][1] = ranges.pop(at)[1]
