"""newline: records end with a delimiter."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gauss.contracts.framing import FramingSpec
from gauss.contracts.plugin import PluginConfig


class NewlineConfig(PluginConfig):
    delimiter: Annotated[str, Field(min_length=1)] = "\n"
    """The delimiter that ends each record: `"\\n"`, `"\\r\\n"`, `"||"`."""
    encoding: Literal["utf-8", "utf-16-le", "utf-16-be"] = "utf-8"
    """Encoding of the text. In UTF-16 the delimiter has two bytes per character and is matched only at character
    boundaries; records are not converted."""


SPEC = FramingSpec(
    name="newline",
    summary="records end with a delimiter",
    config=NewlineConfig,
    implementation="gauss.plugins.framings.newline.framing:NewlineFraming",
    raw=True,
)
