"""arrow: an IPC stream per record."""

from __future__ import annotations

from pathlib import Path

from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import PluginConfig


class ArrowConfig(PluginConfig):
    """Arrow IPC streams (schema, dictionaries, batches), as the framing `arrow_ipc_streaming` cuts them, or whole IPC
    files; a record may hold many rows."""

    schema_file: Path | None = None
    """An Arrow file, stream or bare schema message whose schema gives the columns; left out: each record brings its
    own, and columns are found by name."""


SPEC = FormatSpec(
    name="arrow",
    summary="Arrow IPC streams and files; a record holds as many rows as its batches",
    config=ArrowConfig,
    implementation="gauss.plugins.formats.arrow.codec:ArrowFormat",
)
