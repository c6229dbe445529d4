"""compress: each record's bytes by themselves."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import ProcessorSpec, Role, Where

Algo = Literal["gzip", "zstd", "lz4", "snappy"]
LEVELS = {"gzip": 9, "zstd": 22, "lz4": 12}
"""The highest level of each algorithm that has levels."""


class CompressConfig(PluginConfig):
    """Bytes are not looked at, so there is no format to name."""

    algo: Algo
    """`gzip`, `zstd`, `lz4` (frames), or `snappy` (raw blocks)."""
    level: int | None = None
    """From 1 (fast) to 9 with gzip, 12 with lz4, 22 with zstd. Default: the default of the algorithm."""

    @model_validator(mode="after")
    def _level_fits(self) -> CompressConfig:
        highest = LEVELS.get(self.algo, 0)
        if self.level is not None and not 1 <= self.level <= highest:
            raise PydanticCustomError(
                "level_out_of_range",
                "expected a level from 1 to {highest} with {algo}, found {level}"
                if highest
                else "{algo} has no levels: remove it",
                {"key": "level", "highest": highest, "algo": self.algo, "level": self.level},
            )
        return self


EXAMPLE = """
[[processors]]
name = "compress"
plugin = "compress"
source = { topic = "quotes", read = "offset" }
target = { topic = "quotes.zstd" }
config = { algo = "zstd", level = 3 }
"""

SPEC = ProcessorSpec(
    name="compress",
    summary="compresses the bytes of each record",
    config=CompressConfig,
    implementation="gauss.plugins.processors.compress.transform:Compress",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    reads=frozenset({"offset", "latest", "query"}),
    active=False,
    hosted=True,
    example=EXAMPLE,
)
