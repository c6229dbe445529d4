"""A whole pipeline file of Gauss as the config of a pipeline."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from gauss.config.check import check
from gauss.config.faults import Fault
from gauss.config.load import load
from gauss.config.secrets import Redactor, remember_written
from gauss.fleet.config.model import ConfigModel
from gauss.model.errors import ConfigError

MOST_CHARACTERS = 1 << 20
NAME = "pipeline.toml"
_UNSET = "the environment variable "
MOST_SHOWN = 5
"""Faults in the error of a file that is refused; `/api/validate/file` returns all."""


class PipelineFile(ConfigModel):
    """A pipeline file, which a worker runs as `gauss run` does. Files beside it are those of the worker's machine."""

    text: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    """The file as TOML. Passwords are references such as `${PASSWORD}`, to variables of the workers."""


def file_faults(text: str) -> list[Fault]:
    """The faults that `gauss check` finds. A variable that is not set here is a warning: the workers may have it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / NAME
        file.write_text(text)
        found = [_here(fault, folder) for fault in check(file).faults]
        return [*found, *_written_secrets(file)]


def checked_text(text: str) -> str:
    """The text of a file. Raises ConfigError with its faults."""
    errors = [fault for fault in file_faults(text) if not fault.warning]
    if errors:
        more = f"; and {len(errors) - MOST_SHOWN} more" if len(errors) > MOST_SHOWN else ""
        raise ConfigError(
            f"the file has faults: {'; '.join(map(str, errors[:MOST_SHOWN]))}{more}",
            hint="POST /api/validate/file returns them one by one",
        )
    return text


def _here(fault: Fault, folder: str) -> Fault:
    """Without the folder of the server, in which the file is only checked."""
    message, hint = (each.replace(f"{folder}/", "") for each in (fault.message, fault.hint))
    is_unset = fault.message.startswith(_UNSET)
    return replace(fault, file=NAME, message=message, hint=hint, warning=fault.warning or is_unset)


def _written_secrets(file: Path) -> list[Fault]:
    """Secrets that are written in the file: it is shown to all who may look at the pipeline."""
    document = load(file)
    if document.fault is not None:
        return []
    found = []
    for path, position in document.positions.items():
        value = _at(document.data, path)
        if not isinstance(value, str) or "${" in value:
            continue
        written = Redactor()
        remember_written(_nested(path, value), written)
        if written.secrets:
            hint = "write ${NAME}, and set that variable for the workers"
            name = ".".join(map(str, path))
            found.append(
                Fault(NAME, position.line, position.column, name, f"{name} is a secret in plain text", hint=hint)
            )
    return found


def _at(data: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _nested(path: tuple[str | int, ...], value: str) -> Any:
    """The value below the names of its path, which say whether it is a secret."""
    found: Any = value
    for key in reversed(path):
        if isinstance(key, str):
            found = {key: found}
    return found
