"""reframe: cuts each record's bytes by another framing into new records."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.io import StreamIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import ProcessorSpec, Role, Where


class ReframeConfig(PluginConfig):
    output: StreamIO
    """The framing that splits a record's bytes, and its parameters."""
    on_frame_error: Literal["dead_letter", "fail", "pad"] = "dead_letter"
    """How an incomplete frame is handled: as a dead letter, by stopping the processor, or (`fixed_size` only) by
    padding it with zero bytes."""

    @model_validator(mode="after")
    def _pad_needs_a_size(self) -> ReframeConfig:
        if self.on_frame_error == "pad" and self.output.framing != "fixed_size":
            raise PydanticCustomError(
                "pad_without_size",
                'on_frame_error = "pad" fills a frame up to its size: expected output.framing = "fixed_size",'
                ' found "{framing}"',
                {"framing": self.output.framing, "key": "on_frame_error"},
            )
        return self


EXAMPLE = """
[[processors]]
name = "reframe"
plugin = "reframe"
source = { topic = "raw", read = "offset" }
target = { topic = "frames" }
config = { output = { framing = "fixed_size", frame_size = 100 }, on_frame_error = "pad" }
"""

SPEC = ProcessorSpec(
    name="reframe",
    summary="splits each record by another framing into new records",
    config=ReframeConfig,
    implementation="gauss.plugins.processors.reframe.transform:ReframeTransform",
    role=Role.TRANSFORM,
    where=Where.ENGINE,
    active=True,
    reads=frozenset({"offset", "query"}),
    framed="output",
    example=EXAMPLE,
)
