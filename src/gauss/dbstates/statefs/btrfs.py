"""Subvolumes of btrfs: a snapshot takes milliseconds whatever the size, and is of one moment."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

from gauss.dbstates.statefs.files import copy_files
from gauss.dbstates.statefs.statefs import clean, partial, sorted_error
from gauss.model.errors import GaussError, StorageError

_SUBVOL_CREATE = 0x5000940E
_SNAP_DESTROY = 0x5000940F
_SNAP_CREATE = 0x50009417
_GET_FLAGS = 0x80089419
_SET_FLAGS = 0x4008941A
_READ_ONLY = 1 << 1
_ROOT_INODE = 256


class Btrfs:
    """Uses the ioctls of btrfs; needs no program and no root."""

    name = "btrfs"
    atomic = True

    def create(self, path: Path) -> None:
        with _errors("the subvolume"), _folder(path.parent) as parent:
            _ioctl(parent, _SUBVOL_CREATE, struct.pack("=q4088s", 0, os.fsencode(path.name)))

    def clone(self, source: Path, target: Path) -> None:
        with _errors("the clone"):
            if source.stat().st_ino == _ROOT_INODE:
                _snapshot(source, target)
                return
        # Made by another backend, before the setting was changed.
        fresh = partial(target)
        self.remove_path(fresh)
        self.create(fresh)
        try:
            copy_files(source, fresh, "--reflink=always", "the clone")
        except GaussError:
            self.remove_path(fresh)
            raise
        fresh.rename(target)

    def snapshot(self, source: Path, target: Path) -> None:
        fresh = partial(target)
        self.remove_path(fresh)
        with _errors("the snapshot"):
            _snapshot(source, fresh)
            clean(fresh)
            fresh.rename(target)
        self.seal(target)

    def seal(self, path: Path) -> None:
        with _errors("the seal"):
            _set_read_only(path, True)

    def remove_path(self, path: Path) -> None:
        with _errors("the removal"):
            if not path.is_symlink() and not path.exists():
                return
            if path.stat().st_ino != _ROOT_INODE:
                _remove_folder(self, path)
                return
            try:
                with _folder(path.parent) as parent:
                    _ioctl(parent, _SNAP_DESTROY, struct.pack("=q4088s", 0, os.fsencode(path.name)))
            except PermissionError:  # a mount without user_subvol_rm_allowed: an empty subvolume is removed as a folder
                _set_read_only(path, False)
                shutil.rmtree(path)


def _remove_folder(backend: Btrfs, path: Path) -> None:
    """Removes a folder that may hold subvolumes."""
    for each in path.iterdir():
        if each.is_dir() and not each.is_symlink() and each.stat().st_ino == _ROOT_INODE:
            backend.remove_path(each)
    shutil.rmtree(path)


def _snapshot(source: Path, target: Path) -> None:
    with _folder(target.parent) as parent, _folder(source) as origin:
        _ioctl(parent, _SNAP_CREATE, struct.pack("=qQQ32s4040s", origin, 0, 0, b"", os.fsencode(target.name)))


def _set_read_only(path: Path, wanted: bool) -> None:
    with _folder(path) as folder:
        flags = bytearray(8)
        fcntl.ioctl(folder, _GET_FLAGS, flags, True)
        found = int.from_bytes(flags, "little")
        changed = found | _READ_ONLY if wanted else found & ~_READ_ONLY
        if changed != found:
            fcntl.ioctl(folder, _SET_FLAGS, bytearray(changed.to_bytes(8, "little")), True)


def _ioctl(folder: int, number: int, argument: bytes) -> None:
    fcntl.ioctl(folder, number, bytearray(argument), True)


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOTTY:
            raise StorageError(f"{what} failed: not a btrfs file system", hint="see snapshot.backend") from error
        raise sorted_error(error, what) from error
