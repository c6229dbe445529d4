"""The tcp-sink processor: sends a topic's records to all clients that connect, or to the server it connects to."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.io import RecordIO, StreamIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.plugins.processors.tcp_sink.client_config import ClientConfig, snapshot_faults, start_faults
from gauss.plugins.transports.edge_config import TcpEdgeConfig

_FRAMED_ONLY = ("input", "output", "tls", "start", "slow_client", "slow_client_bytes", "snapshot_end")


class TcpSinkConfig(ClientConfig, TcpEdgeConfig):
    """Config of a tcp-sink. Of a table, `read = "snapshot"` sends every row once to each client, in the order of the
    keys, and ends its connection (a client transport stays connected); `read = "subscribe"` sends the newest snapshot
    whenever the table has changed and the client has received the last one; with `subscribe = "changes"`, one snapshot
    and then every change."""

    mode: Literal["framed", "passthrough"] = "framed"
    """`passthrough`, with `read = "raw"`: a client gets the captures of a topic with `framing = "none"`, oldest first,
    by sendfile, and then the end. See [zero copy](../zero-copy.md)."""
    input: RecordIO | None = None
    """The format of the topic's records. Default: the format of the topic, or of its other processors."""
    output: StreamIO | None = None
    """How records are framed on the wire and, with a `format`, in which format: records of another format are
    converted; a record that cannot be converted becomes a dead letter. Bytes that already have this framing and format
    are sent unchanged. Not with `passthrough`. See [formats](../formats.md)."""

    snapshot_end: str | None = None
    """A record sent after the last row of every snapshot, so that a client sees its end: `""` is an empty line with
    `framing = "newline"`. It must differ from every row. Default: none."""

    @model_validator(mode="after")
    def _fits_framing(self) -> TcpSinkConfig:
        if self.snapshot_end is None or self.output is None:
            return self
        told = ""
        if self.output.framing not in ("newline", "length_prefixed"):
            told = f'goes with framing = "newline" or "length_prefixed", not with "{self.output.framing}"'
        elif self.output.framing == "newline":
            delimiter = str((self.output.model_extra or {}).get("delimiter", "\n"))
            told = "holds the delimiter of the framing" if delimiter in self.snapshot_end else ""
        if told:
            raise PydanticCustomError("snapshot_end", '"{key}" {told}', {"key": "snapshot_end", "told": told})
        return self

    @model_validator(mode="after")
    def _fits_mode(self) -> TcpSinkConfig:
        if self.mode == "passthrough":
            for key in (key for key in _FRAMED_ONLY if key in self.model_fields_set):
                raise PydanticCustomError(
                    "raw_mode",
                    'mode = "passthrough" sends files as they are, so "{key}" cannot be used with it',
                    {"key": key},
                )
        elif self.output is None:
            raise PydanticCustomError("no_output", '"{key}" is missing: records must be framed', {"key": "output"})
        return self

    def starts_at(self) -> str | int:
        """`start`, or its default for this transport."""
        if self.start is not None:
            return self.start
        return "resume" if self.transport == "tcp-client" else "earliest"

    def keeps_place(self) -> bool:
        return super().keeps_place() or self.transport == "tcp-client"

    def ends_by_itself(self) -> bool:
        """False for a connection that the sink opens: it would reconnect and send everything again."""
        return self.transport == "tcp-server"


def _lint(config: PluginConfig, context: LintContext) -> list[str]:
    assert isinstance(config, TcpSinkConfig)
    told = start_faults("tcp-sink", config, context)
    if config.snapshot_end is not None:
        told += snapshot_faults("snapshot_end", context)
    if (context.read == "raw") != (config.mode == "passthrough"):
        told.append('mode: "passthrough" and read = "raw" go together: captures are sent as they are')
    return told


SPEC = ProcessorSpec(
    name="tcp-sink",
    summary="Sends a topic's records to TCP connections.",
    config=TcpSinkConfig,
    implementation="gauss.plugins.processors.tcp_sink.edge:TcpSink",
    role=Role.SINK,
    where=Where.ENGINE,
    active=False,
    raw_implementation="gauss.plugins.processors.tcp_sink.replay:CaptureReplay",
    reads=frozenset({"offset", "latest", "snapshot", "subscribe", "raw"}),
    framed="output",
    conversion="gauss.plugins.processors.tcp_sink.convert:Conversion",
    lint=_lint,
)
