"""The folders of a store. No path of it leaves the engine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gauss.model.files import make_private

VARIABLE = "GAUSS_STATE_STORE"


@dataclass(frozen=True)
class StateDir:
    """The folder `dbstates` of a data directory: how commands find the engine."""

    root: Path

    @classmethod
    def of(cls, data_dir: Path) -> StateDir:
        return cls(data_dir.absolute() / "dbstates")

    @property
    def engine_json(self) -> Path:
        """pid, endpoint and token of the engine; mode 0600."""
        return self.root / "engine.json"

    @property
    def start_lock(self) -> Path:
        """Held by a command that starts the engine."""
        return self.root / "start.lock"

    @property
    def log(self) -> Path:
        return self.root / "engine.log"

    @property
    def audit(self) -> Path:
        return self.root / "audit.ndjson"

    def store(self) -> Path:
        """The store's root: GAUSS_STATE_STORE, or `state-store`."""
        given = os.environ.get(VARIABLE, "")
        return Path(given).absolute() if given else self.root / "state-store"


@dataclass(frozen=True)
class Layout:
    """The paths in a store."""

    root: Path

    def make(self) -> None:
        for folder in (self.root, self.engines, self.instances, self.jobs, self.locks):
            make_private(folder)

    @property
    def lock(self) -> Path:
        """Locked by the engine that uses the store."""
        return self.root / "engine.lock"

    @property
    def metadata(self) -> Path:
        return self.root / "metadata.db"

    @property
    def engines(self) -> Path:
        return self.root / "engines"

    @property
    def instances(self) -> Path:
        return self.root / "instances"

    @property
    def jobs(self) -> Path:
        return self.root / "jobs"

    @property
    def locks(self) -> Path:
        return self.root / "locks"

    def base(self, engine: str, version: str, base: str) -> Path:
        return self.engines / engine / version / "base" / base

    def state(self, engine: str, version: str, state: str) -> Path:
        return self.engines / engine / version / "states" / state

    def instance(self, instance: str) -> Path:
        """Folder of an instance: its data directory and the server's log."""
        return self.instances / instance

    def data(self, instance: str) -> Path:
        return self.instance(instance) / "data"

    def server_log(self, instance: str) -> Path:
        return self.instance(instance) / "server.log"

    def job(self, job: str) -> Path:
        return self.jobs / job

    def state_lock(self, state: str) -> Path:
        """Locked while the state is made."""
        return self.locks / f"{state}.lock"
