"""Empty clusters, made once per build."""

from __future__ import annotations

from pathlib import Path

from gauss.dbstates.prepare.control import JobControl
from gauss.dbstates.prepare.state_lock import locked
from gauss.dbstates.runtimes.runtime import Build, Runtime
from gauss.dbstates.statefs.statefs import StateFS, partial
from gauss.dbstates.store.layout import Layout
from gauss.model.files import make_private
from gauss.process.identity import boot_id

UNSYNCED = ".unsynced"


class Bases:
    """The first parents of all states."""

    def __init__(self, layout: Layout, statefs: StateFS) -> None:
        self._layout, self._statefs = layout, statefs

    def forget_unsynced(self) -> None:
        """Removes the clusters that were not known to be on disk when the machine went down."""
        for mark in self._layout.engines.glob(f"*/*/base/*{UNSYNCED}"):
            if mark.read_text() != boot_id():
                self._statefs.remove_path(mark.with_suffix(""))
                mark.unlink()

    def synced(self) -> None:
        """Notes that all clusters are on disk."""
        for mark in self._layout.engines.glob(f"*/*/base/*{UNSYNCED}"):
            mark.unlink()

    def path(self, build: Build) -> Path:
        return self._layout.base(build.engine, build.version, build.base)

    def ensure(self, build: Build, runtime: Runtime, control: JobControl) -> Path:
        """The sealed directory of an empty cluster."""
        path = self.path(build)
        if (path / "PG_VERSION").exists():
            return path
        with locked(self._layout.state_lock(build.base), control):
            if (path / "PG_VERSION").exists():
                return path
            make_private(path.parent)
            make_private(path.parent.parent / "states")
            fresh = partial(path)
            self._statefs.remove_path(fresh)
            self._statefs.create(fresh)
            try:
                runtime.create_base(build, fresh)
                _unsynced(path).write_text(boot_id())
                fresh.rename(path)
                self._statefs.seal(path)
            except BaseException:
                self._statefs.remove_path(fresh)
                raise
        return path


def _unsynced(path: Path) -> Path:
    """Has the boot in which a cluster was made, until it is on disk for good."""
    return path.with_name(f"{path.name}{UNSYNCED}")
