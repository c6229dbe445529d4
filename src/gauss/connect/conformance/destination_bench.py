"""Writes rows through a destination under test, and reads them back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gauss.connect.attempt import close, typed
from gauss.connect.conformance.bench import Bench
from gauss.connect.conformance.case import CaseFailed, NotApplicable
from gauss.connect.conformance.compare import difference
from gauss.connect.conformance.datasets import BASIC, Values
from gauss.connect.conformance.generator import ID, write_rows
from gauss.connect.conformance.kit_sync import KitSync, Running, start, succeeded
from gauss.connect.sync import SyncResult
from gauss.contracts.connector.arrow_types import type_name
from gauss.contracts.connector.connector import ManagedDestination
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.lifecycle import Feature
from gauss.contracts.connector.spec import DestinationSpec

CANT_READ = "can't read back: there is no source of the same name, and no `verify` in the config"


@dataclass(frozen=True)
class Wrote:
    """A run that wrote rows."""

    sync: KitSync
    result: SyncResult


class DestinationBench(Bench):
    """A destination under test."""

    @property
    def modes(self) -> frozenset[str]:
        """The write modes to try."""
        if self.settings.write:
            return frozenset(self.settings.write)
        spec = self.target.spec
        return spec.writes if isinstance(spec, DestinationSpec) else frozenset({"append"})

    def needs_mode(self, mode: str) -> None:
        if mode not in self.modes:
            raise NotApplicable(f"the destination does not write by {mode}")

    def needs_managed(self) -> None:
        if not self.is_managed:
            raise NotApplicable("not a ManagedDestination: the host knows nothing of its tables")

    def is_exact(self) -> bool:
        """Whether the destination promises every row exactly once."""
        return self.is_managed or Feature.EXACTLY_ONCE in self.info().features

    # --- writing ---

    def prepare(
        self,
        rows: pa.Table,
        stream: str,
        *,
        write: str = "append",
        mode: str = "",
        generator: dict[str, Any] | None = None,
        config: dict[str, Any] | None = None,
        **more: Any,
    ) -> KitSync:
        """A sync that writes rows to a stream. The next one for the same stream goes on with its state."""
        path = self.folder() / "rows.arrow"
        write_rows(rows, path)
        mode = mode or ("full_refresh" if write == "replace" else "incremental")
        entry: dict[str, Any] = {"name": stream, "mode": mode, "write": write}
        if mode == "incremental":
            entry["cursor"] = ID
        if write == "upsert":
            entry["key"] = [ID]
        source = self.generator({stream: path}, **(generator or {}))
        return self.sync(source, self.target.definition(**(config or {})), [entry], self.data_dir(stream), **more)

    def write(self, rows: pa.Table, stream: str, **how: Any) -> Wrote:
        """Writes rows, and fails the case if that fails."""
        sync = self.prepare(rows, stream, **how)
        return Wrote(sync, succeeded(self.run(sync)))

    def try_write(self, rows: pa.Table, stream: str, **how: Any) -> Wrote:
        sync = self.prepare(rows, stream, **how)
        return Wrote(sync, self.run(sync))

    def start(self, rows: pa.Table, stream: str, **how: Any) -> Running:
        return start(self.prepare(rows, stream, **how))

    # --- reading back ---

    def needs_reading(self) -> None:
        if self.settings.verify is None:
            self.partner(CANT_READ)

    def read_back(self, stream: str) -> pa.Table:
        """The rows at the destination."""
        self.needs_reading()
        if self.settings.verify is not None:
            return self.hook(self.settings.verify)(dict(self.target.config), stream)
        return self.read_all(self.partner(CANT_READ).definition(), stream)

    def must_hold(self, stream: str, expected: pa.Table) -> None:
        """Fails the case if the destination does not hold exactly these rows."""
        if text := difference(expected, self.read_back(stream)):
            raise CaseFailed(text)

    # --- types ---

    def supported(self, chosen: Values) -> Values:
        """The entries whose type the destination takes."""
        if not self.is_managed:
            names = self.settings.types or BASIC
            return {name: given for name, given in chosen.items() if type_name(given[0]) in names}
        return {name: given for name, given in chosen.items() if self.landed(given[0]) is not None}

    def landed(self, kind: pa.DataType) -> pa.Field | None:
        """The column that the destination makes for a type; None if it does not take it."""
        return self.cached(f"landed {kind}", lambda: self._landed(kind))

    def _landed(self, kind: pa.DataType) -> pa.Field | None:
        manager = self.cached("manager", self._manager)
        try:
            return typed(lambda: manager.landed(pa.schema([("a", kind)]))).field(0)
        except ConnectorError:
            return None

    def _manager(self) -> ManagedDestination:
        """An instance that is only asked for types, and stays open."""
        made = self.make().connector
        typed(lambda: made.open(self.open_context()))
        assert isinstance(made, ManagedDestination)
        return made

    def close(self) -> None:
        if (manager := self._cache.get("manager")) is not None:
            close(manager)

    def place(self, file: str) -> Path:
        """A path that does not exist yet."""
        return self.folder() / file
