"""The settings `config.input` and `config.output` of processors.

At a source or sink they describe a byte stream (`StreamIO`: a format and an explicit framing); in a transform
they describe single records (`RecordIO`: only a format).
"""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.plugin import PluginConfig

FRAMING_KEYS = ("framing", "delimiter", "prefix_type", "frame_size")


class StreamIO(PluginConfig):
    """A byte stream: its framing and, if records are decoded, their format."""

    model_config = ConfigDict(extra="allow", frozen=True)

    format: str | None = None
    """Name of a `[[formats]]` entry or of a format plugin. Default: raw bytes."""
    framing: str
    """The framing plugin that splits the stream into records. All other keys are its parameters."""

    def parameters(self) -> dict[str, Any]:
        """Parameters of the framing: `delimiter`, `prefix_type`, `frame_size` or those of a third-party framing."""
        return dict(self.model_extra or {})


class RecordIO(PluginConfig):
    """The format of records. They are framed at the source, so there is no framing here."""

    format: str | None = None
    """Name of a `[[formats]]` entry or of a format plugin. Default: bytes pass unchanged."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_framing(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for key in FRAMING_KEYS:
                if key in value:
                    # `key` in the context tells the check which line to report.
                    raise PydanticCustomError(
                        "framing_refused",
                        '"{key}" has no place on a transform: it works on records that the source has framed already;'
                        " name the framing at the source or sink, or use the reframe processor",
                        {"key": key},
                    )
        return value
