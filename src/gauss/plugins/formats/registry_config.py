"""Settings of a schema registry, shared by the formats that understand Confluent's wire form."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.plugin import Millis, PluginConfig


class RegistryConfig(PluginConfig):
    """Where the schema of an id is found: records begin with a zero byte and four bytes of schema id."""

    url: str | None = None
    """Address of the registry, `http://host:8081`; asked once per id, the answer is kept."""
    subject: str | None = None
    """Subject whose newest schema gives the columns when the format names no schema of its own, and the id that
    encoded records carry."""
    schemas: dict[str, Path] = Field(default={})
    """Files by schema id, `{ 7 = "schemas/quote.avsc" }`; looked at before the registry."""
    username: str | None = None
    """For a registry that asks who is there."""
    password: SecretStr | None = None
    """Its password; write `${NAME}`."""
    timeout: Millis = 10_000
    """How long an answer may take."""

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
