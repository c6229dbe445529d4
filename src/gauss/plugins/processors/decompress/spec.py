"""decompress: the bytes that each record was before it was compressed."""

from __future__ import annotations

from typing import Any

from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import Bytes, PluginConfig
from gauss.contracts.processor import ProcessorSpec, Role, Where
from gauss.plugins.processors.compress.spec import Algo


class DecompressConfig(PluginConfig):
    """Bytes are not looked at, so there is no format to name. What can't be decompressed is a dead letter."""

    algo: Algo
    """`gzip`, `zstd`, `lz4` (frames), or `snappy` (raw blocks)."""
    max_record_bytes: Bytes = 16 << 20
    """Maximum decompressed size of a record; larger ones become dead letters."""


def codecs(config: PluginConfig) -> dict[str, tuple[str, dict[str, Any]]]:
    """The compression is a format to the reader, which knows what to do with records that are bad."""
    return {"input": (f"{__name__}:COMPRESSED", config.model_dump())}


COMPRESSED = FormatSpec(
    name="compressed",
    summary="one field, `data`: the record decompressed",
    config=DecompressConfig,
    implementation="gauss.plugins.processors.decompress.codec:Compressed",
)

EXAMPLE = """
[[processors]]
name = "decompress"
plugin = "decompress"
source = { topic = "quotes", read = "offset" }
target = { topic = "quotes.raw" }
config = { algo = "lz4", max_record_bytes = "1MiB" }
"""

SPEC = ProcessorSpec(
    name="decompress",
    summary="decompresses the bytes of each record",
    config=DecompressConfig,
    implementation="gauss.plugins.processors.decompress.transform:Decompress",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    reads=frozenset({"offset", "latest", "query"}),
    active=False,
    hosted=True,
    codecs=codecs,
    example=EXAMPLE,
)
