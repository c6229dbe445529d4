"""A source and a destination as people write them, in a file beside a pipeline."""

from __future__ import annotations

CONNECTORS = '''
import json
import os
import time
from pathlib import Path

import pyarrow as pa

from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.lifecycle import Catalog, CatalogStream, OpenInfo, ValidationResult, ValidationStatus
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, ReadSummary, WriteSummary
from gauss.contracts.connector.stream import ColumnSchema, SyncMode


class Base:
    def __init__(self, host):
        self.host = host

    def open(self, context):
        self.config = context.config.value
        if self.config.get("refuses"):
            raise ConnectorError.auth("NO", "the password is wrong")
        return OpenInfo(default_max_batch_bytes=1 << 20)

    def validate(self, config):
        return ValidationResult(ValidationStatus.SUCCESS)

    def close(self):
        pass


class Numbers(Base):
    """Numbers up to `rows`, ten in a batch, with a checkpoint after each."""

    def discover(self):
        modes = [SyncMode.FULL_REFRESH, SyncMode.INCREMENTAL]
        return Catalog([CatalogStream(name, [ColumnSchema("n", "Int64")], modes) for name in ("a", "b")])

    def run_read(self, stream):
        last = stream.cursor_info.last_value if stream.cursor_info else None
        first, batches = (last.value if last else 0) + 1, 0
        Path(self.config["folder"], f"{stream.stream_name}.reads").open("a").write(f"{first}\\n")
        for start in range(first, self.config["rows"] + 1, 10):
            stop = min(start + 10, self.config["rows"] + 1)
            self.host.emit_batch(pa.record_batch({"n": pa.array(range(start, stop), pa.int64())}))
            batches += 1
            self.host.checkpoint(
                Checkpoint(batches, CheckpointKind.SOURCE, stream.stream_name, "n", Int64Cursor(stop - 1))
            )
            self.host.report_progress(stop - first, 8 * (stop - first))
            time.sleep(self.config.get("pause", 0))
        return ReadSummary(records_read=self.config["rows"] + 1 - first, batches_emitted=batches)


class Lines(Base):
    """Appends numbers to a file, a line each, and checkpoints after every batch; fails as it is told."""

    def run_write(self, stream):
        written = batches = 0
        while (batch := self.host.next_batch()) is not None:
            flag = Path(self.config["folder"], "fail")
            if flag.exists():
                times = int(flag.read_text())
                flag.write_text(str(times - 1)) if times > 1 else flag.unlink()
                raise getattr(ConnectorError, self.config.get("fails", "transient_db"))("GONE", "the disk is away")
            values = batch.column(0).to_pylist()
            for row, value in enumerate(values):
                if value in self.config.get("bad", []):
                    self.host.reject(batch.slice(row, 1), ConnectorError.data("BAD", f"{value} is bad"))
            if self.config.get("fail_behind_bad") and set(values) & set(self.config["bad"]):
                failed = Path(self.config["folder"], f"failed-{values[0]}")
                if not failed.exists():
                    failed.touch()
                    raise ConnectorError.transient_db("GONE", "the disk is away")
            good = [value for value in values if value not in self.config.get("bad", [])]
            with Path(self.config["folder"], f"{stream.stream_name}.txt").open("a") as file:
                file.writelines(f"{value}\\n" for value in good)
            batches += 1
            written += len(good)
            self.host.checkpoint(Checkpoint(batches, CheckpointKind.DEST, stream.stream_name))
        return WriteSummary(records_written=written, batches_written=batches)


not_a_class = 5
'''
