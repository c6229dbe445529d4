"""The `file` destination: a folder of files per stream."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.connector.spec import DestinationSpec
from gauss.contracts.plugin import Bytes, PluginConfig
from gauss.plugins.connectors.file.source_spec import Format, Sign

Compression = Literal["none", "gzip", "zstd", "snappy", "lz4"]
COMPRESSIONS: dict[str, tuple[Compression, ...]] = {
    "csv": ("none", "gzip", "zstd"),
    "jsonl": ("none", "gzip", "zstd"),
    "parquet": ("zstd", "none", "gzip", "snappy", "lz4"),
    "arrow": ("none", "lz4", "zstd"),
}
"""What each format can be compressed with; the first is the default."""


class FileDestinationConfig(PluginConfig):
    """Settings of the `file` destination."""

    path: Annotated[str, Field(min_length=1)]
    """The directory in which each stream has a folder, relative to the config file; created if necessary."""
    format: Format = "parquet"
    """The format of new files."""
    max_file_bytes: Annotated[Bytes, Field(ge=1)] = 128 << 20
    """A larger file is followed by a new one."""
    compression: Compression | None = None
    """Default: `zstd` for parquet, else none."""
    delimiter: Sign = ","
    """csv: what separates values."""
    tables: dict[str, str] = Field(default={})
    """The folder of a stream, by its name; other streams have a folder of their whole name."""

    @property
    def codec(self) -> Compression:
        return self.compression or COMPRESSIONS[self.format][0]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        known = COMPRESSIONS[self.format]
        if self.codec not in known:
            raise PydanticCustomError(
                "compression",
                "{format} files can be compressed with {known}, found {found}",
                {"key": "compression", "format": self.format, "known": ", ".join(known), "found": self.codec},
            )
        if self.delimiter in '"\\' or self.delimiter.isalnum() or self.delimiter in "+-.:":
            raise PydanticCustomError(
                "delimiter", "a delimiter can't be a part of a value: use , ; | or a tab", {"key": "delimiter"}
            )
        return self


SPEC = DestinationSpec(
    name="file",
    summary="Writes csv, jsonl, parquet or arrow files, exactly once.",
    config=FileDestinationConfig,
    implementation="gauss.plugins.connectors.file.destination:FileDestination",
    writes=frozenset({"append", "replace"}),
    whole_names=True,
)
