"""The base of all parts of a config: camelCase, no unknown keys, faults with the name of the key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from gauss.model.errors import ConfigError


class ConfigModel(BaseModel):
    """A part of a config."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True)

    def to_document(self) -> dict[str, Any]:
        """As JSON types, with defaults."""
        return self.model_dump(mode="json", by_alias=True)


M = TypeVar("M", bound=BaseModel)


def validated(model: type[M], given: Mapping[str, Any]) -> M:
    """Raises ConfigError with all faults. Values are not repeated, since they may be secrets."""
    try:
        json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        raise ConfigError("expected JSON of Unicode text: it has half of a surrogate pair, NaN or infinity") from None
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise ConfigError(faults(error)) from None


def faults(error: ValidationError) -> str:
    """The faults of a config, without its values."""
    found = []
    for fault in error.errors(include_url=False, include_input=False):
        path = ".".join(map(str, [*fault["loc"], *([fault["ctx"]["key"]] if "key" in fault.get("ctx", {}) else [])]))
        message = fault["msg"].removeprefix("Value error, ")
        found.append(f"{path}: {message}" if path else message)
    return "; ".join(found)
