"""What cases work with: the connector under test, the kit's own counterparts, and folders."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from gauss import registry
from gauss.config.sync_rules import last_part
from gauss.config.syncs import ConnectorDef, SyncDef
from gauss.connect.attempt import Side, close, typed
from gauss.connect.conformance import collector, generator
from gauss.connect.conformance.case import CaseFailed, NotApplicable, Role
from gauss.connect.conformance.kit_sync import KitSync, Running, finish, start
from gauss.connect.conformance.scratch import MemoryState, Observed
from gauss.connect.conformance.settings import KitSettings
from gauss.connect.conformance.target import Target
from gauss.connect.conformance.watch import Record
from gauss.connect.host import StreamHost, StreamRun
from gauss.connect.sync import SyncResult
from gauss.contracts.connector.connector import ManagedDestination
from gauss.contracts.connector.lifecycle import Catalog, JsonConfig, OpenContext, OpenInfo
from gauss.contracts.connector.progress import CheckpointKind
from gauss.contracts.connector.stream import Columns, StreamContext, SyncMode

T = TypeVar("T")
SYNC = "kit"
KINDS = {Role.SOURCE: CheckpointKind.SOURCE, Role.DESTINATION: CheckpointKind.DEST}


@dataclass
class Opened:
    """A connector that the kit has opened itself."""

    connector: Any
    info: OpenInfo
    run: StreamRun
    observed: Observed


class Bench:
    """The connector under test, in one role."""

    def __init__(self, target: Target, other: Target | None, settings: KitSettings, folder: Path) -> None:
        """`other`: the connector of the same name in the other role."""
        self.target, self.other, self.settings = target, other, settings
        self.role = target.role
        self.random = random.Random(settings.seed)
        self.hung = False
        """Whether a run did not end, so that this process can't end by itself."""
        self._root, self._count = folder, 0
        # Not from the seed: tables of an earlier test may still be there.
        self._unique = secrets.token_hex(3)
        self._cache: dict[str, Any] = {}
        self._data_dirs: dict[str, Path] = {}

    def prime(self) -> None:
        """Makes what the first cases need."""

    def close(self) -> None:
        """Closes what cases have shared."""

    def folder(self) -> Path:
        """A new folder."""
        self._count += 1
        made = self._root / f"{self._count:04}"
        made.mkdir(parents=True)
        return made

    def stream_name(self, word: str) -> str:
        """A stream that nobody else uses."""
        self._count += 1
        return f"gk_{self._unique}_{self._count}_{word}"

    def cached(self, name: str, make: Callable[[], T]) -> T:
        """A value that several cases share."""
        if name not in self._cache:
            self._cache[name] = make()
        found: T = self._cache[name]
        return found

    # --- opening ---

    @contextmanager
    def opened(self, config: dict[str, Any] | None = None, stream: StreamContext | None = None) -> Iterator[Opened]:
        """An opened connector, closed at the end. Raises ConnectorError. `config` reaches the connector itself, without
        a check by its spec."""
        made = self.make(stream)
        info = typed(lambda: made.connector.open(self.open_context(config)))
        try:
            yield Opened(made.connector, info, made.run, made.observed)
        finally:
            close(made.connector)

    def make(self, stream: StreamContext | None = None) -> Opened:
        """A connector that is not open yet."""
        stream = stream or StreamContext("", Columns([]), SyncMode.FULL_REFRESH)
        observed = Observed()
        run = StreamRun(stream, MemoryState(), observed, pipeline=SYNC)
        side = self._side()
        made = typed(lambda: side.make(StreamHost(run, KINDS[self.role], side.id)))
        return Opened(made, OpenInfo(), run, observed)

    def open_context(self, config: dict[str, Any] | None = None) -> OpenContext:
        side = self._side()
        given = side.config if config is None else JsonConfig(config)
        return OpenContext(given, side.id, side.version)

    def _side(self) -> Side:
        kit = {Role.SOURCE: ConnectorDef(connector=generator.NAME), Role.DESTINATION: self.collector(self._root)}
        sides = {**kit, self.role: self.target.definition()}
        return self._sync(sides[Role.SOURCE], sides[Role.DESTINATION], self._root, {}).side(KINDS[self.role])

    def info(self) -> OpenInfo:
        def ask() -> OpenInfo:
            with self.opened() as found:
                return found.info

        return self.cached("info", ask)

    @property
    def is_managed(self) -> bool:
        return self.cached("managed", lambda: isinstance(self.make().connector, ManagedDestination))

    # --- running ---

    def sync(
        self, source: ConnectorDef, destination: ConnectorDef, streams: Any, data_dir: Path | None = None, **more: Any
    ) -> KitSync:
        """A sync whose connectors are watched."""
        more = {"max_attempts": 3, **more}
        return self._sync(source, destination, data_dir or self.folder(), {"streams": streams, **more})

    def _sync(self, source: ConnectorDef, destination: ConnectorDef, data_dir: Path, more: dict[str, Any]) -> KitSync:
        sides = {"source": _table(source), "destination": _table(destination)}
        definition = SyncDef.model_validate({"name": SYNC, **sides, **more})
        return KitSync(definition, self.target.base_dir, data_dir)

    def run(self, sync: KitSync) -> SyncResult:
        """Runs a sync to its end."""
        return self.finish(start(sync))

    def finish(self, running: Running) -> SyncResult:
        try:
            return finish(running, self.settings.timeout_secs, self.settings.patience_secs)
        except CaseFailed:
            self.hung = self.hung or running.thread.is_alive()
            raise

    def must_end(self, running: Running, after: str) -> SyncResult:
        """The result of a run that was stopped; fails the case if it goes on."""
        if not running.ended_within(self.settings.patience_secs):
            self.hung = True
            raise CaseFailed(f"the run did not end within {self.settings.patience_secs:g} s after {after}")
        return running.result()

    def record(self, sync: KitSync) -> Record:
        """What the connector under test did."""
        return sync.records[KINDS[self.role]]

    def collector(self, folder: Path, **config: Any) -> ConnectorDef:
        given: dict[str, Any] = {"folder": str(folder), **config}
        return ConnectorDef(connector=collector.NAME, **given)

    def generator(self, files: dict[str, Path], **config: Any) -> ConnectorDef:
        given: dict[str, Any] = {"files": {name: str(path) for name, path in files.items()}, **config}
        return ConnectorDef(connector=generator.NAME, **given)

    def data_dir(self, stream: str) -> Path:
        """The data directory of all runs that write a stream: the state of one is the start of the next."""
        if stream not in self._data_dirs:
            self._data_dirs[stream] = self.folder()
        return self._data_dirs[stream]

    # --- the other side of the same system ---

    def hook(self, path: str) -> Callable[..., Any]:
        found = registry.load_path(path, "hook")
        if not callable(found):
            raise CaseFailed(f'"{path}" is not a function')
        return found

    def partner(self, reason: str) -> Target:
        """The connector of the same name in the other role."""
        if self.other is None or self.other.spec is None:
            raise NotApplicable(reason)
        return self.other

    def read_all(self, definition: ConnectorDef, stream: str) -> pa.Table:
        """The rows that a source has in a stream, by the last part of its name."""
        folder = self.folder()
        sync = self.sync(definition, self.collector(folder), "*")
        name = find_stream(sync.discover(), stream)
        sync = self.sync(definition, self.collector(folder), [{"name": name}])
        result = self.run(sync)
        if result.error is not None:
            raise CaseFailed(f"{stream} can't be read back: {result.error.message}")
        return collector.collected(folder, name, full=True)


def find_stream(catalog: Catalog, stream: str) -> str:
    """The stream of a source that another connector has written; fails the case if there is none."""
    names = [each.name for each in catalog.streams]
    for name in names:
        if name == stream or last_part(name) == last_part(stream):
            return name
    raise CaseFailed(f"the source has no stream {stream}: it has {', '.join(names[:10]) or 'none'}")


def _table(definition: ConnectorDef) -> dict[str, Any]:
    return {"connector": definition.connector, **definition.config}
