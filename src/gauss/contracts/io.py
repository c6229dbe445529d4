"""`config.input` and `config.output`: the same few properties wherever a processor meets bytes.

At a source or sink they describe a byte stream (`StreamIO`: a format and an explicit framing); in a transform
they describe records that are cut already (`RecordIO`: a format alone).
"""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.plugin import PluginConfig

FRAMING_KEYS = ("framing", "delimiter", "prefix_type", "frame_size")


class StreamIO(PluginConfig):
    """A byte stream: how it is cut into records and, if anybody decodes them, what they hold."""

    model_config = ConfigDict(extra="allow", frozen=True)

    format: str | None = None
    """Name of a `[[formats]]` entry or of a format plugin; left out for raw bytes."""
    framing: str
    """How the stream is cut: a framing plugin. Every other key here is a parameter of that framing."""

    def parameters(self) -> dict[str, Any]:
        """What the framing's own config model is given: `delimiter`, `prefix_type`, `frame_size` or a third party's."""
        return dict(self.model_extra or {})


class RecordIO(PluginConfig):
    """Discrete records: their format. Bytes were framed at the source, so a framing has no place here."""

    format: str | None = None
    """Name of a `[[formats]]` entry or of a format plugin; left out: bytes pass unchanged."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_framing(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for key in FRAMING_KEYS:
                if key in value:
                    # `key` in the context tells the check which line to point at.
                    raise PydanticCustomError(
                        "framing_refused",
                        '"{key}" has no place on a transform: it works on records that the source has framed already;'
                        " name the framing at the source or sink, or use the reframe processor",
                        {"key": key},
                    )
        return value
