"""The compiled loop that copies messages of librdkafka into the buffers of Arrow columns, and frees them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gauss.clients.kafka.library import ERROR, KEY, KEY_LENGTH, LENGTH, OFFSET, PAYLOAD, externals
from gauss.model.jit import compiled

COPIED, FULL, FAILED, DONE, GROW_DATA, GROW_KEYS, GROW_NAMES, GROW_VALUES, GROW_HEADERS = range(9)
"""Results of the loop: all messages are copied; the batch is full; the next message is an error; the range is read to
its end; or the next message needs a larger buffer."""

ROWS, HEADERS, NEXT, POSITION, NEEDED = range(5)
"""Indexes of `state`: rows and headers in the buffers, the next message, the offset to read next, and the bytes that a
buffer must have for the next message."""
AT_DATA, AT_KEYS, AT_NAMES, AT_VALUES, AT_HEAD, AT_CELLS = range(5, 11)
"""Indexes of `state`: addresses of the buffers."""
STATE_WORDS = 11

_EOF = -191


class Buffers(NamedTuple):
    """Columns under construction. `…_ends[i + 1]` is where value i ends; `…_valid` is 0 for a null."""

    state: np.ndarray
    head: np.ndarray
    """A copy of the current message's struct."""
    cells: np.ndarray
    """Results of calls by reference."""
    offsets: np.ndarray
    times: np.ndarray
    data: np.ndarray
    data_ends: np.ndarray
    data_valid: np.ndarray
    keys: np.ndarray
    key_ends: np.ndarray
    key_valid: np.ndarray
    header_ends: np.ndarray
    names: np.ndarray
    name_ends: np.ndarray
    values: np.ndarray
    value_ends: np.ndarray
    value_valid: np.ndarray


Loop = Callable[[np.ndarray, int, int, int, Buffers], int]


@functools.cache
def copy_loop() -> Loop:
    """A function of (messages, their number, end of the range, bytes that make a batch full, buffers)."""
    from numba import types

    externals()
    word = types.intp
    # As globals: numba's cache would take other objects in a closure for another function in each process.
    globals().update(
        _timestamp=types.ExternalFunction("gauss_rd_kafka_message_timestamp", types.int64(word, word)),
        _headers=types.ExternalFunction("gauss_rd_kafka_message_headers", types.int32(word, word)),
        _header=types.ExternalFunction("gauss_rd_kafka_header_get_all", types.int32(word, word, word, word, word)),
        _destroy=types.ExternalFunction("gauss_rd_kafka_message_destroy", types.void(word)),
        _memcpy=types.ExternalFunction("gauss_memcpy", word(word, word, word)),
        _strlen=types.ExternalFunction("gauss_strlen", word(word)),
    )
    return compiled(_loop)


_timestamp: Any = None
_headers: Any = None
_header: Any = None
_destroy: Any = None
_memcpy: Any = None
_strlen: Any = None
"""Functions of the C libraries, set before the loop is compiled."""


def _loop(messages: np.ndarray, count: int, end: int, enough: int, to: Buffers) -> int:
    state, head, cells = to.state, to.head, to.cells
    while state[NEXT] < count:
        message = messages[state[NEXT]]
        _memcpy(state[AT_HEAD], message, 72)
        code = np.int32(head[ERROR] & 0xFFFFFFFF)
        offset = head[OFFSET]
        if code == _EOF:
            _destroy(message)
            state[NEXT] += 1
            state[POSITION] = max(state[POSITION], offset)
            if offset >= end:
                return DONE
            continue
        if code != 0:
            return FAILED
        if offset >= end:
            state[POSITION] = end
            return DONE
        row = state[ROWS]
        if row == len(to.offsets):
            return FULL
        length, key_length = head[LENGTH], head[KEY_LENGTH]
        data_at, key_at = np.int64(to.data_ends[row]), np.int64(to.key_ends[row])
        first_header = state[HEADERS]
        name_at, value_at = np.int64(to.name_ends[first_header]), np.int64(to.value_ends[first_header])
        if data_at + length > len(to.data):
            if row > 0:
                return FULL
            state[NEEDED] = length
            return GROW_DATA
        if key_at + key_length > len(to.keys):
            state[NEEDED] = key_at + key_length
            return GROW_KEYS
        found = first_header
        if _headers(message, state[AT_CELLS]) == 0:
            while (
                _header(cells[0], found - first_header, state[AT_CELLS] + 8, state[AT_CELLS] + 16, state[AT_CELLS] + 24)
                == 0
            ):
                name, value, size = cells[1], cells[2], cells[3]
                name_length = _strlen(name)
                if found == len(to.value_valid):
                    return GROW_HEADERS
                if name_at + name_length > len(to.names):
                    state[NEEDED] = name_at + name_length
                    return GROW_NAMES
                if value_at + size > len(to.values):
                    state[NEEDED] = value_at + size
                    return GROW_VALUES
                _memcpy(state[AT_NAMES] + name_at, name, name_length)
                name_at += name_length
                to.value_valid[found] = value != 0
                if size > 0:
                    _memcpy(state[AT_VALUES] + value_at, value, size)
                    value_at += size
                found += 1
                to.name_ends[found] = name_at
                to.value_ends[found] = value_at
        if row > 0 and data_at + length + key_at + key_length + name_at + value_at > enough:
            return FULL
        to.data_valid[row] = head[PAYLOAD] != 0
        if length > 0:
            _memcpy(state[AT_DATA] + data_at, head[PAYLOAD], length)
        to.key_valid[row] = head[KEY] != 0
        if key_length > 0:
            _memcpy(state[AT_KEYS] + key_at, head[KEY], key_length)
        to.offsets[row] = offset
        to.times[row] = _timestamp(message, state[AT_CELLS])
        to.data_ends[row + 1] = data_at + length
        to.key_ends[row + 1] = key_at + key_length
        to.header_ends[row + 1] = found
        state[HEADERS] = found
        state[ROWS] = row + 1
        state[NEXT] += 1
        state[POSITION] = offset + 1
        _destroy(message)
        if offset + 1 == end:
            return DONE
    return COPIED
