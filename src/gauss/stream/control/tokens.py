"""Who may use the HTTP API: two tokens, each in its own file in the data directory, and the sessions of browsers that
follow from them."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gauss.http.sign_in import SESSION_SECONDS
from gauss.model.errors import StorageError
from gauss.model.paths import DataDir

_SHORTEST = 16

Role = Literal["viewer", "operator"]
"""A viewer reads; an operator may change everything."""


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


def session(role: Role, tokens: Tokens) -> str:
    """The cookie of a new session. It is signed with the token of its role: a new token ends all sessions."""
    until = f"{role}.{int(time.time()) + SESSION_SECONDS}"
    return f"{until}.{_signature(until, role, tokens)}"


def session_role(cookie: str, tokens: Tokens) -> Role | None:
    """The role of a session; None if its cookie is forged or has expired."""
    until, _, signature = cookie.rpartition(".")
    name, _, seconds = until.partition(".")
    role: Role | None = "operator" if name == "operator" else "viewer" if name == "viewer" else None
    if role is None or not hmac.compare_digest(signature.encode(), _signature(until, role, tokens).encode()):
        return None
    return role if int(seconds) > time.time() else None


def _signature(text: str, role: Role, tokens: Tokens) -> str:
    key = tokens.full if role == "operator" else tokens.read
    return hmac.new(key.encode(), f"session {text}".encode(), hashlib.sha256).hexdigest()
