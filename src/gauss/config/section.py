"""What all sections of a config file have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,127}$")]


class Section(BaseModel):
    """A table of a config file. Rejects unknown keys and is immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)
