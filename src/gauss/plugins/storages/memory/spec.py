"""The `memory` storage: a ring of the newest records, gone with the engine."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from pydantic import Field

from gauss.contracts.plugin import Bytes, PluginConfig
from gauss.contracts.storage import Capacity, ReadMode, StorageSpec, WriteFull


class MemoryConfig(PluginConfig):
    """`storage_config` of a memory topic."""

    mode: Literal["ring"] = "ring"
    """`ring`: the newest records in order."""
    storage_size: Annotated[int, Field(gt=0)] | Literal["unlimited"] = 65_536
    """How many records the ring holds, or "unlimited"."""
    storage_bytes: Annotated[Bytes, Field(gt=0)] = 256 << 20
    """How many bytes it holds; a single record above it still passes alone."""
    write_full: WriteFull = WriteFull.BLOCK
    """When full of records that a reader has not passed: `block` waits, `drop` refuses the new ones,
    `overwrite` removes the oldest."""


def _capacity(config: PluginConfig) -> Capacity:
    memory = cast(MemoryConfig, config)
    records = None if memory.storage_size == "unlimited" else memory.storage_size
    return Capacity(records=records, bytes=memory.storage_bytes, write_full=memory.write_full)


SPEC = StorageSpec(
    name="memory",
    summary="A ring of the newest records in the engine's memory.",
    config=MemoryConfig,
    implementation="gauss.plugins.storages.memory.ring:Ring",
    read_modes=lambda _: frozenset({ReadMode.OFFSET, ReadMode.LATEST, ReadMode.QUERY}),
    durable=False,
    capacity=_capacity,
)
