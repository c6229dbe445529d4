"""Settings of a test: the connector's own in each role, and how the kit reads and writes its system."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tomli
from pydantic import Field, ValidationError

from gauss.config.load import load
from gauss.config.secrets import Redactor, remember_written, substitute
from gauss.config.section import Section
from gauss.model.errors import ConfigError

WriteName = Literal["append", "replace", "upsert"]


class KitSettings(Section):
    """The file of `--config`."""

    source: dict[str, Any] = Field(default={})
    """Settings of the connector as a source."""
    destination: dict[str, Any] = Field(default={})
    """Settings of the connector as a destination."""
    streams: list[str] = Field(default=[])
    """Streams of the source to read. Default: the first one of its catalog."""
    write: list[WriteName] = Field(default=[])
    """Write modes of the destination. Default: those of its spec, else append."""
    types: list[str] = Field(default=[])
    """Names of the Arrow types to write to a destination that does not say which ones it takes. Default: Boolean,
    Int64, Float64 and Utf8."""
    verify: str | None = None
    """`module:function(settings, stream)` that returns the rows at the destination as an Arrow table. Default: they are
    read by the source of the same name."""
    fill: str | None = None
    """`module:function(settings, stream, rows, key)` that upserts rows (an Arrow table) by a key into a stream of the
    source, and creates it if necessary. Default: by the destination of the same name."""
    kills: Annotated[int, Field(ge=0, le=10_000)] = 5
    """How often a sync is killed in each case of crashes; 0 leaves them out."""
    seed: int = 1
    """Decides where syncs are killed."""
    timeout_secs: Annotated[float, Field(gt=0)] = 120.0
    """Maximum duration of a run."""
    patience_secs: Annotated[float, Field(gt=0)] = 10.0
    """How long a connector may take to end when its run is stopped."""

    def of(self, role: str) -> dict[str, Any]:
        found: dict[str, Any] = getattr(self, role)
        return found


def read_settings(file: Path | None, given: list[str], redactor: Redactor) -> KitSettings:
    """The settings of a file, with `key=value` pairs for both roles. Raises ConfigError with all faults."""
    data: dict[str, Any] = {}
    faults: list[str] = []
    if file is not None:
        document = load(file)
        if document.fault is not None:
            raise ConfigError(f"{file}: {document.fault.message}", hint=document.fault.hint)
        data = document.data
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f'--set: expected key=value, found "{pair}"', hint="such as --set path=data")
        for role in ("source", "destination"):
            data.setdefault(role, {})
            _put(data[role], key.strip().split("."), _value(value))
    base = file.parent if file is not None else Path()
    data = substitute(data, base, redactor, lambda path, message, _: faults.append(f"{_dotted(path)}: {message}"))
    remember_written(data, redactor)
    if faults:
        raise ConfigError("; ".join(faults))
    try:
        return KitSettings.model_validate(data)
    except ValidationError as error:
        found = "; ".join(f"{_dotted(each['loc'])}: {each['msg']}" for each in error.errors(include_input=False))
        raise ConfigError(f"{file or 'settings'}: {found}", hint="see: gauss docs connectors") from None


def _put(table: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        table = table.setdefault(key, {})
    table[keys[-1]] = value


def _value(text: str) -> Any:
    """A TOML value; text that is none is taken as it is."""
    try:
        return tomli.loads(f"value = {text}")["value"]
    except tomli.TOMLDecodeError:
        return text


def _dotted(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))
