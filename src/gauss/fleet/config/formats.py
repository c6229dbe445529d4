"""The settings of a format in a fleet: no files of one machine, and the password of a schema registry apart."""

from __future__ import annotations

from typing import Any

from gauss.config.formats import build_format
from gauss.fleet.mapping.compile import check_format
from gauss.model.errors import ConfigError

PASSWORD = "formatConfig.registry.password"
"""The name of the secret."""
_FILES = {
    "schema_file": "write the schema as schema_text",
    "descriptor": "write the .proto source as proto_text",
    "proto": "write the .proto source as proto_text",
    "import_dirs": "write one .proto source as proto_text",
}


def check_settings(name: str, settings: dict[str, Any]) -> None:
    """Raises ConfigError for settings that a fleet can't use or may not show."""
    for key, hint in _FILES.items():
        if settings.get(key):
            raise ConfigError(f"formatConfig.{key}: the workers of a fleet have no such file", hint=hint)
    registry = settings.get("registry")
    if isinstance(registry, dict):
        if registry.get("schemas"):
            raise ConfigError("formatConfig.registry.schemas: the workers have no such files", hint="name its url")
        if "@" in str(registry.get("url")):
            raise ConfigError(
                "formatConfig.registry.url: everybody may see it", hint="give the login as username and password"
            )
    check_format(name, settings)
    texts = [key for key in ("schema_text", "proto_text") if settings.get(key)]
    if texts and registry is None:
        try:
            build_format(name, settings)
        except ConfigError as error:
            raise ConfigError(f"formatConfig.{texts[0]}: {error.message}", hint=error.hint) from None


def without_password(settings: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The settings as they are stored and shown, and the password of the registry; None if there is none."""
    registry = settings.get("registry")
    if not isinstance(registry, dict) or "password" not in registry:
        return settings, None
    kept = {key: value for key, value in registry.items() if key != "password"}
    password = registry["password"]
    return {**settings, "registry": kept}, None if password is None else str(password)


def with_password(settings: dict[str, Any], password: str | None) -> dict[str, Any]:
    if password is None:
        return settings
    return {**settings, "registry": {**settings["registry"], "password": password}}


def registry_place(settings: dict[str, Any]) -> tuple[Any, Any]:
    """Whom a password is for."""
    registry = settings.get("registry") or {}
    return registry.get("url"), registry.get("username")
