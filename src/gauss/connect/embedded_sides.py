"""Embedded servers for connectors whose config names none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.config.syncs import ConnectorDef, SyncDef
from gauss.connect.sides import find_spec, validated
from gauss.model.errors import GaussError, StorageError
from gauss.model.paths import DataDir


def is_embedded(sync: SyncDef, role: str) -> bool:
    """Whether a side uses an embedded server."""
    given: ConnectorDef = getattr(sync, role)
    spec = find_spec(role, given.connector)
    return spec is not None and bool(spec.system) and spec.server(validated(spec, given.config)) is None


@contextmanager
def embedded_servers(sync: SyncDef, data_dir: DataDir) -> Iterator[SyncDef]:
    """The sync with the addresses of embedded servers, which run as long as the context: those of a run that uses the
    same data directory, or started here. Raises GaussError if one does not start."""
    with ExitStack() as stack:
        sides: dict[str, ConnectorDef] = {}
        for role in ("source", "destination"):
            given: ConnectorDef = getattr(sync, role)
            spec = find_spec(role, given.connector)
            if spec is None or not is_embedded(sync, role):
                continue
            server = stack.enter_context(_ensured(spec.system, data_dir.server(spec.system)))
            sides[role] = ConnectorDef(connector=given.connector, **{**given.config, "dsn": server.endpoint.url})
        yield sync.model_copy(update=sides)


def _ensured(system: str, directory: Path) -> EmbeddedServer:
    try:
        return ensure(system, directory)
    except GaussError as error:
        if str(directory) in error.message:
            raise
        message = f"the embedded {system} in {directory} does not start: {error.message}"
        raise StorageError(message, hint=f"see {directory / 'owner.log'}") from error
