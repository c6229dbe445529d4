"""The tcp-source processor: splits the bytes of connections into records of a topic."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.io import StreamIO
from gauss.contracts.plugin import Bytes, Millis, PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.plugins.transports.edge_config import TcpEdgeConfig

_FRAMED_ONLY = (
    *("input", "encoding", "detect_timeout", "tls", "compression"),
    *("max_record_bytes", "max_buffer_bytes", "allow_http", "ack"),
)


class TcpSourceConfig(TcpEdgeConfig):
    """Config of a tcp-source."""

    mode: Literal["framed", "passthrough"] = "framed"
    """`passthrough`: bytes are moved in the kernel (splice) without framing: to a capture file per connection if the
    target is a file topic with `framing = "none"`, to `forward`, or both. See [zero copy](../zero-copy.md)."""
    forward: str | None = None
    """`passthrough`: an address `host:port` to which each connection is forwarded, in both directions."""
    input: StreamIO | None = None
    """The framing of the incoming bytes; not with `passthrough`."""
    encoding: Literal["auto"] | None = None
    """`auto`: detects UTF-8 or UTF-16 from the first bytes of each connection (by the byte order mark, which is
    removed, or by statistics), to find the delimiter of `framing = "newline"`. Default: `input.encoding`."""
    detect_timeout: Annotated[Millis, Field(gt=0)] = 1_000
    """`encoding = "auto"`: maximum time after the first byte; then the received bytes decide, or UTF-8 is assumed."""
    compression: Literal["none", "gzip", "zstd", "lz4"] = "none"
    """Compression of the stream, removed before framing."""
    max_record_bytes: Bytes = 16 << 20
    """Maximum size of a record. A longer one becomes a dead letter and closes its connection."""
    max_buffer_bytes: Bytes = 128 << 20
    """Maximum memory of all connections for data that is not yet in the topic: unfinished records, headers and
    dictionaries of containers, decompression windows. When it is exceeded, the connection that has held most for
    longest without completing a record is closed (dead letter `over_budget`)."""
    allow_http: bool = False
    """Whether a connection may start with an HTTP request line, such as `POST / HTTP/1.1`. Off by default, because any
    web page can make a browser send requests to this machine."""
    ack: Literal["none", "count"] = "none"
    """`count`: after each append the sender receives the number of its records that are visible, as u64 big-endian."""
    idle_timeout: Millis | None = None
    """A connection that sends nothing for this time is closed. Default: never."""

    def forward_address(self) -> tuple[str, int]:
        """`forward` as host and port."""
        host, _, port = (self.forward or "").rpartition(":")
        return host.strip("[]"), int(port)

    @model_validator(mode="after")
    def _fits_mode(self) -> TcpSourceConfig:
        if self.mode == "passthrough":
            for key in (key for key in _FRAMED_ONLY if key in self.model_fields_set):
                raise PydanticCustomError(
                    "raw_mode",
                    'mode = "passthrough" moves bytes without looking at them, so "{key}" cannot be used with it',
                    {"key": key},
                )
        elif self.forward is not None:
            raise PydanticCustomError("raw_mode", '"{key}" needs mode = "passthrough"', {"key": "forward"})
        elif self.max_buffer_bytes < 2 * self.max_record_bytes:
            raise PydanticCustomError(
                "budget",
                '"{key}" = {found} is too small: expected at least twice max_record_bytes = {record}',
                {"key": "max_buffer_bytes", "found": self.max_buffer_bytes, "record": self.max_record_bytes},
            )
        elif self.input is None:
            raise PydanticCustomError("no_input", '"{key}" is missing: a byte stream must be cut', {"key": "input"})
        elif self.encoding is not None and (self.input.framing != "newline" or "encoding" in self.input.parameters()):
            raise PydanticCustomError(
                "encoding",
                '"{key}" = "auto" finds the delimiter of input = {{ framing = "newline" }}, without an encoding there',
                {"key": "encoding"},
            )
        if self.forward is not None:
            host, _, port = self.forward.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65536:
                raise PydanticCustomError(
                    "forward", '"{key}" expects "host:port" (got "{found}")', {"key": "forward", "found": self.forward}
                )
        return self


def _lint(config: PluginConfig, context: LintContext) -> list[str]:
    assert isinstance(config, TcpSourceConfig)
    if config.mode != "passthrough":
        return []
    if not context.target_storage:
        named = config.forward or context.has_target
        return [] if named else ['mode: "passthrough" needs a target, a forward address, or both']
    if context.target_storage != "file" or context.target_config.get("framing") != "none":
        return [
            'mode: "passthrough" writes captures, not records: its target must be a topic with storage = "file" and'
            ' storage_config = { framing = "none" }'
        ]
    return []


SPEC = ProcessorSpec(
    name="tcp-source",
    summary="Receives records from TCP connections into a topic.",
    config=TcpSourceConfig,
    implementation="gauss.plugins.processors.tcp_source.edge:TcpSource",
    raw_implementation="gauss.plugins.processors.tcp_source.passthrough:Passthrough",
    role=Role.SOURCE,
    where=Where.ENGINE,
    active=False,
    framed="input",
    lint=_lint,
)
