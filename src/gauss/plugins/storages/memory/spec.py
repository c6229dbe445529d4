"""The `memory` storage: a ring of the newest records, or a table of the newest record per key. Not persistent."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, cast

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.plugin import Bytes, PluginConfig
from gauss.contracts.storage import Capacity, ReadMode, StorageSpec, WriteFull
from gauss.model.errors import ConfigError

RING_SIZE = 65_536


class MemoryConfig(PluginConfig):
    """`storage_config` of a memory topic."""

    ABSENT: ClassVar[dict[str, str]] = {
        "ttl": "records in memory do not age: bound them by storage_size and storage_bytes, or remove keys of a table"
        " by delete_when"
    }

    mode: Literal["ring", "table"] = "ring"
    """`ring`: the newest records in order. `table`: the newest record of each key."""
    format: str | None = None
    """table: the format of the records, to read the key."""
    key_field: str | None = None
    """table: the key field, a string or an integer, such as `symbol` or `$.order.id`."""
    delete_when: str | None = None
    """table: a record that matches this condition deletes its key, such as `.status == "closed"`."""
    storage_size: Annotated[int, Field(gt=0)] | Literal["unlimited"] | None = None
    """Maximum records of a ring (default 65,536) or keys of a table (default "unlimited")."""
    storage_bytes: Annotated[Bytes, Field(gt=0)] = 256 << 20
    """Maximum bytes; a single larger record is still accepted. For a table: newest records, keys twice, and 256 bytes
    per key."""
    write_full: WriteFull | None = None
    """When a ring is full of unread records: `block` (default) waits, `drop` drops new records, `overwrite` removes the
    oldest. When a table is full: `drop` (default) refuses new keys, `overwrite` removes the least recently changed
    keys; `block` is not possible, because readers do not free space in a table."""
    tail_bytes: Annotated[Bytes, Field(gt=0)] = 64 << 20
    """table: maximum bytes of changes retained for readers of changes. A reader that lags further is rejected and
    starts again."""
    max_pinned_bytes: Annotated[Bytes, Field(gt=0)] = 256 << 20
    """table: maximum bytes of older versions that the scans of one reader may retain; beyond it the oldest scan is
    rejected."""

    @model_validator(mode="after")
    def _fits_its_mode(self) -> MemoryConfig:
        if self.mode == "ring":
            for key in ("format", "key_field", "delete_when"):
                if getattr(self, key) is not None:
                    raise _fault(key, f'"{key}" belongs to a table: add mode = "table", or remove it')
            return self
        for key, example in (("format", "json"), ("key_field", "symbol")):
            if getattr(self, key) is None:
                raise _fault(key, f'"{key}" is missing: mode = "table" needs one, such as {key} = "{example}"')
        if self.write_full is WriteFull.BLOCK:
            raise _fault("write_full", "a table can't block, since no reader makes room in it: use drop or overwrite")
        if self.delete_when is not None:
            # The grammar's parser is loaded only for a pipeline that has an expression.
            from gauss.scan.program.parse import parse

            try:
                parse(self.delete_when)
            except ConfigError as error:
                raise _fault("delete_when", error.message) from None
        return self

    def rows(self) -> int | None:
        """Maximum number of records or keys."""
        size = RING_SIZE if self.storage_size is None and self.mode == "ring" else self.storage_size
        return size if isinstance(size, int) else None

    def full(self) -> WriteFull:
        """`write_full`, or its default for this mode."""
        return self.write_full or (WriteFull.BLOCK if self.mode == "ring" else WriteFull.DROP)


def _fault(key: str, message: str) -> PydanticCustomError:
    return PydanticCustomError("memory", "{message}", {"message": message, "key": key})


def _capacity(config: PluginConfig) -> Capacity:
    memory = cast(MemoryConfig, config)
    return Capacity(records=memory.rows(), bytes=memory.storage_bytes, write_full=memory.full())


def _read_modes(config: PluginConfig) -> frozenset[ReadMode]:
    if cast(MemoryConfig, config).mode == "table":
        return frozenset({ReadMode.SNAPSHOT, ReadMode.SUBSCRIBE, ReadMode.QUERY})
    return frozenset({ReadMode.OFFSET, ReadMode.LATEST, ReadMode.QUERY})


SPEC = StorageSpec(
    name="memory",
    summary="A ring of the newest records, or a table of the newest record per key, in the engine's memory.",
    config=MemoryConfig,
    implementation="gauss.plugins.storages.memory.store:open_store",
    read_modes=_read_modes,
    durable=False,
    capacity=_capacity,
)
