"""length_prefixed: each record follows its own length."""

from __future__ import annotations

from typing import Literal

from gauss.contracts.framing import FramingSpec
from gauss.contracts.plugin import PluginConfig


class LengthPrefixedConfig(PluginConfig):
    prefix_type: Literal["u16be", "u32be", "varint"]
    """Encoding of the length: two or four bytes, big-endian, or a protobuf varint."""


SPEC = FramingSpec(
    name="length_prefixed",
    summary="each record is preceded by its length",
    config=LengthPrefixedConfig,
    implementation="gauss.plugins.framings.length_prefixed.framing:LengthPrefixedFraming",
    raw=True,
)
