"""Finds the values of inserts, updates and deletes in messages of pgoutput, without a Python object per change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gauss.clients.postgres import pgoutput
from gauss.contracts.connector.errors import ConnectorError
from gauss.plugins.formats.walk_function import WalkFunction

NULL, UNCHANGED = -1, -2
"""Lengths of a value that is null, and of a TOAST value that was not changed and hence not sent."""


class ChangeWalk(NamedTuple):
    """The argument of `walk_changes`."""

    data: np.ndarray | bytes
    """Signed bytes for machine code, in which unsigned ones would become floats; hence `& 255`."""
    places: np.ndarray | list[int]
    """By message: where it begins."""
    ends: np.ndarray | list[int]
    width: int
    """Columns of a tuple."""
    new_starts: np.ndarray
    """By message and column: where the value of the new row begins."""
    new_lengths: np.ndarray
    old_starts: np.ndarray
    old_lengths: np.ndarray
    old: np.ndarray
    """By message: `K` if it has the old key, `O` if it has the old row, else 0."""
    odd: np.ndarray
    """By message: whether it is malformed."""


def walk_changes(batch: ChangeWalk) -> None:
    """Fills everything but `data`, `places` and `ends`."""
    data, width = batch.data, batch.width
    for message in range(len(batch.places)):
        position, end = batch.places[message] + 5, batch.ends[message]
        while position < end:
            part = data[position] & 255
            fits = end - position >= 3 and ((data[position + 1] & 255) << 8 | (data[position + 2] & 255)) == width
            position += 3
            if part != 78:  # N
                batch.old[message] = part
            for place in range(message * width, (message + 1) * width if fits else message * width):
                length = -1
                kind = data[position] & 255 if position < end else 0
                position += 1
                if kind == 117:  # u
                    length = -2
                elif kind == 116 and end - position >= 4:  # t
                    length = (data[position] & 255) << 24 | (data[position + 1] & 255) << 16
                    length |= (data[position + 2] & 255) << 8 | (data[position + 3] & 255)
                    position += 4
                elif kind != 110:  # n
                    fits = False
                if position + length > end:
                    fits, length = False, -1
                if part == 78:
                    batch.new_starts[place] = position
                    batch.new_lengths[place] = length
                else:
                    batch.old_starts[place] = position
                    batch.old_lengths[place] = length
                if length > 0:
                    position += length
            if not fits:
                batch.odd[message] = True
                position = end


WALK = WalkFunction(walk_changes)


class Tuples(NamedTuple):
    """The old and new tuples of messages, in arrays of messages by columns."""

    new_starts: np.ndarray
    new_lengths: np.ndarray
    old_starts: np.ndarray
    old_lengths: np.ndarray
    old: np.ndarray


def locate_tuples(body: np.ndarray, places: np.ndarray, ends: np.ndarray, width: int) -> Tuples:
    """Where the values of messages lie; raises ConnectorError for messages that can't be read."""
    count = len(places)
    new = np.zeros(count * width, np.int64), np.full(count * width, NULL, np.int64)
    before = np.zeros(count * width, np.int64), np.full(count * width, NULL, np.int64)
    old, odd = np.zeros(count, np.int64), np.zeros(count, bool)
    function, compiled = WALK.ready(count, int(ends[-1] - places[0]) if count else 0)
    if compiled:
        data = body.view(np.int8)
        data.flags.writeable = False  # always: machine code is compiled anew for writable arrays
        function(ChangeWalk(data, places, ends, width, *new, *before, old, odd))
    else:
        function(ChangeWalk(body.tobytes(), places.tolist(), ends.tolist(), width, *new, *before, old, odd))
    # Places of values are behind the head of a message.
    without_new = (new[0].reshape(count, width) == 0).all(axis=1)
    odd |= np.where(body[places] == pgoutput.DELETE, old == 0, without_new)
    if odd.any():
        raise ConnectorError.internal(
            "BAD_PGOUTPUT",
            f"Postgres sent a change that does not have {width} columns",
            hint="check for a proxy between Gauss and Postgres that changes the data",
        )
    return Tuples(
        new[0].reshape(count, width),
        new[1].reshape(count, width),
        before[0].reshape(count, width),
        before[1].reshape(count, width),
        old,
    )
