"""The `memory` storage: a ring of the newest records, or a table of the newest record per key; gone with the engine."""

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
    """table: the format by which the key is read; the rest of a record stays bytes."""
    key_field: str | None = None
    """table: the field that is the key, text or a whole number (which counts as its digits), such as `symbol` or
    `$.order.id`."""
    delete_when: str | None = None
    """table: a record for which this condition is true removes its key, such as `.status == "closed"`."""
    storage_size: Annotated[int, Field(gt=0)] | Literal["unlimited"] | None = None
    """How many records a ring holds (default 65,536), how many keys a table holds (default "unlimited")."""
    storage_bytes: Annotated[Bytes, Field(gt=0)] = 256 << 20
    """How many bytes it holds; a single record above it still passes alone. Of a table: newest records, keys twice, and
    256 bytes for each key, which is what it takes in memory beside them."""
    write_full: WriteFull | None = None
    """A ring full of records that a reader has not passed: `block` (default) waits, `drop` refuses the new ones,
    `overwrite` removes the oldest. A full table: `drop` (default) refuses new keys, `overwrite` removes the keys whose
    last change is oldest; `block` is refused, since no reader ever makes room in a table."""
    tail_bytes: Annotated[Bytes, Field(gt=0)] = 64 << 20
    """table: how many bytes of changes are kept for a reader of changes that is behind; further behind it is rejected
    and begins anew."""
    max_pinned_bytes: Annotated[Bytes, Field(gt=0)] = 256 << 20
    """table: how many bytes of older versions one reader's scans may keep in memory; beyond it the oldest of them is
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
        """The most records or keys."""
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
