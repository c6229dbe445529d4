"""reframe: cuts each record's bytes by another framing into new records."""

from __future__ import annotations

from typing import Literal

from gauss.contracts.io import StreamIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import ProcessorSpec, Role, Where


class ReframeConfig(PluginConfig):
    output: StreamIO
    """The framing by which a record's bytes are cut, and its parameters."""
    on_frame_error: Literal["dead_letter", "fail", "pad"] = "dead_letter"
    """What becomes of bytes that fill no frame: a dead letter, the end of the processor, or (`fixed_size` only)
    a last frame filled up with zero bytes."""


SPEC = ProcessorSpec(
    name="reframe",
    summary="cuts each record's bytes by another framing into new records",
    config=ReframeConfig,
    implementation="gauss.plugins.processors.reframe.transform:ReframeTransform",
    role=Role.TRANSFORM,
    where=Where.ENGINE,
    active=True,
    framed="output",
)
