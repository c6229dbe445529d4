"""Where an embedded server is found: files in its directory, which only their owner may read."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from gauss.model.errors import StorageError
from gauss.model.files import is_locked, read_json, write_private
from gauss.model.ports import free_port


@dataclass(frozen=True)
class Endpoint:
    """Address and secret of a running server; never printed whole by accident."""

    scheme: str
    host: str
    port: int
    user: str
    password: str
    database: str
    pid: int = 0
    """The owner process; 0 for a server that Gauss did not start."""

    @property
    def url(self) -> str:
        """What a user pastes into a client, secret included."""
        secret = quote(self.password, safe="")
        return f"{self.scheme}://{self.user}:{secret}@{self.host}:{self.port}/{quote(self.database, safe='')}"

    def __repr__(self) -> str:
        return f"Endpoint({self.scheme}://{self.user}@{self.host}:{self.port}/{self.database})"


@dataclass(frozen=True)
class Identity:
    """What a server keeps over restarts, so that clients which retry find it again."""

    password: str
    port: int


def read_endpoint(directory: Path) -> Endpoint | None:
    """The running server of a directory; None when none is announced."""
    found = read_json(directory / "endpoint.json")
    return Endpoint(**found) if found else None


def announce(directory: Path, endpoint: Endpoint) -> None:
    write_private(directory / "endpoint.json", asdict(endpoint))


def withdraw(directory: Path) -> None:
    (directory / "endpoint.json").unlink(missing_ok=True)


def identity(directory: Path, port: int = 0) -> Identity:
    """The kept identity, made at the first call; `port` overrules the kept one."""
    path = directory / "identity.json"
    kept = read_json(path) or {}
    found = Identity(
        kept.get("password") or secrets.token_urlsafe(24), port or free_port(wanted=int(kept.get("port", 0)))
    )
    if asdict(found) != kept:
        write_private(path, asdict(found), durable=True)
    return found


def lock(directory: Path, seconds: float) -> int:
    """Takes a directory for this process; a predecessor that is ending is waited for."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory / "owner.lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                raise StorageError(
                    f"{directory} belongs to another process, which still runs",
                    hint="stop the run that uses this data directory, or choose another with --data-dir",
                ) from None
            time.sleep(0.02)


def owned(directory: Path) -> bool:
    """Whether an owner process holds the directory."""
    return is_locked(directory / "owner.lock")
