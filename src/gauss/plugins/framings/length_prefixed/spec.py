"""length_prefixed: each record follows its own length."""

from __future__ import annotations

from typing import Literal

from gauss.contracts.framing import FramingSpec
from gauss.contracts.plugin import PluginConfig


class LengthPrefixedConfig(PluginConfig):
    prefix_type: Literal["u16be", "u32be", "varint"]
    """How the length is written: two or four bytes, big end first, or a varint as protobuf writes it."""


SPEC = FramingSpec(
    name="length_prefixed",
    summary="each record follows its own length",
    config=LengthPrefixedConfig,
    implementation="gauss.plugins.framings.length_prefixed.framing:LengthPrefixedFraming",
    raw=True,
)
