"""arrow: an IPC stream per record."""

from __future__ import annotations

from pathlib import Path

from gauss.contracts.decode_budget import MAX_DECODED_BYTES
from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import Bytes, PluginConfig


class ArrowConfig(PluginConfig):
    """Arrow IPC streams (schema, dictionaries, batches), as the framing `arrow_ipc_streaming` cuts them, or whole IPC
    files; a record may hold many rows."""

    schema_file: Path | None = None
    """An Arrow file, stream or bare schema message whose schema gives the columns; left out: each record brings its
    own, and columns are found by name."""
    max_decoded_bytes: Bytes = MAX_DECODED_BYTES
    """A record that takes more once it is decompressed and decoded is a dead letter; what a task decodes at once takes
    no more either."""


SPEC = FormatSpec(
    name="arrow",
    summary="Arrow IPC streams and files; a record holds as many rows as its batches",
    config=ArrowConfig,
    implementation="gauss.plugins.formats.arrow.codec:ArrowFormat",
)
