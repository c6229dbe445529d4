"""Changes of one layout as rows: what happened, and the text of each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.postgres import pgoutput
from gauss.contracts.connector.stream import Operation
from gauss.plugins.connectors.postgres.source_change_walk import NULL, UNCHANGED, Tuples, locate_tuples
from gauss.plugins.connectors.postgres.source_decode import Pieces, slices

OPERATIONS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
_INSERT, _UPDATE, _DELETE = range(3)


class Layout(NamedTuple):
    """How the tuples of a relation are laid out."""

    width: int
    places: tuple[int | None, ...]
    """By column of the stream: its place in a tuple. None: the relation did not have it then."""
    key: tuple[int, ...]
    """The columns of the stream that a delete has values of."""


@dataclass(frozen=True)
class ChangeRows:
    """Rows in their order."""

    operations: np.ndarray
    """Indexes of OPERATIONS."""
    columns: list[pa.Array]
    """Text as binary values."""
    unchanged: list[np.ndarray]
    """By column: in which rows the value was not sent, since the change has left it as it was."""
    sizes: np.ndarray
    """Bytes of the messages."""

    def __len__(self) -> int:
        return len(self.operations)

    def part(self, start: int, stop: int) -> ChangeRows:
        return ChangeRows(
            self.operations[start:stop],
            [each[start:stop] for each in self.columns],
            [each[start:stop] for each in self.unchanged],
            self.sizes[start:stop],
        )


def change_rows(body: np.ndarray, places: np.ndarray, ends: np.ndarray, layout: Layout) -> ChangeRows:
    """The rows of messages: an update that changes the key is a delete of the old key and an insert."""
    found, kinds = locate_tuples(body, places, ends, layout.width), body[places]
    moved = _moved(body, found, kinds, layout)
    which = np.repeat(np.arange(len(places)), 1 + moved)
    first = np.concatenate([[True], which[1:] != which[:-1]]) if len(which) else np.zeros(0, bool)
    deleted = (kinds[which] == pgoutput.DELETE) | (moved[which] & first)
    updated = (kinds[which] == pgoutput.UPDATE) & ~moved[which]
    operations = np.where(deleted, _DELETE, np.where(updated, _UPDATE, _INSERT))
    columns, unchanged = [], []
    for number, place in enumerate(layout.places):
        if place is None:
            columns.append(pa.nulls(len(which), pa.binary()))
            unchanged.append(np.zeros(len(which), bool))
            continue
        in_key = number in layout.key
        new, old = found.new_lengths[which, place], found.old_lengths[which, place]
        unsent = ~deleted & (new == UNCHANGED)
        # The old row has all values, the old key those of its columns.
        held = unsent & ((found.old[which] == pgoutput.OLD_TUPLE) | (in_key & (found.old[which] > 0)))
        # The old tuple comes first in a message: places ascend with the rows.
        starts = np.where(deleted | held, found.old_starts[which, place], found.new_starts[which, place])
        lengths = np.where(deleted, old if in_key else NULL, np.where(held, old, np.maximum(new, NULL)))
        columns.append(slices(Pieces(body, starts, lengths)))
        unchanged.append(unsent & ~held)
    return ChangeRows(operations, columns, unchanged, (ends - places)[which])


def _moved(body: np.ndarray, found: Tuples, kinds: np.ndarray, layout: Layout) -> np.ndarray:
    """Which messages are updates that change the key."""
    moved = np.zeros(len(kinds), bool)
    both = np.flatnonzero((kinds == pgoutput.UPDATE) & (found.old > 0))
    for number in layout.key if len(both) else ():
        place = layout.places[number]
        if place is None:
            continue
        new = slices(Pieces(body, found.new_starts[both, place], found.new_lengths[both, place]))
        old = slices(Pieces(body, found.old_starts[both, place], found.old_lengths[both, place]))
        moved[both] |= _differ(old, new) & (found.new_lengths[both, place] != UNCHANGED)
    return moved


def _differ(old: pa.Array, new: pa.Array) -> np.ndarray:
    same = pc.fill_null(pc.equal(old, new), False)
    both_null = pc.and_(pc.is_null(old), pc.is_null(new))
    found: np.ndarray = pc.invert(pc.or_(same, both_null)).to_numpy(zero_copy_only=False)
    return found


def layout_of(message: pgoutput.RelationMessage, columns: Sequence[str], key: Sequence[str]) -> Layout:
    """How the columns of a stream lie in the tuples behind a relation message."""
    places = {name: place for place, name in enumerate(message.columns)}
    numbers = {name: number for number, name in enumerate(columns)}
    return Layout(
        len(message.columns), tuple(places.get(name) for name in columns), tuple(numbers[name] for name in key)
    )
