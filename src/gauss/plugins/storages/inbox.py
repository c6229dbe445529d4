"""The inbox of a table topic: the file log, in the topic's own folder."""

from __future__ import annotations

from gauss.contracts.storage import StorageContext
from gauss.contracts.table import TableConfig
from gauss.plugins.storages.file.log import FileLog
from gauss.plugins.storages.file.spec import FileConfig


def open_inbox(config: TableConfig, context: StorageContext) -> FileLog:
    """Opens it with the capacity and `write_full` of the topic, in small segments, which keep it near its limit."""
    return FileLog(FileConfig(max_bytes=config.storage_bytes, write_full=config.write_full), context)
