"""Config of a sink's clients, common to TCP and WebSocket."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gauss.contracts.plugin import Bytes, PluginConfig
from gauss.contracts.processor import LintContext


class ClientConfig(PluginConfig):
    """Where clients start, and how slow clients are handled."""

    start: Literal["earliest", "end", "resume"] | Annotated[int, Field(ge=0)] | None = None
    """Where a client starts: `earliest` (default of a server), `end`, an offset, or `resume` (default of a client
    transport): the first record that the peer's TCP has not fully acknowledged. A server with `resume` has one
    position, so it serves one client at a time and the next one waits."""
    slow_client: Literal["block", "disconnect"] = "block"
    """When a client does not read: `block` retains its records in the topic, `disconnect` closes its connection."""
    slow_client_bytes: Bytes = 16 << 20
    """`disconnect`: maximum bytes that a client may lag; it is closed earlier if writers of a full topic wait."""

    def keeps_place(self) -> bool:
        """Whether its single position in the topic outlives connections."""
        return self.starts_at() == "resume"

    def starts_at(self) -> str | int:
        """`start`, or its default."""
        return "earliest" if self.start is None else self.start

    def ends_by_itself(self) -> bool:
        """Whether a connection ends after a snapshot, which tells the client that it has the whole table."""
        return True


def start_faults(plugin: str, config: ClientConfig, context: LintContext) -> list[str]:
    """Faults of `start`: where it does not apply, or is set in the wrong place."""
    faults = []
    if context.read == "latest" and config.start is not None:
        faults.append('"start" does not apply to read = "latest", which starts at the newest record: remove it')
    if context.read in ("snapshot", "subscribe") and config.start is not None:
        faults.append(
            f'"start" does not apply to read = "{context.read}", which starts with the whole table: remove it'
        )
    if context.read == "offset" and (context.start in ("earliest", "end") or isinstance(context.start, int)):
        faults.append(
            f'"start" of a {plugin} stands in its config, since each client begins there: move it from source'
        )
    return faults


def snapshot_faults(key: str, context: LintContext) -> list[str]:
    """Faults of a snapshot marker: where it does not apply."""
    if context.read in ("snapshot", "subscribe"):
        return []
    return [f'"{key}" does not apply to read = "{context.read}", which sends no snapshots: remove it']
