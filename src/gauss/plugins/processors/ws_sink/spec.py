"""The ws-sink processor: sends a topic's records to all WebSocket clients, one message per record."""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from gauss.contracts.io import RecordIO
from gauss.contracts.network import EVERYBODY, Network, is_loopback
from gauss.contracts.plugin import Millis, PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.plugins.processors.tcp_sink.client_config import ClientConfig, snapshot_faults, start_faults
from gauss.plugins.transports.tcp_server.spec import ServerConfig
from gauss.plugins.transports.tls_config import TlsConfig


def _origin(value: str) -> str:
    if value != "*" and not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#@\s]+|null", value):
        raise ValueError('expected an origin such as "https://dash.example.org", without a path, or "*"')
    return value


def _is_local(origin: str) -> bool:
    try:
        return is_loopback(urlsplit(origin).hostname or "")
    except ValueError:
        return False


Origin = Annotated[str, AfterValidator(_origin)]
_TRANSPORT_KEYS = ("host", "port", "tls", "max_connections", "allow")


class WsSinkConfig(ClientConfig):
    """Config of a ws-sink. A message is a record: text when it is UTF-8, else binary. Of a table, a message is a row;
    `read = "snapshot"` sends every row once, in the order of the keys, and closes; `read = "subscribe"` sends the
    newest snapshot whenever the table has changed and the client has taken the last one; with
    `subscribe = "changes"`, one snapshot and then every change."""

    host: str = "127.0.0.1"
    """Address to bind; `0.0.0.0` for every interface, which then needs `allow`, or `tls` with a `token` or
    a `ca`."""
    port: Annotated[int, Field(ge=0, le=65535)]
    """Port to bind; 0 for any free one."""
    path: Annotated[str, Field(pattern="^/")] = "/"
    """The path of the URL; other paths return 404."""
    token: Annotated[str, Field(min_length=1)] | None = None
    """The token that clients must send, as `Authorization: Bearer …` or as `?token=` in the URL. Default: none."""
    origins: tuple[Origin, ...] = ()
    """Web pages that may connect, such as `https://dash.example.org`; `*` for all. Default: pages of this machine
    (`http://localhost:3000`), and with a `token` every page that sends it. Clients other than browsers send no origin
    and are not restricted."""
    input: RecordIO | None = None
    """The format of the topic's records. Without `output` it means that they are sent as JSON objects:
    `{ format = "trade" }`. Default: the format of the topic, or of its other processors."""
    output: RecordIO | None = None
    """The format of the messages: records of another format are converted; a record that cannot be converted becomes a
    dead letter. Without `output` and `input` records are sent unchanged. See [formats](../formats.md)."""
    snapshot_marks: bool = False
    """For a table: whether each snapshot starts with the text message `{"_snapshot": "begin", "version": 7}` and ends
    with `{"_snapshot": "end", "version": 7, "rows": 2}`; with `subscribe = "changes"`, changes follow the end."""
    tls: TlsConfig | None = None
    """`cert` and `key` for `wss://`, and `ca` to demand client certificates."""
    max_connections: Annotated[int, Field(gt=0)] = 1000
    """Maximum number of clients; more are closed at once and counted as refused."""
    allow: tuple[Network, ...] = ()
    """Addresses and networks that may connect; required beyond loopback, unless `tls` goes with a `token` or a `ca`."""
    keepalive: Millis = 60_000
    """Idle time after which TCP keepalive probes the client."""

    def takes_origin(self, origin: str) -> bool:
        """Whether a page of this origin may connect. Any page in a browser on this machine can reach a loopback port,
        so without a token only listed or local origins are accepted."""
        if self.origins:
            return "*" in self.origins or origin.lower() in {entry.lower() for entry in self.origins}
        return self.token is not None or _is_local(origin)

    def transport_config(self) -> tuple[str, dict[str, Any]]:
        """The transport and its config, the same as for a tcp-sink."""
        given = {key: getattr(self, key) for key in _TRANSPORT_KEYS}
        config = {key: value for key, value in given.items() if value is not None}
        if not self.allow and self.token is not None and self.tls is not None:
            config["allow"] = EVERYBODY  # with the token, clients may connect from anywhere
        return "tcp-server", {**config, "keepalive": f"{self.keepalive}ms"}

    @model_validator(mode="after")
    def _fits_transport(self) -> WsSinkConfig:
        ServerConfig.model_validate(self.transport_config()[1])  # reports its faults as faults of this model
        return self


def _lint(config: PluginConfig, context: LintContext) -> list[str]:
    assert isinstance(config, WsSinkConfig)
    marks = snapshot_faults("snapshot_marks", context) if config.snapshot_marks else []
    return start_faults("ws-sink", config, context) + marks


SPEC = ProcessorSpec(
    name="ws-sink",
    summary="Sends a topic's records to WebSocket clients, a message per record.",
    config=WsSinkConfig,
    implementation="gauss.plugins.processors.ws_sink.edge:WsSink",
    role=Role.SINK,
    where=Where.ENGINE,
    active=False,
    reads=frozenset({"offset", "latest", "snapshot", "subscribe"}),
    conversion="gauss.plugins.processors.tcp_sink.convert:Conversion",
    lint=_lint,
    example="""\
[[processors]]
name = "realtime-view"
plugin = "ws-sink"
source = { topic = "quotes", read = "latest" }
config = { port = 8080, path = "/quotes" }
""",
)
