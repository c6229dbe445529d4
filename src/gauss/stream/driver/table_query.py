"""The query that empties a table topic's inbox: makes the table, then inserts what waits, range by range."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from pathlib import Path

import msgspec

from gauss.config.spec import SourceRef
from gauss.contracts.table import INC_COLUMN, OFFSET_COLUMN, Emptying
from gauss.stream.child import assignment
from gauss.stream.driver import compile as compiling
from gauss.stream.driver.checkpoint import write_whole
from gauss.stream.driver.plan import ReadPlan, TableWork, WritePlan
from gauss.stream.driver.queries import Query, State
from gauss.stream.engine.dead import RETRY_PREFIX
from gauss.stream.protocol import At, Claimed, Ends
from gauss.stream.tables import TableTopic, table_topic

LOOK_S = 0.5
LOCAL_SETTLE_S = 5.0
CLUSTER_SETTLE_S = 150.0
"""Spark takes an executor for lost after 120 s; until then it may still insert."""


class TableQuery(Query):
    """A hosted query without a target. A server that is away is waited for, however long."""

    skips_whole = True
    _emptying: tuple[int, Future[None]] | None = None
    """The removal of rows that a claim's generation asked for."""

    @property
    def runs(self) -> str:
        return "hosted"

    @property
    def _targets(self) -> list[str]:
        return []

    @property
    def _sources(self) -> list[SourceRef]:
        assert self.processor.source is not None
        return [self.processor.source]

    def _loads(self) -> bool:
        return False

    def _start(self) -> None:
        context = self.context
        topic = self._table()
        try:
            lacking = topic.store.prepare(topic.target)
        finally:
            topic.store.close()
        if self._claimed is None:
            self._claimed = self._claim(stateful=False)
        if not self._is_emptied(self._claimed):
            return
        section = context.pipeline.spark
        config = topic.config
        read = ReadPlan(
            flight=context.flight,
            processor=self.name,
            generation=self._claimed.generation,
            start=self._claimed.start,
            hosted=True,
            # Side by side, unless later rows replace earlier ones.
            tasks=1 if topic.store.ordered else context.session.sparkContext.defaultParallelism,
            max_rows=max(section.max_batch_rows, config.insert_batch_size),
            max_bytes=section.max_batch_bytes,
            target_ms=max(section.target_batch_ms, config.flush_interval),
            min_rows=config.insert_batch_size,
            flush_ms=config.flush_interval,
        )
        work = TableWork(
            read=read,
            data_dir=str(context.data_dir.root),
            topic=topic.name,
            lacking=lacking,
            unclear_epoch=self._claimed.epoch + 1,
            rewound=self._rewound(),
            settle_s=self._settle_s,
        )
        write = WritePlan(
            flight=context.flight,
            processor=self.name,
            generation=self._claimed.generation,
            checkpoint=self._identity,
            checkpoint_dir=str(self.checkpoint.spark),
            target="",
            table=work,
        )
        self.checkpoint.mark_started()
        self._running = compiling.start_table(context.session, read, write)
        unmarked = config.exactly_once and OFFSET_COLUMN in lacking
        self._began(f"at least once: the table has no {INC_COLUMN} and {OFFSET_COLUMN}" if unmarked else "")

    def _is_emptied(self, claimed: Claimed) -> bool:
        """After a rebuild: rows that will be made again go before the first of them comes. It is done beside the other
        queries' work, since a large table takes long; until then this query has not started."""
        if not claimed.empties:
            return True
        if self._emptying is None or self._emptying[0] != claimed.generation:
            work: Future[None] = Future()
            self._emptying = claimed.generation, work
            threading.Thread(target=self._empty, args=(claimed, work), name=f"empty {self.name}", daemon=True).start()
        if not self._emptying[1].done():
            self.state, self.detail = State.WAITING, "removes the rows that a rebuild makes anew"
            self._next_try = time.monotonic() + LOOK_S
            return False
        self._emptying[1].result()
        return True

    def _empty(self, claimed: Claimed, work: Future[None]) -> None:
        """Only rows of older records are removed, so that doing it twice changes nothing."""
        below = {-at.inc if name.startswith(RETRY_PREFIX) else at.inc: at.off for name, at in claimed.empties.items()}
        try:
            topic = self._table()
            try:
                topic.store.empty(topic.target, Emptying(self.name, claimed.generation, below), self._settle_s)
            finally:
                topic.store.close()
        except Exception as error:
            work.set_exception(error)
        else:
            work.set_result(None)

    def _table(self) -> TableTopic:
        data_dir = self.context.data_dir
        return table_topic(self.context.pipeline, self._sources[0].topic, assignment(data_dir).base_dir, data_dir)

    @property
    def _settle_s(self) -> float:
        """How long an insert of a process that is gone may still be under way at the server."""
        return LOCAL_SETTLE_S if self.context.pipeline.spark.master.startswith("local") else CLUSTER_SETTLE_S

    def _claim(self, stateful: bool) -> Claimed:
        """Under another checkpoint records may be read a second time: up to where is kept for its whole life."""
        claimed = super()._claim(stateful)
        if not claimed.known:
            ends = {
                name: At(at.inc, self.context.client.command("topic", {"name": name})["end"])
                for name, at in claimed.start.items()
            }
            write_whole(self._rewound_json, msgspec.json.encode(ends))
        return claimed

    @property
    def _rewound_json(self) -> Path:
        return self.checkpoint.root / "rewound.json"

    def _rewound(self) -> Ends:
        try:
            return msgspec.json.decode(self._rewound_json.read_bytes(), type=Ends)
        except (OSError, msgspec.DecodeError):
            return {}
