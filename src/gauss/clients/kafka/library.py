"""librdkafka by ctypes: the C library that confluent-kafka ships, for batches without a Python object per record.

Compiled loops call its functions by address (`external`), everything else calls them through `lib()`.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any

import confluent_kafka.cimpl

from gauss.clients.kafka.errors import ConnectionErrors
from gauss.model.errors import ConfigError

PRODUCER, CONSUMER = 0, 1
ERROR, LENGTH = 0, 4
"""Places in `rd_kafka_message_t` as 8-byte words; the error is the lower half of its word."""
PAYLOAD, KEY, KEY_LENGTH, OFFSET, OPAQUE = 3, 5, 6, 7, 8
MESSAGE_WORDS = 9
_NO_CONSUMER_CLOSE = 8
_TEXT_BYTES = 512

_ERROR_CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
_FAILED_CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, POINTER(c_int64), c_void_p)

_TEXT = (c_char_p, c_size_t)
_SIGNATURES: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_conf_new": (c_void_p, ()),
    "rd_kafka_conf_set": (c_int, (c_void_p, c_char_p, c_char_p, *_TEXT)),
    "rd_kafka_conf_destroy": (None, (c_void_p,)),
    "rd_kafka_conf_set_error_cb": (None, (c_void_p, _ERROR_CALLBACK)),
    "rd_kafka_conf_set_log_cb": (None, (c_void_p, c_void_p)),
    "rd_kafka_conf_set_dr_msg_cb": (None, (c_void_p, _FAILED_CALLBACK)),
    "rd_kafka_new": (c_void_p, (c_int, c_void_p, *_TEXT)),
    "rd_kafka_destroy_flags": (None, (c_void_p, c_int)),
    "rd_kafka_poll": (c_int, (c_void_p, c_int)),
    "rd_kafka_fatal_error": (c_int, (c_void_p, *_TEXT)),
    "rd_kafka_poll_set_consumer": (c_int, (c_void_p,)),
    "rd_kafka_queue_get_consumer": (c_void_p, (c_void_p,)),
    "rd_kafka_queue_get_partition": (c_void_p, (c_void_p, c_char_p, c_int32)),
    "rd_kafka_queue_forward": (None, (c_void_p, c_void_p)),
    "rd_kafka_incremental_assign": (c_void_p, (c_void_p, c_void_p)),
    "rd_kafka_incremental_unassign": (c_void_p, (c_void_p, c_void_p)),
    "rd_kafka_queue_destroy": (None, (c_void_p,)),
    "rd_kafka_consume_batch_queue": (c_int64, (c_void_p, c_int, c_void_p, c_size_t)),
    "rd_kafka_message_errstr": (c_char_p, (c_void_p,)),
    "rd_kafka_message_destroy": (None, (c_void_p,)),
    "rd_kafka_query_watermark_offsets": (
        c_int,
        (c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64), c_int),
    ),
    "rd_kafka_topic_partition_list_new": (c_void_p, (c_int,)),
    "rd_kafka_topic_partition_list_add": (c_void_p, (c_void_p, c_char_p, c_int32)),
    "rd_kafka_topic_partition_list_destroy": (None, (c_void_p,)),
    "rd_kafka_assign": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_topic_new": (c_void_p, (c_void_p, c_char_p, c_void_p)),
    "rd_kafka_topic_destroy": (None, (c_void_p,)),
    "rd_kafka_last_error": (c_int, ()),
    "rd_kafka_flush": (c_int, (c_void_p, c_int)),
    "rd_kafka_purge": (c_int, (c_void_p, c_int)),
    "rd_kafka_init_transactions": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_begin_transaction": (c_void_p, (c_void_p,)),
    "rd_kafka_send_offsets_to_transaction": (c_void_p, (c_void_p, c_void_p, c_void_p, c_int)),
    "rd_kafka_commit_transaction": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_abort_transaction": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_consumer_group_metadata_new": (c_void_p, (c_char_p,)),
    "rd_kafka_consumer_group_metadata_destroy": (None, (c_void_p,)),
    "rd_kafka_error_code": (c_int, (c_void_p,)),
    "rd_kafka_error_string": (c_char_p, (c_void_p,)),
    "rd_kafka_error_is_fatal": (c_int, (c_void_p,)),
    "rd_kafka_error_is_retriable": (c_int, (c_void_p,)),
    "rd_kafka_error_txn_requires_abort": (c_int, (c_void_p,)),
    "rd_kafka_error_destroy": (None, (c_void_p,)),
}
_IN_LOOPS = (
    *("rd_kafka_message_timestamp", "rd_kafka_message_headers", "rd_kafka_header_get_all", "rd_kafka_message_destroy"),
    *("rd_kafka_produceva", "rd_kafka_error_code", "rd_kafka_error_destroy"),
    *("rd_kafka_headers_new", "rd_kafka_header_add", "rd_kafka_headers_destroy"),
)


@functools.cache
def lib() -> ctypes.CDLL:
    """The library, with the signatures of the functions used here."""
    # The extension links the library under a name that changes with every release.
    found = ctypes.CDLL(confluent_kafka.cimpl.__file__)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


@functools.cache
def externals() -> None:
    """Makes the functions that compiled loops call known to numba's linker, under names of our own so that a loop from
    numba's cache finds them in every process."""
    import llvmlite.binding  # type: ignore[import-untyped]

    found = ctypes.CDLL(confluent_kafka.cimpl.__file__)
    for library, names in ((found, _IN_LOOPS), (ctypes.CDLL(None), ("memcpy", "strlen"))):
        for name in names:
            llvmlite.binding.add_symbol(f"gauss_{name}", ctypes.cast(getattr(library, name), c_void_p).value)


