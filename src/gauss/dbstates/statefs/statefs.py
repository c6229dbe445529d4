"""Copies of data directories: the interface of the backends, and the choice of one."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gauss.model.errors import ConfigError, DiskFull, GaussError, StorageError

SERVER_FILES = ("postmaster.pid", "postmaster.opts")
"""Files of a running server, which a sealed state does not have."""


class StateFS(Protocol):
    """Makes, copies, seals and removes data directories."""

    name: str
    atomic: bool
    """Whether a snapshot of a running server's directory is a state of one moment."""

    def create(self, path: Path) -> None:
        """An empty directory, to be filled by `initdb`."""

    def clone(self, source: Path, target: Path) -> None:
        """A writable copy of a sealed directory. Whole, or not there."""

    def snapshot(self, source: Path, target: Path) -> None:
        """A sealed copy of a directory that nobody writes to at the moment. Whole, or not there."""

    def seal(self, path: Path) -> None:
        """Makes a directory immutable."""

    def remove_path(self, path: Path) -> None:
        """Removes a directory, sealed or not, whole or not. Idempotent."""


def validate(path: Path) -> None:
    """Raises StorageError unless the directory is a whole one that no server has or had open."""
    if not (path / "PG_VERSION").exists():
        raise StorageError(
            "the data directory is incomplete: it has no PG_VERSION", hint="remove the state: gauss db rm"
        )
    if (path / "postmaster.pid").exists():
        raise StorageError(
            "the data directory is in use, or its server was killed: it has a postmaster.pid",
            hint="remove the state: gauss db rm",
        )


def clean(path: Path) -> None:
    """Removes what a running server has left in a copy of its directory."""
    for name in SERVER_FILES:
        (path / name).unlink(missing_ok=True)


def partial(target: Path) -> Path:
    """Where a copy is written before it gets its name."""
    return target.with_name(f"{target.name}.partial")


def choose(store: Path, wanted: str) -> StateFS:
    """The backend for a store's file system: the wanted one, or with `auto` the best that works."""
    from gauss.dbstates.statefs.btrfs import Btrfs
    from gauss.dbstates.statefs.files import CopiedFiles, SharedFiles

    backends: dict[str, Callable[[], StateFS]] = {"btrfs": Btrfs, "reflink": SharedFiles, "copy": CopiedFiles}
    failed = []
    for name in backends if wanted == "auto" else (wanted,):
        backend = backends[name]()
        why = probe(backend, store)
        if not why:
            return backend
        failed.append(f"{name}: {why}")
    raise ConfigError(
        f"snapshot.backend: the file system of the store can't be used ({'; '.join(failed)})",
        hint='choose another backend, or "auto"',
    )


def probe(backend: StateFS, store: Path) -> str:
    """Why a backend does not work in a folder; empty if it does."""
    place = store / f".probe-{secrets.token_hex(4)}"
    source, copy = place / "source", place / "copy"
    try:
        place.mkdir(mode=0o700)
        backend.create(source)
        (source / "file").write_bytes(b"x" * 8192)
        backend.snapshot(source, copy)
        return ""
    except GaussError as error:
        return error.message
    except OSError as error:
        return error.strerror or str(error)
    finally:
        for path in (copy, source, partial(copy)):
            backend.remove_path(path)
        shutil.rmtree(place, ignore_errors=True)


def sorted_error(error: OSError, what: str) -> GaussError:
    """An error of the file system, without paths of the store."""
    import errno

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"the disk is full: {what}", hint="free space; gauss db rm removes states")
    return StorageError(f"{what} failed: {error.strerror or error}", hint="check the disk of the store")
