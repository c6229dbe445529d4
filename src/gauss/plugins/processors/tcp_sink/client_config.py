"""What the clients of a sink have in common, on TCP and on WebSocket."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gauss.contracts.plugin import Bytes, PluginConfig
from gauss.contracts.processor import LintContext


class ClientConfig(PluginConfig):
    """Where clients begin, and what happens to a slow one."""

    start: Literal["earliest", "end", "resume"] | Annotated[int, Field(ge=0)] | None = None
    """Where a client begins: `earliest` (a server's default), `end`, an offset, or `resume`: at the first record
    that the peer's TCP has not wholly acknowledged (a client transport's default). A server with `resume` keeps
    one position, so it serves one client at a time and the next one waits."""
    slow_client: Literal["block", "disconnect"] = "block"
    """What happens when a client does not read: the topic is held back, or the client is dropped."""
    slow_client_bytes: Bytes = 16 << 20
    """`disconnect`: how far a client that does not read may fall behind; sooner when writers wait for it."""

    def keeps_place(self) -> bool:
        """Whether its one place in the topic outlives connections."""
        return self.starts_at() == "resume"

    def starts_at(self) -> str | int:
        """`start`, or its default."""
        return "earliest" if self.start is None else self.start

    def ends_by_itself(self) -> bool:
        """Whether a connection ends once a snapshot was sent: that tells the client that it has the whole table."""
        return True


def start_faults(plugin: str, config: ClientConfig, context: LintContext) -> list[str]:
    """Where `start` has no meaning, or stands in the wrong place."""
    told = []
    if context.read == "latest" and config.start is not None:
        told.append('"start" has no meaning with read = "latest", which begins at the newest record: leave it out')
    if context.read in ("snapshot", "subscribe") and config.start is not None:
        told.append(
            f'"start" has no meaning with read = "{context.read}", which begins with the whole table: leave it out'
        )
    if context.read == "offset" and (context.start in ("earliest", "end") or isinstance(context.start, int)):
        told.append(f'"start" of a {plugin} stands in its config, since each client begins there: move it from source')
    return told


def snapshot_faults(key: str, context: LintContext) -> list[str]:
    """Where a mark of snapshots has no meaning."""
    if context.read in ("snapshot", "subscribe"):
        return []
    return [f'"{key}" has no meaning with read = "{context.read}", which sends no snapshots: leave it out']
