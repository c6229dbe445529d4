"""Records that a source pulls into a topic of an outside system: one transaction of it has them and the position."""

from __future__ import annotations

import hashlib
import logging
import threading
from typing import Any, cast

import msgspec
import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.contracts.shared_log import LaneWriter, SharedLog
from gauss.model.errors import Unavailable
from gauss.stream.engine.journal.entries import Pulled
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.log_topic import LogTopic

RETRY_SECONDS = 0.5
MOST_POSITION_BYTES = 256
"""Size up to which a position is kept in transactions; a system may allow 4 KiB for all that it keeps of a lane."""

log = logging.getLogger(__name__)


class OutsidePull:
    """Publishes for one source. The journal follows the transaction: if the engine dies in between, the next one takes
    the position from the transaction."""

    def __init__(self, source: str, topic: LogTopic, ledger: Ledger, since_ms: int) -> None:
        self._source, self._topic, self._ledger, self._since_ms = source, topic, ledger, since_ms
        self._log = cast(SharedLog, topic.log)
        self._lane: LaneWriter | None = None

    def position(self) -> Any:
        """The position behind the last committed records."""
        self._lane = self._log.lane(self._source, self._since_ms)
        noted, found = self._ledger.outside(self._source), self._lane.committed()
        if found is None or found.get("after") != _digest(noted) or "position" not in found:
            return noted
        if found["position"] != noted:
            log.info("%s: the last transaction in topic %s was not noted here", self._source, self._topic.name)
            self._note(found["position"])
        return found["position"]

    def publish(self, chunk: Chunk | None, position: Any, cancel: threading.Event) -> None:
        """Commits records and position together."""
        if chunk is not None:
            name = {"after": _digest(self._ledger.outside(self._source))}
            if len(msgspec.json.encode(position)) <= MOST_POSITION_BYTES:
                name["position"] = position
            refused = self._write(chunk, name, cancel)
            self._topic.counters.records_in += chunk.count - refused
            self._topic.counters.bytes_in += chunk.nbytes
        self._note(position)

    def _write(self, chunk: Chunk, name: dict[str, Any], cancel: threading.Event) -> int:
        """Commits the records, once. Tries again until it is clear whether they are committed. Returns the number of
        those that are too large, which are dead letters before the others are committed."""
        batch, refused = self._log.written(chunk), 0

        def bury(records: pa.RecordBatch) -> None:
            nonlocal refused
            refused += records.num_rows
            self._topic.refused(records)

        while True:
            try:
                if self._lane is None:
                    self._lane = self._log.lane(self._source, self._since_ms)
                    if self._lane.committed() == name:
                        return refused
                refused = 0
                self._lane.write([batch], name, bury)
                return refused
            except Unavailable as error:
                self.close()
                log.warning("%s: topic %s: %s; it is tried again", self._source, self._topic.name, error.message)
                if cancel.wait(RETRY_SECONDS):
                    raise
            except BaseException:
                self.close()
                raise

    def _note(self, position: Any) -> None:
        number = self._ledger.next_number()
        self._ledger.commit(Pulled(number, self._source, position, {}), sync=True)

    def close(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.close()


def _digest(position: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(position, order="sorted")).hexdigest()[:32]
