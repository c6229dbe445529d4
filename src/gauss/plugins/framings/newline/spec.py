"""newline: records end with a delimiter."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gauss.contracts.framing import FramingSpec
from gauss.contracts.plugin import PluginConfig


class NewlineConfig(PluginConfig):
    delimiter: Annotated[str, Field(min_length=1)] = "\n"
    """What ends each record, as UTF-8 text of one or more bytes: `"\\n"`, `"\\r\\n"`, `"||"`."""


SPEC = FramingSpec(
    name="newline",
    summary="records end with a delimiter",
    config=NewlineConfig,
    implementation="gauss.plugins.framings.newline.framing:NewlineFraming",
    raw=True,
)
