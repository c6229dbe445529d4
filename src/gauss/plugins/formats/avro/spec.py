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
    """The schema as JSON (`.avsc`), for reading and writing bare datums."""
    registry: RegistryConfig | None = None
    """The schema registry of records with a Confluent schema id. Default: records have no such header."""
    max_decoded_bytes: Bytes = MAX_DECODED_BYTES
    """Maximum decompressed and decoded size of a record; larger records become dead letters. Also limits what a task
    decodes at once."""


SPEC = FormatSpec(
    name="avro",
    summary="Avro: bare datums of one schema, containers with their own schema, or datums with a registry schema id",
    config=AvroConfig,
    implementation="gauss.plugins.formats.avro.codec:AvroFormat",
)
