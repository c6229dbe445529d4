"""arrow_ipc_streaming: an Arrow IPC stream; a record is its schema, its dictionaries and one batch."""

from __future__ import annotations

from gauss.contracts.framing import FramingSpec
from gauss.contracts.plugin import PluginConfig


class ArrowIpcStreamingConfig(PluginConfig):
    """No settings: the stream is self-describing."""


SPEC = FramingSpec(
    name="arrow_ipc_streaming",
    summary="Arrow IPC stream; a record is schema, dictionaries and one batch",
    config=ArrowIpcStreamingConfig,
    implementation="gauss.plugins.framings.arrow_ipc_streaming.framing:ArrowIpcStreamingFraming",
    raw=False,
)
