"""Kafka's errors by what a reader or writer can do about them.

GaussError
├── Unavailable            brokers, leader or coordinator do not answer: retry
│   ├── Unclear            the answer to a write was lost: read the position first
│   └── ProducerLost       the handle can't go on: open a new one and read the position
├── Fenced                 a newer writer took the transactional id, or the transaction timed out
├── DiskFull               a broker can't use its disk: retried, but someone must free space
├── RowError               the record itself: refused by the broker
│   └── TooLarge           the batch is larger than its topic allows; carries the number of a record
├── NotFound               no such topic, partition or group
├── Collected
│   └── OffsetOutOfRange   the offset is no longer, or not yet, in the partition; carries the earliest
├── ConfigError            login, permissions, TLS, topic settings: someone must change something
├── ProtocolError          a commit of a group that has other members
├── Rejected               the topic exists already
└── StorageError           everything else
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from gauss.clients.errors import RowError, Unclear
from gauss.model.errors import (
    Collected,
    ConfigError,
    DiskFull,
    Fenced,
    GaussError,
    NotFound,
    ProtocolError,
    Rejected,
    StorageError,
    Unavailable,
)

E = KafkaError
_LOGIN = {E._AUTHENTICATION, E.SASL_AUTHENTICATION_FAILED, E.UNSUPPORTED_SASL_MECHANISM, E.ILLEGAL_SASL_STATE}
_RIGHTS = {
    E.TOPIC_AUTHORIZATION_FAILED: "the topic",
    E.GROUP_AUTHORIZATION_FAILED: "the group",
    E.CLUSTER_AUTHORIZATION_FAILED: "the cluster",
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the transactional id",
}
_CONFIG = {
    *(E.TOPIC_EXCEPTION, E.INVALID_PARTITIONS, E.INVALID_REPLICATION_FACTOR, E.INVALID_REPLICA_ASSIGNMENT),
    *(E.INVALID_CONFIG, E.POLICY_VIOLATION, E.INVALID_TRANSACTION_TIMEOUT, E.INVALID_GROUP_ID, E._INVALID_ARG),
    *(E.UNSUPPORTED_VERSION, E.UNSUPPORTED_COMPRESSION_TYPE, E._UNSUPPORTED_FEATURE, E.SECURITY_DISABLED),
    *(E.TOPIC_DELETION_DISABLED, E.OFFSET_METADATA_TOO_LARGE, E.UNSUPPORTED_FOR_MESSAGE_FORMAT),
}
_UNKNOWN = {
    *(E.UNKNOWN_TOPIC_OR_PART, E._UNKNOWN_TOPIC, E._UNKNOWN_PARTITION, E.UNKNOWN_TOPIC_ID, E.INCONSISTENT_TOPIC_ID),
    *(E.GROUP_ID_NOT_FOUND, E._UNKNOWN_GROUP),
}
TOO_LARGE = {E.MSG_SIZE_TOO_LARGE, E.RECORD_LIST_TOO_LARGE, E.INVALID_MSG_SIZE}
_RECORD = {E.INVALID_RECORD: "refused", E.INVALID_TIMESTAMP: "timestamp"}
_FENCED = {E._FENCED, E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH, E.FENCED_INSTANCE_ID}
_LOST = {
    *(E._FATAL, E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.UNKNOWN_PRODUCER_ID, E.INVALID_PRODUCER_ID_MAPPING),
    *(E.INVALID_TXN_STATE, E._GAPLESS_GUARANTEE, E._STATE, E.TRANSACTION_ABORTABLE),
}
_RANGE = {E.OFFSET_OUT_OF_RANGE, E._AUTO_OFFSET_RESET, E._LOG_TRUNCATION}
_GROUP = {E.ILLEGAL_GENERATION, E.UNKNOWN_MEMBER_ID, E.NON_EMPTY_GROUP, E.STALE_MEMBER_EPOCH, E.FENCED_MEMBER_EPOCH}
_DISK = {E.KAFKA_STORAGE_ERROR, E.LOG_DIR_NOT_FOUND}
_UNCLEAR = {E._MSG_TIMED_OUT, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, E._PURGE_INFLIGHT, E._DESTROY}
_TRANSIENT = {
    *(E._TRANSPORT, E._ALL_BROKERS_DOWN, E._TIMED_OUT, E._RESOLVE, E._QUEUE_FULL, E._TIMED_OUT_QUEUE, E._RETRY),
    *(E._WAIT_COORD, E._IN_PROGRESS, E._PREV_IN_PROGRESS, E._ISR_INSUFF, E._PURGE_QUEUE, E._UNKNOWN_BROKER, E._NOENT),
    *(E.LEADER_NOT_AVAILABLE, E.NOT_LEADER_FOR_PARTITION, E.REQUEST_TIMED_OUT, E.BROKER_NOT_AVAILABLE),
    *(E.REPLICA_NOT_AVAILABLE, E.NETWORK_EXCEPTION, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE),
    *(E.NOT_COORDINATOR, E.NOT_ENOUGH_REPLICAS, E.NOT_CONTROLLER, E.CONCURRENT_TRANSACTIONS),
    *(E.TRANSACTION_COORDINATOR_FENCED, E.OFFSET_NOT_AVAILABLE, E.UNSTABLE_OFFSET_COMMIT),
    *(E.THROTTLING_QUOTA_EXCEEDED, E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH, E.REBALANCE_IN_PROGRESS),
    *(E.STALE_BROKER_EPOCH, E.ELIGIBLE_LEADERS_NOT_AVAILABLE, E.PREFERRED_LEADER_NOT_AVAILABLE),
}
_SOME_BROKERS_DOWN = {E._TRANSPORT, E._ALL_BROKERS_DOWN, E._RESOLVE}


class ProducerLost(Unavailable):
    """A fatal error of a producer: its handle is unusable and its open transaction is aborted."""

    code = "producer_lost"


class TooLarge(RowError):
    """A batch that its topic refuses because of its size. `number`: the first record in it, counted by its producer."""

    number = 0


class OffsetOutOfRange(Collected):
    """A read began outside of the partition. `earliest` and `end` are its bounds now, -1 if unknown."""

    code = "offset_out_of_range"

    def __init__(self, message: str, *, offset: int = -1, earliest: int = -1, end: int = -1, hint: str = "") -> None:
        super().__init__(
            message, hint=hint or "read on from the earliest offset, and count the records between as lost"
        )
        self.offset, self.earliest, self.end = offset, earliest, end


def sort_error(error: KafkaError | KafkaException, subject: str = "") -> GaussError:
    """The error as one of those above. `subject` names the topic, group or transactional id."""
    found = error.args[0] if isinstance(error, KafkaException) and error.args else error
    if not isinstance(found, KafkaError):
        return StorageError(_sentence(str(found), "", subject), hint="see the brokers' log")
    return from_code(found.code(), found.str(), subject, fatal=found.fatal())


def from_code(code: int, text: str = "", subject: str = "", *, fatal: bool = False) -> GaussError:
    """The same for a code of librdkafka or of a broker, with its text if there is one."""
    error = KafkaError(code)
    message = _sentence(text or error.str(), error.name(), subject)
    if code in _FENCED:
        hint = "another writer uses this transactional id, or the transaction was open for longer than its timeout"
        return Fenced(message, hint=f"{hint}: open a new writer and read its position before writing on")
    if code in _LOGIN:
        return ConfigError(message, hint="check security_protocol, sasl_mechanism, username and password")
    if code == E._SSL:
        return ConfigError(message, hint="check security_protocol, ca_file, certificate_file and private_key_file")
    if code in _RIGHTS:
        return ConfigError(message, hint=f"grant the user the right to {_RIGHTS[code]} with Kafka's ACLs")
    if fatal or code in _LOST:
        return ProducerLost(message, hint="open a new writer and read its position before writing on")
    if code in _UNKNOWN:
        return NotFound(message, hint="check the name, or let Gauss create the topic with create = true")
    if code in TOO_LARGE:
        return TooLarge(message, reason="too_large", hint="raise max.message.bytes of the topic")
    if code in _RECORD:
        return RowError(message, reason=_RECORD[code])
    if code in _RANGE:
        return OffsetOutOfRange(message)
    if code in _GROUP:
        return ProtocolError(message, hint="the group has members that Gauss does not know: use a group of its own")
    if code == E.TOPIC_ALREADY_EXISTS:
        return Rejected(message, hint="choose another name, or use the topic as it is")
    if code in _DISK:
        return DiskFull(message, hint="check the disks of the brokers: they may be full; it is retried")
    if code in _CONFIG:
        return ConfigError(message, hint="check the settings of the topic and of the connection")
    if code in _UNCLEAR:
        return Unclear(message, hint="the records may have been written: read the position before writing them again")
    if code in _SOME_BROKERS_DOWN:
        return Unavailable(message, hint="check that the brokers are up, and their addresses; it is retried")
    if code in _TRANSIENT or error.retriable():
        return Unavailable(message, hint="it is retried")
    return StorageError(message, hint="see the brokers' log")


def _sentence(text: str, name: str, subject: str) -> str:
    text = text.removeprefix("Broker: ").removeprefix("Local: ").rstrip(".") or "unknown error"
    return "".join(["Kafka: ", f"{subject}: " if subject else "", text, f" ({name})" if name else ""])


@contextmanager
def sorted_errors(subject: str = "") -> Iterator[None]:
    """Converts errors of the library by `sort_error`."""
    try:
        yield
    except KafkaException as error:
        raise sort_error(error, subject) from error


class ConnectionErrors:
    """The last error of a client's connections. A request does not say why it found no broker; this does."""

    def __init__(self) -> None:
        self._last: tuple[int, str] | None = None

    def note(self, code: int, text: str) -> None:
        if code != E._ALL_BROKERS_DOWN or self._last is None:  # which follows the reason
            self._last = code, text

    def on_error(self, error: KafkaError) -> None:
        """For `error_cb` of the Python clients."""
        self.note(error.code(), error.str())

    def clear(self) -> None:
        self._last = None

    def refused(self) -> GaussError | None:
        """Why no retry helps, so that nothing needs to wait for a timeout: the brokers do not let this client in, or
        there is no such topic."""
        found = from_code(*self._last) if self._last else None
        return found if isinstance(found, ConfigError | NotFound) else None

    def instead_of(self, error: GaussError) -> GaussError:
        """The reason of a request that timed out, if it is known."""
        if self._last is None or not isinstance(error, Unavailable) or isinstance(error, ProducerLost):
            return error
        found = from_code(*self._last)
        return type(error)(f"{error.message}: {found.message.removeprefix('Kafka: ')}", hint=found.hint)
