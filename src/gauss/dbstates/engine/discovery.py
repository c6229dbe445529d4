"""`engine.json`: how commands find the engine."""

from __future__ import annotations

import os
import secrets
import socket
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gauss.dbstates.engine.engine import DatabaseEngine
from gauss.dbstates.store.layout import StateDir
from gauss.model.files import write_private

LONGEST_SOCKET = 100
"""The address of a Unix socket has at most 107 bytes."""


class Listener:
    """The socket of the REST interface: a Unix socket in the data directory, or loopback if its path is too long."""

    def __init__(self, folder: StateDir) -> None:
        self.path: Path | None = folder.root / "engine.sock"
        if len(os.fsencode(self.path)) > LONGEST_SOCKET:
            self.path = None
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self.socket.bind(("127.0.0.1", 0))
        else:
            self.path.unlink(missing_ok=True)
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.bind(str(self.path))
            self.path.chmod(0o600)
        self.socket.listen(256)

    @property
    def place(self) -> dict[str, Any]:
        """Its part of `engine.json`."""
        if self.path is not None:
            return {"endpoint": f"unix:{self.path}", "socket_path": str(self.path)}
        port = self.socket.getsockname()[1]
        return {"endpoint": f"http://127.0.0.1:{port}", "port": port}

    def close(self) -> None:
        """Closes and removes the socket; once, for the next engine makes one at the same path."""
        self.socket.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            self.path = None


def announce(engine: DatabaseEngine, listener: Listener) -> str:
    """Writes `engine.json`; returns the token."""
    token = secrets.token_urlsafe(24)
    write_private(
        engine.folder.engine_json,
        {
            "pid": os.getpid(),
            **listener.place,
            "startedAt": datetime.now(UTC).isoformat(),
            "lockfile": str(engine.layout.lock),
            "instanceId": engine.instance,
            "authToken": token,
            "version": version("gauss"),
        },
    )
    return token


def withdraw(folder: StateDir) -> None:
    folder.engine_json.unlink(missing_ok=True)
