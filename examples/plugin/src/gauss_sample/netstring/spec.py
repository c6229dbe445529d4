"""netstring: `5:hello,`."""

from __future__ import annotations

from gauss.contracts.framing import FramingSpec
from gauss.contracts.plugin import PluginConfig


class NetstringConfig(PluginConfig):
    """Nothing to set."""


SPEC = FramingSpec(
    name="netstring",
    summary="each record as a decimal length, a colon, its bytes and a comma",
    config=NetstringConfig,
    implementation="gauss_sample.netstring.framing:NetstringFraming",
    raw=True,
)
