"""What a connector is used for, by the features that it has announced when it was opened."""

from __future__ import annotations

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.lifecycle import Feature, OpenInfo
from gauss.contracts.connector.stream import StreamContext, SyncMode, Upsert


def check_reading(connector: str, source: OpenInfo, stream: StreamContext) -> None:
    """Raises ConnectorError if a source can't read a stream by its mode."""
    if stream.sync_mode is SyncMode.CDC and Feature.CDC not in source.features:
        raise ConnectorError.config("NO_CDC", f"{connector} has no change data capture (feature cdc)")


def check_writing(connector: str, destination: OpenInfo, stream: StreamContext) -> None:
    """Raises ConnectorError if a destination can't write a stream by its mode."""
    changes = stream.sync_mode is SyncMode.CDC and isinstance(stream.write_mode, Upsert)
    if changes and Feature.CDC not in destination.features:
        raise ConnectorError.config(
            "NO_CDC",
            f"{connector} can't delete rows (feature cdc), so that it can't upsert changes",
            hint='set write = "append", which stores each change',
        )


def check_statements(destination: OpenInfo, stream: StreamContext, statements: list[str]) -> None:
    """Raises ConnectorError if the table of a stream has to be made or changed by a destination that does neither."""
    if statements and Feature.SCHEMA_AUTO_MIGRATE not in destination.features:
        raise ConnectorError.schema(
            "NO_MIGRATION",
            f'stream "{stream.stream_name}": its destination makes and changes no tables (feature schema_auto_migrate)',
            hint=f"run: {'; '.join(statements)}",
        )
