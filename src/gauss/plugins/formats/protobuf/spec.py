"""protobuf: one message per record."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import PluginConfig
from gauss.plugins.formats.registry_config import RegistryConfig


class ProtobufConfig(PluginConfig):
    """Messages of one type, described by a compiled descriptor, by `.proto` source or by a schema registry."""

    descriptor: Path | None = None
    """A compiled file descriptor set: `protoc --include_imports --descriptor_set_out=quote.bin quote.proto`."""
    proto: Path | None = None
    """The `.proto` source, compiled at the start."""
    import_dirs: list[Path] = Field(default=[])
    """Folders to search for imports, besides the folder of the source."""
    message: str
    """The message's name, `Quote`, or its full name, `market.data.Quote`."""
    registry: RegistryConfig | None = None
    """The schema registry of records with a Confluent schema id and message indexes. Default: bare messages."""

    @model_validator(mode="after")
    def _one_source(self) -> ProtobufConfig:
        if self.descriptor is not None and self.proto is not None:
            raise PydanticCustomError("protobuf", "give descriptor or proto, not both", {"key": "proto"})
        if self.descriptor is None and self.proto is None and self.registry is None:
            raise PydanticCustomError("protobuf", "protobuf needs descriptor, proto or registry", {"key": "descriptor"})
        return self


SPEC = FormatSpec(
    name="protobuf",
    summary="protobuf messages, one per record; described by a descriptor set, .proto source or a schema registry",
    config=ProtobufConfig,
    implementation="gauss.plugins.formats.protobuf.codec:ProtobufFormat",
)
