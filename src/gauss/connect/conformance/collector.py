"""The kit's destination: keeps rows in Arrow files, one per commit, with the watermark in the file's schema."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from gauss.contracts.connector.connector import Watermark
from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Batch, Host, Mark, Opaque
from gauss.contracts.connector.json_form import decode, encode
from gauss.contracts.connector.lifecycle import (
    ConfigBlob,
    Feature,
    JsonConfig,
    OpenContext,
    OpenInfo,
    ValidationResult,
    ValidationStatus,
)
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, WriteSummary
from gauss.contracts.connector.stream import StreamContext

NAME = "gauss.connect.conformance.collector:Collector"
_MARK = b"gauss_mark"


class Collector:
    """Implements `ManagedDestination`. Config: `folder`, `pause_s` before each batch. A file appears by a rename, so
    that rows and watermark are committed together."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._config: dict[str, Any] = {}

    def open(self, context: OpenContext) -> OpenInfo:
        assert isinstance(context.config, JsonConfig)
        self._config = context.config.value
        return OpenInfo(features=[Feature.EXACTLY_ONCE, Feature.CDC], default_max_batch_bytes=64 << 20)

    def validate(self, config: ConfigBlob) -> ValidationResult:  # noqa: ARG002
        return ValidationResult(ValidationStatus.SUCCESS)

    def close(self) -> None:
        pass

    # --- what the host manages ---

    def landed(self, schema: pa.Schema) -> pa.Schema:
        return schema

    def describe(self, stream: StreamContext) -> pa.Schema | None:  # noqa: ARG002
        return None

    def statements(self, stream: StreamContext, live: pa.Schema | None, wanted: pa.Schema) -> list[str]:  # noqa: ARG002
        return []

    def prepare(self, stream: StreamContext, statements: list[str], generation: int) -> None:  # noqa: ARG002
        folder = self._folder(stream)
        folder.mkdir(parents=True, exist_ok=True)
        if _fence(folder) > generation:
            raise ConnectorError.internal("FENCED", f"run {generation} was replaced by run {_fence(folder)}")
        _write(folder / "fence", str(generation).encode())

    def watermark(self, stream: StreamContext, partition: str) -> Watermark | None:  # noqa: ARG002
        return next((mark for file in reversed(_files(self._folder(stream))) if (mark := _mark(file))), None)

    def opaque_kind(self, stream: StreamContext, wanted: pa.Schema) -> str:  # noqa: ARG002
        return ""

    def finish(self, stream: StreamContext, generation: int) -> None: ...

    # --- writing ---

    def run_write(self, stream: StreamContext) -> WriteSummary:
        folder, held, records, batches = self._folder(stream), list[pa.RecordBatch](), 0, 0
        mark: Mark | None = None
        checkpoints = 0
        while (item := self._host.next_delivery()) is not None:
            if isinstance(item, Mark):
                mark = item
                self._commit(stream, folder, held, item)
                held, checkpoints = [], checkpoints + 1
                continue
            self._hold(item, held)
            batches, records = batches + 1, records + held[-1].num_rows
        if held and mark is None and not self._host.cancelled():
            raise ConnectorError.internal("NO_CHECKPOINT", "the source has ended without a checkpoint")
        return WriteSummary(records, 0, batches, checkpoints)

    def _hold(self, item: Batch, held: list[pa.RecordBatch]) -> None:
        assert not isinstance(item.rows, Opaque)
        threading.Event().wait(float(self._config.get("pause_s", 0)))
        held.append(item.rows)

    def _commit(self, stream: StreamContext, folder: Path, held: list[pa.RecordBatch], mark: Mark) -> None:
        generation = self._host.generation
        if _fence(folder) > generation:
            raise ConnectorError.internal("FENCED", f"run {generation} was replaced by run {_fence(folder)}")
        rows = pa.Table.from_batches(held) if held else pa.table({})
        cursor = None if mark.cursor is None else encode(mark.cursor).decode()
        note = msgspec.json.encode([generation, mark.id, cursor, mark.final])
        number = len(_files(folder)) + 1
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows.schema.with_metadata({_MARK: note})) as writer:
            writer.write_table(rows.replace_schema_metadata({_MARK: note}))
        _write(folder / f"{number:09}-{generation:020}.arrow", bytes(sink.getvalue()))
        self._host.checkpoint(Checkpoint(mark.id, CheckpointKind.DEST, stream.stream_name))

    def _folder(self, stream: StreamContext) -> Path:
        return stream_folder(Path(self._config["folder"]), stream.stream_name)


def stream_folder(folder: Path, stream: str) -> Path:
    return folder / hashlib.sha256(stream.encode()).hexdigest()[:16]


def collected(folder: Path, stream: str, *, full: bool) -> pa.Table:
    """The rows of a stream in the order in which they came. `full`: only those of the last attempt."""
    files = _files(stream_folder(folder, stream))
    if full and files:
        last = files[-1].stem.partition("-")[2]
        files = [file for file in files if file.stem.endswith(last)]
    parts = [part for file in files if (part := _read(file)).num_columns]
    if not parts:
        return pa.table({})
    return pa.concat_tables([each.replace_schema_metadata(None) for each in parts], promote_options="default")


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.arrow"))


def _read(file: Path) -> pa.Table:
    with pa.OSFile(str(file)) as source, pa.ipc.open_file(source) as reader:
        return reader.read_all()


def _mark(file: Path) -> Watermark | None:
    with pa.OSFile(str(file)) as source, pa.ipc.open_file(source) as reader:
        generation, id, cursor, done = msgspec.json.decode(reader.schema.metadata[_MARK])
    return Watermark(generation, id, None if cursor is None else decode(cursor.encode(), CursorValue), done)


def _fence(folder: Path) -> int:
    try:
        return int((folder / "fence").read_text())
    except FileNotFoundError:
        return 0


def _write(path: Path, data: bytes) -> None:
    fresh = path.with_name(f"{path.name}.new")  # not an .arrow file, whose rows would count
    fresh.write_bytes(data)
    fresh.replace(path)
