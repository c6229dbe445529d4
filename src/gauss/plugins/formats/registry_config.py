"""Settings of a schema registry, shared by the formats that understand Confluent's wire form."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.plugin import Millis, PluginConfig


class RegistryConfig(PluginConfig):
    """Where the schema of an id is found: records begin with a zero byte and four bytes of schema id."""

    url: str | None = None
    """URL of the registry, `http://host:8081`. Schemas are cached."""
    subject: str | None = None
    """The subject whose newest schema is used for columns if the format has no schema, and for encoding."""
    schemas: dict[str, Path] = Field(default={})
    """Schema files by id, `{ 7 = "schemas/quote.avsc" }`, used before the registry is asked."""
    username: str | None = None
    """User of the registry, if it requires authentication."""
    password: SecretStr | None = None
    """Password of the user; use `${NAME}`."""
    timeout: Millis = 10_000
    """Timeout of a request."""

    @model_validator(mode="after")
    def _somewhere(self) -> RegistryConfig:
        if self.url is None and not self.schemas:
            raise PydanticCustomError("registry", "a registry needs url or schemas", {"key": "url"})
        for key in self.schemas:
            if not key.isdigit():
                raise PydanticCustomError(
                    "registry", 'expected a schema id (a number), found "{id}"', {"key": "schemas", "id": key}
                )
        return self
