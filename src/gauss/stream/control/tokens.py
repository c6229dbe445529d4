"""The two tokens of the HTTP API, each in its own file in the data directory."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from gauss.model.errors import StorageError
from gauss.model.paths import DataDir

_SHORTEST = 16


@dataclass(frozen=True, repr=False)
class Tokens:
    """The tokens that authorize requests to the API."""

    full: str
    """Allows every request."""
    read: str
    """Allows requests that change nothing."""


def kept_tokens(paths: DataDir) -> Tokens:
    """The tokens of a data directory, created by its first run and reused by later ones. Each file holds only the
    token, so that it can be the `credentials_file` of Prometheus."""
    return Tokens(_kept(paths.full_token), _kept(paths.read_token))


def _kept(path: Path) -> str:
    try:
        return _read(path) or _create(path)
    except OSError as error:
        raise StorageError(
            f"the token file {path} can't be used: {error.strerror or error}",
            hint="remove it to get a new token, or make the user of gauss run its owner",
        ) from error


def _read(path: Path) -> str:
    """The token in a file; empty if it is missing or incomplete."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
    path.chmod(0o600)
    return text if len(text) >= _SHORTEST else ""


def _create(path: Path) -> str:
    token = secrets.token_urlsafe(24)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)
        file.flush()
        os.fsync(descriptor)
    temporary.replace(path)
    return token
