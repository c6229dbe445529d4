"""fixed_size: every record has the same number of bytes and nothing stands between them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gauss.contracts.framing import FramingSpec
from gauss.contracts.plugin import PluginConfig


class FixedSizeConfig(PluginConfig):
    frame_size: Annotated[int, Field(gt=0, strict=True)]
    """Size of each record in bytes."""


SPEC = FramingSpec(
    name="fixed_size",
    summary="every record has the same number of bytes",
    config=FixedSizeConfig,
    implementation="gauss.plugins.framings.fixed_size.framing:FixedSizeFraming",
    raw=True,
)