FailedRecord = Callable[[int, int], None]
"""Called with the error code and the opaque number of a record that was not delivered."""


_abandoned: list[Handle] = []


class Handle:
    """A client of librdkafka. Belongs to the process that made it: its threads do not survive a fork."""

    def __init__(self, kind: int, conf: Mapping[str, str], on_failed: FailedRecord | None = None) -> None:
        self.errors = ConnectionErrors()
        # Kept here, since the library calls them as long as the handle lives. Neither raises.
        self._on_error = _ERROR_CALLBACK(self._note_error)
        self._on_failed = _FAILED_CALLBACK(
            lambda _, message, __: (
                on_failed(ctypes.c_int32(message[ERROR]).value, message[OPAQUE] or 0) if on_failed else None
            )
        )
        library, text = lib(), ctypes.create_string_buffer(_TEXT_BYTES)
        made = library.rd_kafka_conf_new()
        for name, value in conf.items():
            if library.rd_kafka_conf_set(made, name.encode(), value.encode(), text, _TEXT_BYTES):
                library.rd_kafka_conf_destroy(made)
                raise ConfigError(f"Kafka: {_decoded(text.value)}", hint="check the settings of the connection")
        library.rd_kafka_conf_set_error_cb(made, self._on_error)
        library.rd_kafka_conf_set_log_cb(made, None)  # the errors are raised
        if on_failed:
            library.rd_kafka_conf_set_dr_msg_cb(made, self._on_failed)
        self.pointer: int = library.rd_kafka_new(kind, made, text, _TEXT_BYTES) or 0
        if not self.pointer:
            library.rd_kafka_conf_destroy(made)
            raise ConfigError(
                f"Kafka: {_decoded(text.value)}", hint="check ca_file, certificate_file, private_key_file and brokers"
            )

    def _note_error(self, _handle: int, code: int, reason: bytes, _opaque: int) -> None:
        self.errors.note(code, _decoded(reason or b""))

    def fatal(self) -> tuple[int, str]:
        """Code and text of the error that made the handle unusable; code 0 if there is none."""
        if not self.pointer:
            return 0, ""
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        return lib().rd_kafka_fatal_error(self.pointer, text, _TEXT_BYTES), _decoded(text.value)

    def abandon(self) -> None:
        """Leaves the handle, its threads and its callbacks behind, for a call that does not return."""
        self.pointer = 0
        _abandoned.append(self)

    def close(self) -> None:
        """Ends the handle and its threads. Idempotent."""
        pointer, self.pointer = self.pointer, 0
        if pointer:
            lib().rd_kafka_destroy_flags(pointer, _NO_CONSUMER_CLOSE)


def _decoded(text: bytes) -> str:
    return text.decode(errors="replace")


class PartitionList:
    """A `rd_kafka_topic_partition_list_t` for the length of a `with` block."""

    def __init__(self) -> None:
        self.pointer = lib().rd_kafka_topic_partition_list_new(1)

    def add(self, topic: str, partition: int, offset: int, metadata: bytes = b"") -> None:
        entry = lib().rd_kafka_topic_partition_list_add(self.pointer, topic.encode(), partition)
        words = ctypes.cast(entry, POINTER(c_int64))
        words[2] = offset
        if metadata:
            libc = ctypes.CDLL(None)
            libc.malloc.restype, libc.malloc.argtypes = c_void_p, (c_size_t,)
            # Freed by the list. With a null byte that counts: the library copies as many bytes, and then sends the copy
            # up to the null byte.
            copy, size = libc.malloc(len(metadata) + 1), len(metadata) + 1
            ctypes.memmove(copy, metadata + b"\0", size)
            words[3], words[4] = copy, size

    def __enter__(self) -> PartitionList:
        return self

    def __exit__(self, *_: object) -> None:
        lib().rd_kafka_topic_partition_list_destroy(self.pointer)
