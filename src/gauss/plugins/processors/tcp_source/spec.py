"""tcp-source: bytes from connections, cut into records, into a topic."""

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
    """`passthrough`: bytes are moved in the kernel (splice) and never cut: into a capture file per connection when the
    target is a file topic with `framing = "none"`, on to `forward`, or both. See [zero copy](../zero-copy.md)."""
    forward: str | None = None
    """`passthrough`: an address `host:port` to which each connection is passed on, and whose answers come back."""
    input: StreamIO | None = None
    """How the incoming bytes are cut into records; not with `passthrough`."""
    encoding: Literal["auto"] | None = None
    """`auto`: each connection's first bytes tell whether it is UTF-8 or UTF-16 (by its byte order mark, which is taken
    away, or by statistics), and so which bytes the delimiter of `framing = "newline"` is; no record is emitted before.
    Left out: `input.encoding`."""
    detect_timeout: Annotated[Millis, Field(gt=0)] = 1_000
    """`encoding = "auto"`: so long after the first byte the encoding is decided by what has come; when that says
    nothing, it is UTF-8."""
    compression: Literal["none", "gzip", "zstd", "lz4"] = "none"
    """The stream is decompressed before it is cut."""
    max_record_bytes: Bytes = 16 << 20
    """A longer record closes its connection; its bytes go to the dead letters."""
    max_buffer_bytes: Bytes = 128 << 20
    """What all connections together may hold in memory before it is in the topic: unfinished records, headers and
    dictionaries of containers, decompression windows. When it is used up, the connection is closed that has kept most
    for longest without finishing a record (dead letter `over_budget`); one that holds little is never closed for it."""
    allow_http: bool = False
    """Whether a connection may begin with an HTTP request line, such as `POST / HTTP/1.1`. It is closed otherwise: any
    web page can have a browser send that to an address on this machine, with records in its body."""
    ack: Literal["none", "count"] = "none"
    """`count`: after each append the sender gets how many of its records are visible by now, as u64 big-endian."""
    idle_timeout: Millis | None = None
    """A connection that sends nothing for so long is closed; default: never."""

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
                    'mode = "passthrough" moves bytes without looking at them, so "{key}" has no place beside it',
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
    summary="Takes records from TCP connections into a topic.",
    config=TcpSourceConfig,
    implementation="gauss.plugins.processors.tcp_source.edge:TcpSource",
    raw_implementation="gauss.plugins.processors.tcp_source.passthrough:Passthrough",
    role=Role.SOURCE,
    where=Where.ENGINE,
    active=False,
    framed="input",
    lint=_lint,
)
