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
    """An Arrow file, stream or schema message that defines the columns. Default: each record has its own schema, and
    columns are matched by name."""
    max_decoded_bytes: Bytes = MAX_DECODED_BYTES
    """Maximum decompressed and decoded size of a record; larger records become dead letters. Also limits what a task
    decodes at once."""


SPEC = FormatSpec(
    name="arrow",
    summary="Arrow IPC streams and files; a record can hold many rows",
    config=ArrowConfig,
    implementation="gauss.plugins.formats.arrow.codec:ArrowFormat",
)
