"""avro: one datum per record, or one container of many rows."""

from __future__ import annotations

from pathlib import Path

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.decode_budget import MAX_DECODED_BYTES
from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import Bytes, PluginConfig
from gauss.plugins.formats.registry_config import RegistryConfig


class AvroConfig(PluginConfig):
    """Avro records. Each is a bare datum of the schema, or a container (header and blocks, as the framing
    `avro_container` cuts them) that brings its own; without a schema only containers can be read."""

    schema_file: Path | None = None
    """The schema as JSON (`.avsc`), for reading and writing bare datums."""
    schema_text: str | None = None
    """The schema itself, instead of a file: for configs that machines without the file use, as in a fleet."""
    registry: RegistryConfig | None = None
    """The schema registry of records with a Confluent schema id. Default: records have no such header."""
    max_decoded_bytes: Bytes = MAX_DECODED_BYTES
    """Maximum decompressed and decoded size of a record; larger records become dead letters. Also limits what a task
    decodes at once."""

    @model_validator(mode="after")
    def _one_source(self) -> AvroConfig:
        if self.schema_file is not None and self.schema_text is not None:
            raise PydanticCustomError("avro", "give schema_file or schema_text, not both", {"key": "schema_text"})
        return self


SPEC = FormatSpec(
    name="avro",
    summary="Avro: bare datums of one schema, containers with their own schema, or datums with a registry schema id",
    config=AvroConfig,
    implementation="gauss.plugins.formats.avro.codec:AvroFormat",
)
