"""How an embedded server is found: files of mode 0600 in its directory."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from gauss.model.errors import StorageError
from gauss.model.files import read_json, write_private
from gauss.process import locks
from gauss.process.ports import free_port

OWNER_LOCK = "owner.lock"


@dataclass(frozen=True)
class Endpoint:
    """Address and password of a running server; its repr hides the password."""

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
        """The URL for a client, password included."""
        secret = quote(self.password, safe="")
        return f"{self.scheme}://{self.user}:{secret}@{self.host}:{self.port}/{quote(self.database, safe='')}"

    @property
    def shown(self) -> dict[str, str]:
        """What a client needs to connect, as commands print it."""
        return {"bootstrap": f"{self.host}:{self.port}"} if self.scheme == "kafka" else {"url": self.url}

    def __repr__(self) -> str:
        return f"Endpoint({self.scheme}://{self.user}@{self.host}:{self.port}/{self.database})"


@dataclass(frozen=True)
class Identity:
    """What a server keeps across restarts, so that clients that retry find it again."""

    password: str
    port: int


def read_endpoint(directory: Path) -> Endpoint | None:
    """The running server of a directory; None if none is announced."""
    found = read_json(directory / "endpoint.json")
    return Endpoint(**found) if found else None


def announce(directory: Path, endpoint: Endpoint) -> None:
    write_private(directory / "endpoint.json", asdict(endpoint))


def withdraw(directory: Path) -> None:
    (directory / "endpoint.json").unlink(missing_ok=True)


def identity(directory: Path, port: int = 0) -> Identity:
    """The stored identity, made at the first call; `port` overrides the stored one."""
    path = directory / "identity.json"
    kept = read_json(path) or {}
    found = Identity(
        kept.get("password") or secrets.token_urlsafe(24), port or free_port(wanted=int(kept.get("port", 0)))
    )
    if asdict(found) != kept:
        write_private(path, asdict(found), durable=True)
    return found


def lock(directory: Path, seconds: float) -> int:
    """Locks a directory for this process; waits for a predecessor that is ending."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = locks.take(directory / OWNER_LOCK, wait_seconds=seconds)
    if descriptor is None:
        raise StorageError(
            f"{directory} belongs to another process, which still runs",
            hint="stop the run that uses this data directory, or choose another with --data-dir",
        )
    return descriptor


def owned(directory: Path) -> bool:
    """Whether an owner process holds the directory."""
    return locks.is_locked(directory / OWNER_LOCK)
