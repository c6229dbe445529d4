"""Copies of directories file by file: blocks shared by the file system (reflink), or copied."""

from __future__ import annotations

import errno
import shutil
import subprocess
from pathlib import Path

from gauss.dbstates.statefs.statefs import clean, partial, sorted_error
from gauss.model.errors import DiskFull, GaussError, StorageError


class CopiedFiles:
    """Copies every block: works everywhere, and takes time and disk by size."""

    name = "copy"
    atomic = False
    _how = "--reflink=never"

    def create(self, path: Path) -> None:
        path.mkdir(mode=0o700)

    def clone(self, source: Path, target: Path) -> None:
        self._copy(source, target, "the clone")

    def snapshot(self, source: Path, target: Path) -> None:
        self._copy(source, target, "the snapshot")

    def seal(self, path: Path) -> None:
        """Nothing writes to a state: clones are copies."""

    def remove_path(self, path: Path) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno == errno.EROFS:  # sealed by the other backend, before the setting was changed
                from gauss.dbstates.statefs.btrfs import Btrfs

                Btrfs().remove_path(path)
                return
            raise sorted_error(error, "the removal") from error

    def _copy(self, source: Path, target: Path, what: str) -> None:
        fresh = partial(target)
        self.remove_path(fresh)
        try:
            copy_files(source, fresh, self._how, what)
        except GaussError:
            self.remove_path(fresh)
            raise
        clean(fresh)
        fresh.rename(target)


def copy_files(source: Path, target: Path, how: str, what: str) -> None:
    """`cp` keeps owner and mode, so ownership is set once, when the first directory is made."""
    command = ["cp", "-aT", how, "--", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"LC_ALL": "C", "PATH": _PATH})
    if done.returncode:
        if "No space left" in done.stderr or "quota exceeded" in done.stderr:
            raise DiskFull(f"the disk is full: {what}", hint="free space; gauss db rm removes states")
        why = (done.stderr.strip().splitlines() or ["no error output"])[0].rpartition(": ")[2]
        raise StorageError(f"{what} failed: {why}", hint="check the disk of the store")


class SharedFiles(CopiedFiles):
    """Shares blocks until they are written (XFS, bcachefs, btrfs): time by the number of files."""

    name = "reflink"
    _how = "--reflink=always"


_PATH = "/usr/local/bin:/usr/bin:/bin"
