"""Writes epochs to a Kafka topic, one transaction each, which also has the epoch's name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.errors import TooLarge
from gauss.clients.kafka.outgoing import Partitioning
from gauss.clients.kafka.producer import BATCH_BYTES, batch_bytes
from gauss.clients.kafka.transaction import TransactionalProducer
from gauss.contracts.shared_log import LaneTaken, Refused
from gauss.model.errors import ConfigError, Fenced, StorageError
from gauss.plugins.storages.kafka.spec import WITHOUT_TRANSACTIONS, KafkaTopicConfig
from gauss.plugins.storages.kafka.too_large import Fitting

_MOST_OTHERS = 8
"""Data directories whose last epoch is remembered beside that of the last writer."""
_LIMIT = "limit"
"""Key of `Fitting.limit` beside the name of an epoch: what was left out of it is known when it is repeated."""


class LaneOwner(NamedTuple):
    """A data directory that writes to a lane, and the start of its run in Unix ms."""

    writer: str
    since_ms: int


class LanePosition(NamedTuple):
    """What a lane's last transaction has committed: the metadata of a group's offset, which is a running number."""

    number: int = 0
    owner: LaneOwner | None = None
    names: Mapping[str, Mapping[str, Any] | None] = {}
    """By data directory the name of its last epoch, that of the owner last."""

    def named(self, owner: LaneOwner, name: Mapping[str, Any] | None) -> LanePosition:
        """The next position, of an epoch with the given name."""
        others = {writer: found for writer, found in self.names.items() if writer != owner.writer}
        kept = dict(list(others.items())[-_MOST_OTHERS:])
        return LanePosition(self.number + 1, owner, {**kept, owner.writer: name})

    def metadata(self) -> dict[str, Any]:
        assert self.owner is not None
        return {"writer": self.owner.writer, "since": self.owner.since_ms, "epochs": self.names}


class KafkaLane:
    """A `LaneWriter`. The group of the position has the name of the transactional id.

    A run with another data directory may write with the same id. The one that started last goes on: it notes itself in
    the position as it opens the lane. The other one, fenced by that, finds the note and does not open the lane again,
    which would fence its rival.
    """

    def __init__(
        self,
        config: KafkaTopicConfig,
        admin: Admin,
        topic: str,
        partitions: Callable[[], int],
        lane: str,
        *,
        owner: LaneOwner,
    ) -> None:
        self._config, self._admin, self._topic, self._lane, self._owner = config, admin, topic, lane, owner
        self._partitions = partitions
        try:
            self._refuse_taken(self._read(wait=False))
            self._open()
            self._claim()
        except ConfigError as error:
            raise ConfigError(error.message, hint=WITHOUT_TRANSACTIONS) from error

    def _claim(self) -> None:
        """Reads the position, and notes the owner in it if that is another one."""
        try:
            self._position = self._read(wait=True)  # asked once: nobody else commits to this lane while it is open
            self._refuse_taken(self._position)
            if self._position.owner is None or self._position.owner.writer != self._owner.writer:
                self._producer.begin()
                self._commit(self._position.named(self._owner, self._last()))
        except BaseException:
            self.close()
            raise

    def _open(self, most_bytes: int = BATCH_BYTES) -> None:
        config = self._config
        self._partitioning = Partitioning(self._partitions(), by_key=config.partition_by == "key")
        self._producer = TransactionalProducer(
            config,
            self._lane,
            timeout_ms=config.transaction_timeout,
            compression=config.compression,
            batch_bytes=min(most_bytes, batch_bytes(self._admin.max_batch_bytes(self._topic))),
        )
        self._producer.on_wait = self._partitions

    def _reopen(self, most_bytes: int = BATCH_BYTES) -> None:
        """Opens a new producer, unless another writer has committed to the lane: that one would be fenced. One that has
        not is fenced, opens the lane again and finds what is written here."""
        self._producer.close()
        self._refuse_moved(self._read(wait=False))
        self._open(most_bytes)
        self._refuse_moved(self._read(wait=True))

    def _refuse_moved(self, found: LanePosition) -> None:
        """Raises if the position is not the one that was committed here."""
        self._refuse_taken(found)
        if found.number != self._position.number:
            raise Fenced(
                f"Kafka: transactional id {self._lane}: another writer has committed since this one",
                hint="open a new writer and read its position before writing on",
            )

    def _read(self, *, wait: bool) -> LanePosition:
        """The position of the lane. `wait`: for a transaction of a predecessor that is about to end."""
        found = self._admin.committed(self._lane, self._topic, [0], wait=wait).get(0)
        if found is None:
            return LanePosition()
        try:
            kept = json.loads(found.metadata)
            return LanePosition(found.offset, LaneOwner(str(kept["writer"]), int(kept["since"])), kept["epochs"])
        except (ValueError, KeyError, TypeError):
            raise StorageError(
                f"Kafka: group {self._lane} has the offset {found.offset} without the name of an epoch, which another"
                " tool must have set",
                hint="delete the group: what the engine knows of the lane is then used",
            ) from None

    def _refuse_taken(self, found: LanePosition) -> None:
        rival, own = found.owner, self._owner
        if rival is None or rival.writer == own.writer or (rival.since_ms, rival.writer) < (own.since_ms, own.writer):
            return
        since = datetime.fromtimestamp(rival.since_ms / 1000, UTC)
        raise LaneTaken(
            f"fenced: another run, with another data directory, started at {since:%Y-%m-%d %H:%M:%S} UTC, writes with"
            f" the transactional id {self._lane}: give this processor another name, or stop that run and start this one"
            " again",
            hint=f"if that run is gone for good, delete the consumer group {self._lane}",
        )

    def _last(self) -> Mapping[str, Any] | None:
        """The last epoch of this data directory: its name and, if records were left out, the limit."""
        return self._position.names.get(self._owner.writer)

    def committed(self) -> Mapping[str, Any] | None:
        found = self._last()
        return found and {key: value for key, value in found.items() if key != _LIMIT}

    def write(self, batches: Sequence[pa.RecordBatch], name: Mapping[str, Any], refused: Refused) -> None:
        count = self._partitions()
        if count != self._partitioning.partitions:  # an open producer would learn of new ones minutes later
            self._reopen()
        fitting = Fitting(batches, self._config.compression)
        while True:
            first, most = self._producer.written, self._producer.batch_bytes
            try:
                self._write(fitting, name)
                return
            except TooLarge as error:
                large = fitting.refuse(error.number - first, most)
                if not large and most == 1:
                    raise
            for each in large:
                refused(each)
            self._reopen(most if large else max(1, most // 2))

    def _write(self, fitting: Fitting, name: Mapping[str, Any]) -> None:
        self._producer.begin()
        for batch in fitting.batches:
            self._producer.write(self._topic, batch, self._partitioning)
        limit = {} if fitting.limit is None else {_LIMIT: fitting.limit}
        self._commit(self._position.named(self._owner, {**name, **limit}))

    def repeat(self, batches: Sequence[pa.RecordBatch], refused: Refused) -> None:
        limit = (self._last() or {}).get(_LIMIT)
        if limit is not None:
            for each in Fitting(batches, self._config.compression).leave_out(limit):
                refused(each)

    def _commit(self, position: LanePosition) -> None:
        self._producer.position(self._lane, self._topic, 0, position.number, position.metadata())
        self._producer.commit()
        self._position = position

    def close(self) -> None:
        self._producer.close()
