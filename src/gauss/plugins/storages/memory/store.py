"""What the memory storage builds: a ring or a table, as its config says."""

from __future__ import annotations

from gauss.contracts.storage import Log, StorageContext, Table
from gauss.plugins.storages.memory.spec import MemoryConfig


def open_store(config: MemoryConfig, context: StorageContext) -> Log | Table:
    """Imports what it builds: a ring needs neither formats nor expressions."""
    if config.mode == "ring":
        from gauss.plugins.storages.memory.ring import Ring

        return Ring(config, context)
    from gauss.plugins.storages.memory import table

    return table.Table(config, context)
