"""Who may use the HTTP API: two tokens, each in its own file in the data directory; the sessions of browsers that
follow from them; one-time codes that open a session."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gauss.model.errors import StorageError
from gauss.model.paths import DataDir

_SHORTEST = 16
SESSION_SECONDS = 30 * 86_400
CODE_SECONDS = 900.0
"""How long a one-time code is valid: it is printed, and what is printed may end in a log."""
MOST_CODES = 100

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


class SignInCodes:
    """One-time codes, each for one session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._codes: dict[str, tuple[Role, float]] = {}

    def issue(self, role: Role) -> str:
        """A new code. The oldest one is forgotten when there are too many."""
        code = secrets.token_urlsafe(18)
        with self._lock:
            self._codes[code] = (role, time.monotonic() + CODE_SECONDS)
            while len(self._codes) > MOST_CODES:
                del self._codes[next(iter(self._codes))]
        return code

    def redeem(self, code: str) -> Role | None:
        """The role of a code, which is used up by this; None if it is unknown, used or too old."""
        with self._lock:
            role, until = self._codes.pop(code, (None, 0.0))
        return role if time.monotonic() < until else None


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
