"""A module as a source or destination."""

from __future__ import annotations

from pathlib import Path

from gauss.connect.host import StreamHost
from gauss.connect.wasm.guest import Guest, Interrupts, read_module
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.lifecycle import (
    PROTOCOL_VERSION,
    Catalog,
    ConfigBlob,
    OpenContext,
    OpenInfo,
    ValidationResult,
)
from gauss.contracts.connector.progress import CheckpointKind, ReadSummary, WriteSummary
from gauss.contracts.connector.stream import StreamContext


class WasmConnector:
    """Implements `contracts.connector.connector.Source` and `Destination`, as far as the module has their exports."""

    def __init__(self, path: Path, host: StreamHost) -> None:
        self._path, self._host = path, host
        self._guest: Guest | None = None
        self._opened = False
        self._interrupts = Interrupts()

    def open(self, context: OpenContext) -> OpenInfo:
        self._guest = Guest(read_module(self._path), self._path.name, self._host, interrupts=self._interrupts)
        self._check_role(self._guest.roles)
        info = self._guest.call("rb_open", context, OpenInfo)
        self._opened = True
        if info.protocol_version != PROTOCOL_VERSION:
            self.close()
            raise ConnectorError.config(
                "WRONG_PROTOCOL",
                f'{self._path.name} speaks protocol version "{info.protocol_version}", expected "{PROTOCOL_VERSION}"',
            )
        return info

    def _check_role(self, roles: frozenset[str]) -> None:
        wanted, run = ("source", "read") if self._host.kind is CheckpointKind.SOURCE else ("destination", "write")
        if wanted not in roles:
            raise ConnectorError.config(
                "WRONG_ROLE",
                f"{self._path.name} is a {''.join(roles)}, expected a {wanted}, which exports rb_run_{run}",
            )

    def validate(self, config: ConfigBlob) -> ValidationResult:
        return self._running().call("rb_validate", config, ValidationResult)

    def discover(self) -> Catalog:
        return self._running().call("rb_discover", {}, Catalog)

    def run_read(self, stream: StreamContext) -> ReadSummary:
        return self._running().call("rb_run_read", stream, ReadSummary)

    def run_write(self, stream: StreamContext) -> WriteSummary:
        guest = self._running()
        summary = guest.call("rb_run_write", stream, WriteSummary)
        if guest.functions.has_pending:
            raise ConnectorError.internal(
                "ENDED_EARLY", f"{self._path.name} returned without the batch for which its buffer was too small"
            )
        return summary

    def interrupt(self) -> None:
        """Ends the module where it is, also while it is opened or closed. Called by another thread."""
        self._interrupts()

    def close(self) -> None:
        guest, opened, self._guest, self._opened = self._guest, self._opened, None, False
        if guest is not None and opened:
            guest.close()

    def _running(self) -> Guest:
        if self._guest is None:
            raise ConnectorError.internal("NOT_OPEN", f"{self._path.name} is not open")
        return self._guest
