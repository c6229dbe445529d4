"""avro: one datum per record, or one container of many rows."""

from __future__ import annotations

from pathlib import Path

from gauss.contracts.decode_budget import MAX_DECODED_BYTES
from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import Bytes, PluginConfig
from gauss.plugins.formats.registry_config import RegistryConfig


class AvroConfig(PluginConfig):
    """Avro records. Each is a bare datum of the schema, or a container (header and blocks, as the framing
    `avro_container` cuts them) that brings its own; without `schema_file` only containers can be read."""

    schema_file: Path | None = None
    """The schema, as JSON text (`.avsc`): the columns, and how bare datums are written."""
    registry: RegistryConfig | None = None
    """Records carry Confluent's schema id before the datum; left out: no such header."""
    max_decoded_bytes: Bytes = MAX_DECODED_BYTES
    """A record that takes more once it is decompressed and decoded is a dead letter; what a task decodes at once takes
    no more either."""


SPEC = FormatSpec(
    name="avro",
    summary="Avro: bare datums of one schema, containers that bring theirs, or datums with a registry's schema id",
    config=AvroConfig,
    implementation="gauss.plugins.formats.avro.codec:AvroFormat",
)
