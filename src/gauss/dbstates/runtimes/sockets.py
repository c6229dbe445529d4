"""Folders for the Unix sockets of servers: short paths, private, outside the store, whose path may be too long."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import tempfile
from pathlib import Path

from gauss.clients.postgres.binaries import RunAs
from gauss.dbstates.store.metadata import Metadata
from gauss.model.errors import StorageError

LONGEST_ROOT = 50
"""An address of a Unix socket has 107 bytes: root, instance, name of the socket."""
NAME = 12
"""Digits of an instance's id in its folder's name."""


class Sockets:
    """One folder per store, one in it per instance."""

    def __init__(self, metadata: Metadata, user: RunAs) -> None:
        parent = tempfile.gettempdir()
        if len(parent) > LONGEST_ROOT - 20:
            parent = "/tmp"
        self._user = user
        self.root = Path(metadata.identity("sockets", f"{parent}/gauss-db-{secrets.token_hex(6)}"))
        self._make_root()

    def _make_root(self) -> None:
        self.root.mkdir(mode=0o700, exist_ok=True)
        if self.root.stat().st_uid != os.geteuid() or self.root.is_symlink():
            raise StorageError(f"the socket folder {self.root} belongs to another user", hint="remove it")
        self.root.chmod(0o711 if self._user.changed else 0o700)  # the user that runs Postgres must get through

    def make(self, instance: str, version: str) -> Path:
        """The folder of an instance, with the rules by which its server lets clients in."""
        self._make_root()
        folder = self.folder(instance)
        folder.mkdir(mode=0o700, exist_ok=True)
        mapped = "all" if int(version.partition(".")[0]) >= 16 else "postgres"
        files = {
            "pg_hba.conf": "local all all peer map=gauss\nhost all all 127.0.0.1/32 scram-sha-256\n",
            "pg_ident.conf": f"gauss {_own_name()} {mapped}\n",
        }
        for name, content in files.items():
            (folder / name).write_text(content)
            self._user.give(folder / name)
        self._user.give(folder)
        return folder

    def folder(self, instance: str) -> Path:
        return self.root / instance[:NAME]

    def remove(self, instance: str) -> None:
        shutil.rmtree(self.folder(instance), ignore_errors=True)

    def remove_others(self, kept: set[str]) -> None:
        """Removes the folders of instances that do not exist any more."""
        names = {instance[:NAME] for instance in kept}
        if not self.root.exists():
            return
        for folder in self.root.iterdir():
            if folder.name not in names:
                shutil.rmtree(folder, ignore_errors=True)
        if not names:
            with contextlib.suppress(OSError):  # something could not be removed
                self.root.rmdir()


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise StorageError(
            f"the user {os.geteuid()} has no name, so Postgres can't recognise it", hint="add it to /etc/passwd"
        ) from None
