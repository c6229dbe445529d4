"""Compiled loops that give the values of Arrow columns to librdkafka's producer, and choose their partitions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gauss.clients.kafka.library import externals
from gauss.model.jit import compiled

_RKT, _PARTITION, _VALUE, _KEY, _OPAQUE, _FLAGS, _TIMESTAMP, _HEADERS = 2, 3, 4, 5, 6, 7, 8, 10
"""Types of `rd_kafka_vu_t`."""
_VU_WORDS = 9
_COPY = 2
AT_DATA, AT_KEYS, AT_NAMES, AT_VALUES, AT_VUS = range(5)
"""Indexes of `places`."""
NO_TIME = -1


class Columns(NamedTuple):
    """Records to write. `…_ends` has one entry more than there are values; `…_valid` is 0 for a null."""

    places: np.ndarray
    """Addresses of the value buffers, and of `vus`."""
    vus: np.ndarray
    """The arguments of `rd_kafka_produceva`."""
    partitions: np.ndarray
    times: np.ndarray
    """`NO_TIME`: the time of writing."""
    data_ends: np.ndarray
    data_valid: np.ndarray
    key_ends: np.ndarray
    key_valid: np.ndarray
    header_ends: np.ndarray
    name_ends: np.ndarray
    value_ends: np.ndarray
    value_valid: np.ndarray


VUS = 8 * _VU_WORDS


def fixed_arguments(vus: np.ndarray, topic: int) -> None:
    """Writes the arguments that are the same for all records of a topic."""
    for number, kind in enumerate((_RKT, _FLAGS, _PARTITION, _VALUE, _KEY, _OPAQUE, _TIMESTAMP, _HEADERS)):
        vus[number * _VU_WORDS] = kind
    vus[1] = topic
    vus[_VU_WORDS + 1] = _COPY


@functools.cache
def produce_loop() -> Callable[[int, int, int, Columns, np.ndarray], int]:
    """A function of (handle, first record, its number in the write, columns, error) that returns the first record which
    was not taken; `error[0]` is the reason, 0 if all were taken."""
    from numba import types

    externals()
    word = types.intp
    # As globals: see `copy_loop.py`.
    globals().update(
        _produce=types.ExternalFunction("gauss_rd_kafka_produceva", word(word, word, word)),
        _code_of=types.ExternalFunction("gauss_rd_kafka_error_code", types.int32(word)),
        _destroy=types.ExternalFunction("gauss_rd_kafka_error_destroy", types.void(word)),
        _new_headers=types.ExternalFunction("gauss_rd_kafka_headers_new", word(word)),
        _add_header=types.ExternalFunction("gauss_rd_kafka_header_add", types.int32(word, word, word, word, word)),
        _destroy_headers=types.ExternalFunction("gauss_rd_kafka_headers_destroy", types.void(word)),
    )
    return compiled(_loop)


_produce: Any = None
_code_of: Any = None
_destroy: Any = None
_new_headers: Any = None
_add_header: Any = None
_destroy_headers: Any = None


def _loop(handle: int, first: int, number: int, of: Columns, error: np.ndarray) -> int:
    places, vus = of.places, of.vus
    error[0] = 0
    for row in range(first, len(of.partitions)):
        vus[2 * _VU_WORDS + 1] = of.partitions[row]
        start = np.int64(of.data_ends[row])
        vus[3 * _VU_WORDS + 1] = places[AT_DATA] + start if of.data_valid[row] else 0
        vus[3 * _VU_WORDS + 2] = of.data_ends[row + 1] - start if of.data_valid[row] else 0
        start = np.int64(of.key_ends[row])
        vus[4 * _VU_WORDS + 1] = places[AT_KEYS] + start if of.key_valid[row] else 0
        vus[4 * _VU_WORDS + 2] = of.key_ends[row + 1] - start if of.key_valid[row] else 0
        vus[5 * _VU_WORDS + 1] = number + row
        vus[6 * _VU_WORDS + 1] = max(of.times[row], 0)
        arguments = 7
        headers = 0
        if of.header_ends[row + 1] > of.header_ends[row]:
            headers = _new_headers(np.int64(of.header_ends[row + 1] - of.header_ends[row]))
            for each in range(of.header_ends[row], of.header_ends[row + 1]):
                name, value = np.int64(of.name_ends[each]), np.int64(of.value_ends[each])
                _add_header(
                    headers,
                    places[AT_NAMES] + name,
                    of.name_ends[each + 1] - name,
                    places[AT_VALUES] + value if of.value_valid[each] else 0,
                    of.value_ends[each + 1] - value if of.value_valid[each] else 0,
                )
            vus[7 * _VU_WORDS + 1] = headers
            arguments = 8
        failed = _produce(handle, places[AT_VUS], arguments)
        if failed != 0:
            error[0] = _code_of(failed)
            _destroy(failed)
            if headers != 0:
                _destroy_headers(headers)
            return row
    return len(of.partitions)


@functools.cache
def key_hashes() -> Callable[[np.ndarray, np.ndarray, np.ndarray, int, np.ndarray], None]:
    """A function of (key bytes, ends, valid, partitions, result) that writes the partition of each key as Java's
    producer chooses it (murmur2); records without a key keep the result they have."""

    def loop(keys: np.ndarray, ends: np.ndarray, valid: np.ndarray, partitions: int, result: np.ndarray) -> None:
        mask = np.uint64(0xFFFFFFFF)
        m = np.uint64(0x5BD1E995)
        for row in range(len(result)):
            if not valid[row]:
                continue
            start, length = np.int64(ends[row]), np.int64(ends[row + 1]) - np.int64(ends[row])
            h = (np.uint64(0x9747B28C) ^ np.uint64(length)) & mask
            words = length // 4
            for word in range(words):
                at = start + 4 * word
                k = (
                    np.uint64(keys[at])
                    | (np.uint64(keys[at + 1]) << np.uint64(8))
                    | (np.uint64(keys[at + 2]) << np.uint64(16))
                    | (np.uint64(keys[at + 3]) << np.uint64(24))
                )
                k = (k * m) & mask
                k ^= k >> np.uint64(24)
                k = (k * m) & mask
                h = ((h * m) & mask) ^ k
            at = start + 4 * words
            left = length - 4 * words
            if left == 3:
                h ^= np.uint64(keys[at + 2]) << np.uint64(16)
            if left >= 2:
                h ^= np.uint64(keys[at + 1]) << np.uint64(8)
            if left >= 1:
                h ^= np.uint64(keys[at])
                h = (h * m) & mask
            h ^= h >> np.uint64(13)
            h = (h * m) & mask
            h ^= h >> np.uint64(15)
            result[row] = np.int64(h & np.uint64(0x7FFFFFFF)) % partitions

    return compiled(loop)
