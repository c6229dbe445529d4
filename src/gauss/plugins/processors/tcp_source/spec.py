"""tcp-source: bytes from connections, cut into records, into a topic."""

from __future__ import annotations

from typing import Literal

from gauss.contracts.io import StreamIO
from gauss.contracts.plugin import Bytes, Millis
from gauss.contracts.processor import ProcessorSpec, Role, Where
from gauss.plugins.transports.edge_config import TcpEdgeConfig


class TcpSourceConfig(TcpEdgeConfig):
    """Config of a tcp-source."""

    input: StreamIO
    """How the incoming bytes are cut into records."""
    compression: Literal["none", "gzip", "zstd", "lz4"] = "none"
    """The stream is decompressed before it is cut."""
    max_record_bytes: Bytes = 16 << 20
    """A longer record closes its connection; its bytes go to the dead letters."""
    ack: Literal["none", "count"] = "none"
    """`count`: after each append the sender gets how many of its records are visible by now, as u64 big-endian."""
    idle_timeout: Millis | None = None
    """A connection that sends nothing for so long is closed; default: never."""


SPEC = ProcessorSpec(
    name="tcp-source",
    summary="Takes records from TCP connections into a topic.",
    config=TcpSourceConfig,
    implementation="gauss.plugins.processors.tcp_source.edge:TcpSource",
    role=Role.SOURCE,
    where=Where.ENGINE,
    active=False,
    framed="input",
)
