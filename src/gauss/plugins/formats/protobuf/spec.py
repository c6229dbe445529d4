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
    proto_text: str | None = None
    """The `.proto` source itself, instead of a file: for configs that machines without the file use, as in a fleet. It
    can import the well-known types alone."""
    import_dirs: list[Path] = Field(default=[])
    """Folders to search for imports, besides the folder of the source."""
    message: str
    """The message's name, `Quote`, or its full name, `market.data.Quote`."""
    registry: RegistryConfig | None = None
    """The schema registry of records with a Confluent schema id and message indexes. Default: bare messages."""

    @model_validator(mode="after")
    def _one_source(self) -> ProtobufConfig:
        given = [name for name in ("descriptor", "proto", "proto_text") if getattr(self, name) is not None]
        if len(given) > 1:
            message = f"give {' or '.join(given)}, not both"
            raise PydanticCustomError("protobuf", message, {"key": given[-1]})
        if not given and self.registry is None:
            message = "protobuf needs descriptor, proto, proto_text or registry"
            raise PydanticCustomError("protobuf", message, {"key": "descriptor"})
        return self


SPEC = FormatSpec(
    name="protobuf",
    summary="protobuf messages, one per record; described by a descriptor set, .proto source or a schema registry",
    config=ProtobufConfig,
    implementation="gauss.plugins.formats.protobuf.codec:ProtobufFormat",
)
