"""Builds the memory storage: a ring or a table."""

from __future__ import annotations

from gauss.contracts.storage import Log, StorageContext, Table
from gauss.plugins.storages.memory.spec import MemoryConfig


def open_store(config: MemoryConfig, context: StorageContext) -> Log | Table:
    """Opens a ring or a table. Imports are lazy: a ring needs neither formats nor expressions."""
    if config.mode == "ring":
        from gauss.plugins.storages.memory.ring import Ring

        return Ring(config, context)
    from gauss.plugins.storages.memory import table

    return table.MemoryTable(config, context)
