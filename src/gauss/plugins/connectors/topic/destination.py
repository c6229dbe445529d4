"""The `topic` destination: appends rows to topics of a running pipeline."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from gauss.config.sync_rules import last_part
from gauss.contracts.connector.connector import Watermark
from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.errors import ConnectorError, fenced
from gauss.contracts.connector.host import Host
from gauss.contracts.connector.json_form import decode
from gauss.contracts.connector.lifecycle import (
    ConfigBlob,
    Feature,
    OpenContext,
    OpenInfo,
    ValidationResult,
    ValidationStatus,
)
from gauss.contracts.connector.progress import WriteSummary
from gauss.contracts.connector.settings import typed_config
from gauss.contracts.connector.stream import Append, Columns, StreamContext
from gauss.plugins.connectors.topic.destination_spec import TopicDestinationConfig
from gauss.plugins.connectors.topic.records import RAW, Encoder, declared, no_format
from gauss.plugins.connectors.topic.run_client import RunClient
from gauss.plugins.connectors.topic.write_run import WriteRun, writer_of


class TopicDestination:
    """Appends to topics. Implements `Destination` and `ManagedDestination`: the fields of a topic's format are its
    table, which a sync can't change."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._config = TopicDestinationConfig()
        self._run: RunClient | None = None

    def open(self, context: OpenContext) -> OpenInfo:
        self._config = typed_config(context.config, TopicDestinationConfig)
        self._run = RunClient(self._config)
        return OpenInfo(features=[Feature.EXACTLY_ONCE])

    def validate(self, config: ConfigBlob) -> ValidationResult:  # noqa: ARG002
        found = self._opened().topics()
        status = ValidationStatus.SUCCESS if found else ValidationStatus.WARNING
        return ValidationResult(status, f"{len(found)} topics")

    def close(self) -> None:
        if self._run is not None:
            self._run.close()
            self._run = None

    def interrupt(self) -> None:
        """Ends a write that waits for room in a full topic. Called by any thread."""
        if (run := self._run) is not None:
            run.interrupt()

    # --- what the host manages ---

    def landed(self, schema: pa.Schema) -> pa.Schema:
        return schema.remove_metadata()

    def describe(self, stream: StreamContext) -> pa.Schema | None:
        """The fields that the topic's format declares; None if it takes any."""
        topic = self._topic(stream)
        _, found = self._opened().format_of(topic)
        if found is not None:
            fields = declared(found)
            return None if fields is None else fields.remove_metadata()
        given = stream.schema.columns if isinstance(stream.schema, Columns) else []
        # The time of a record that comes from another topic is dropped: the engine gives it one.
        timed = any(each.name == "ts_ms" for each in given)
        return RAW if timed else RAW.remove(1)

    def statements(self, stream: StreamContext, live: pa.Schema | None, wanted: pa.Schema) -> list[str]:
        """None: the format of a topic belongs to the config of its run."""
        extra = [each for each in wanted.names if live is not None and each not in live.names]
        if not extra:
            return []
        topic = self._topic(stream)
        name, found = self._opened().format_of(topic)
        if found is None:
            raise no_format(topic, wanted.names)
        raise ConnectorError.schema(
            "NO_FIELD",
            f'the format "{name}" of topic "{topic}" has no field {", ".join(extra)}',
            hint='add it to the format, or set new_column = "ignore" in policies.schema_evolution',
        )

    def prepare(self, stream: StreamContext, statements: list[str], generation: int) -> None:  # noqa: ARG002
        if not isinstance(stream.write_mode, Append):
            raise ConnectorError.config(
                "NOT_APPEND", f'stream "{stream.stream_name}": a topic is only appended to', hint='set write = "append"'
            )
        self._opened().topic(self._topic(stream))
        writer = writer_of(self._host.pipeline, stream)
        if (newest := self._opened().claim(writer, generation)) > generation:
            raise fenced(stream.stream_name, generation, newest)

    def watermark(self, stream: StreamContext, partition: str) -> Watermark | None:
        """The journal entry of the last commit has it."""
        generation, found = self._opened().committed(writer_of(self._host.pipeline, stream))
        if not generation or partition:
            return None
        cursor = None if found["cursor"] is None else decode(msgspec.json.encode(found["cursor"]), CursorValue)
        return Watermark(generation, found["id"], cursor, found["done"])

    def opaque_kind(self, stream: StreamContext, wanted: pa.Schema) -> str:  # noqa: ARG002
        return ""

    def finish(self, stream: StreamContext, generation: int) -> None:
        """Records are visible already."""

    # --- writing ---

    def run_write(self, stream: StreamContext) -> WriteSummary:
        run, topic = self._opened(), self._topic(stream)
        return WriteRun(self._host, stream, run, topic, Encoder(topic, run.format_of(topic)[1]))()

    def _topic(self, stream: StreamContext) -> str:
        """The topic of a stream. The name of a topic may have dots, as that of a table has before it."""
        name = stream.stream_name
        if name in self._config.tables:
            return self._config.tables[name]
        known = {each.name for each in self._opened().topics()}
        return name if name in known else last_part(name)

    def _opened(self) -> RunClient:
        if self._run is None:
            raise ConnectorError.internal("NOT_OPEN", "the connector is not open")
        return self._run
