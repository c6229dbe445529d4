"""The data directory of `gauss serve`: its lock, the first token, and the file that announces the API."""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from threading import Event
from typing import Self

from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.access import Role, Token
from gauss.model.errors import ConfigError, Unavailable
from gauss.model.files import make_private, read_json, write_private
from gauss.model.paths import unusable
from gauss.process import locks

START_SECONDS = 60.0
_LOOK_SECONDS = 0.05


class Served:
    """One server at a time in a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir
        self.file = data_dir / "serve.json"
        """`endpoint` and `token`; mode 0600; exists while the API answers."""
        self._lock_fd = -1

    def __enter__(self) -> Self:
        try:
            make_private(self._folder)
            found = locks.take(self._folder / "serve.lock")
        except OSError as error:
            raise unusable(self._folder, error) from error
        if found is None:
            raise ConfigError(
                f"another gauss serve uses the data directory {self._folder}",
                hint="stop it, or name another directory with --data-dir",
            )
        self._lock_fd = found
        self.file.unlink(missing_ok=True)  # of a server that was killed
        return self

    def __exit__(self, *_: object) -> None:
        self.file.unlink(missing_ok=True)
        os.close(self._lock_fd)

    def announce(self, url: str, store: FleetStore, host: str, stop: Event) -> Token:
        """Writes the file once the API answers; returns the token that is in it."""
        token, text = self._token(store, host)
        deadline = time.monotonic() + START_SECONDS
        while not _answers(url) and not stop.is_set():
            if time.monotonic() > deadline:
                raise Unavailable(f"the API at {url} does not answer", hint="see the messages above")
            stop.wait(_LOOK_SECONDS)
        write_private(self.file, {"endpoint": url, "token": text}, durable=True)
        return token

    def _token(self, store: FleetStore, host: str) -> tuple[Token, str]:
        """The token of this directory with its text, kept across restarts; another one if it was revoked."""
        kept = self._folder / "admin.json"
        text = str((read_json(kept) or {}).get("token", ""))
        if (found := store.tokens.find(text)) is not None:
            return found, text
        made, text = store.tokens.create(f"serve@{host}", Role.ADMIN, "gauss serve")
        write_private(kept, {"token": text}, durable=True)
        return made, text


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=5) as found:
            return bool(found.status == 200)
    except (OSError, urllib.error.URLError):
        return False
