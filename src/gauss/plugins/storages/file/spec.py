"""The `file` storage: an append log in segments that survives the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from gauss import registry
from gauss.contracts.framing import FramingSpec
from gauss.contracts.plugin import Bytes, Millis, PluginConfig
from gauss.contracts.storage import Capacity, ReadMode, StorageSpec, WriteFull
from gauss.model.errors import PluginError

NO_FRAMING = "none"
CAPTURE_KEYS = {"data_dir", "framing", "fsync", "fsync_interval", "max_bytes", "retention", "write_full"}


class FileConfig(PluginConfig):
    """`storage_config` of a file topic."""

    ABSENT: ClassVar[dict[str, str]] = {"ttl": 'a file topic has "retention", the age at which its segments go'}

    data_dir: Path | None = None
    """Folder of the segments, relative to the config file; left out: in the data directory."""
    framing: str = "length_prefixed"
    """How records are kept in the file: `newline` gives a plain text file. `none` keeps captures instead of records:
    one file per connection of a source with `mode = "passthrough"`, see [zero copy](../zero-copy.md)."""
    delimiter: str | None = None
    """Parameter of `framing = "newline"`."""
    prefix_type: str | None = None
    """Parameter of `framing = "length_prefixed"`; there u32be when left out."""
    frame_size: int | None = None
    """Parameter of `framing = "fixed_size"`."""
    fsync: Literal["never", "interval", "always"] = "interval"
    """When bytes are forced to the disk: power loss costs nothing with `always`, up to `fsync_interval`
    with `interval`. Killing the process costs nothing with any of them."""
    fsync_interval: Annotated[Millis, Field(gt=0)] = 1_000
    """How often, with `fsync = "interval"`."""
    segment_bytes: Annotated[Bytes, Field(ge=4096)] = 64 << 20
    """Size at which a new segment begins; with `max_bytes`, an eighth of that at most."""
    max_bytes: Annotated[Bytes, Field(ge=4096)] | None = None
    """Bytes that readers have not passed, beyond which `write_full` decides; left out: the disk is the limit."""
    retention: Annotated[Millis, Field(gt=0)] | None = None
    """Age at which a segment goes, once every registered reader has passed it."""
    retention_force: bool = False
    """Age retention does not wait for readers; what they lose is counted."""
    partition_by: Literal["date"] | None = None
    """`date`: segments lie in folders YYYY-MM-DD, by arrival in UTC."""
    file_format: Literal["log", "arrow_ipc_file"] = "log"
    """`arrow_ipc_file`: a segment that is written no more becomes an `.arrow` file, which any Arrow reader opens.
    With a `format` that has a fixed schema it holds `offset`, `ts_ms`, the format's columns, and `data` with the bytes
    of records that can't be decoded; the log stays beside it, for the topic's readers get the bytes that came. Without,
    it holds `offset`, `ts_ms` and `data` and takes the place of the log. A new segment begins by `segment_bytes`,
    `roll_rows` or `roll_interval`, and at a stop."""
    roll_rows: Annotated[int, Field(gt=0)] = 1_000_000
    """With `arrow_ipc_file`: records after which a new segment begins."""
    roll_interval: Annotated[Millis, Field(gt=0)] = 600_000
    """With `arrow_ipc_file`: how long a segment with records is written at most."""
    format: str | None = None
    """The format of its records, for whoever looks at them; they are kept as they are. `file_format =
    "arrow_ipc_file"` also writes its columns."""
    on_damage: Literal["stop", "skip"] = "stop"
    """When a read meets records whose bytes on disk are not the ones that were written: `stop` fails the read and names
    them, `skip` goes on behind them. Both count them as `damaged`."""
    write_full: WriteFull = WriteFull.BLOCK
    """When `max_bytes` is reached: `block` waits, `drop` refuses new records, `overwrite` removes the oldest
    segments."""

    def framing_parameters(self) -> dict[str, Any]:
        """What the framing's own config model is given."""
        given = {"delimiter": self.delimiter, "prefix_type": self.prefix_type, "frame_size": self.frame_size}
        parameters = {key: value for key, value in given.items() if value is not None}
        if self.framing == "length_prefixed":
            parameters.setdefault("prefix_type", "u32be")
        return parameters

    def segment_limit(self) -> int:
        """Whole segments are removed, so small ones keep a bounded topic near its bound."""
        return self.segment_bytes if self.max_bytes is None else min(self.segment_bytes, max(self.max_bytes // 8, 1))

    @model_validator(mode="after")
    def _check_framing(self) -> Self:
        if self.framing == NO_FRAMING:
            self._check_captures()
            return self
        for key in sorted({"roll_rows", "roll_interval"} & self.model_fields_set):
            if self.file_format == "log":
                raise _fault(key, f'{key} goes with file_format = "arrow_ipc_file"')
        try:
            framing = registry.spec(FramingSpec, self.framing)
            framing.validate(self.framing_parameters())
        except PluginError as error:
            reason = f"{error.message}; {error.hint}" if error.hint else error.message
            raise _fault("framing", reason) from error
        except ValidationError as error:
            first = error.errors()[0]
            key = str(first["loc"][0]) if first["loc"] else "framing"
            if first["type"] == "missing":
                raise _fault("framing", f'framing "{self.framing}" needs {key}, which is missing') from error
            reason = "is no parameter of" if first["type"] == "extra_forbidden" else "has a wrong value for"
            detail = "" if first["type"] == "extra_forbidden" else f": {first['msg']}"
            raise _fault(key, f'{key} {reason} framing "{self.framing}"{detail}') from error
        if not framing.raw:
            raise _fault(
                "framing",
                f'expected a framing whose records stand alone, found "{self.framing}";'
                ' use "length_prefixed", which holds any record',
            )
        return self

    def _check_captures(self) -> None:
        for key in sorted(self.model_fields_set - CAPTURE_KEYS):
            raise _fault(key, f'{key} has no meaning with framing = "none", which keeps bytes as they come')
        if self.fsync == "always":
            raise _fault("fsync", 'expected fsync = "never" or "interval" with framing = "none", found "always"')
        if self.write_full is WriteFull.DROP:
            raise _fault("write_full", 'expected write_full = "block" or "overwrite" with framing = "none"')


def _fault(key: str, reason: str) -> PydanticCustomError:
    return PydanticCustomError("storage_framing", "{reason}", {"key": key, "reason": reason})


def _capacity(config: PluginConfig) -> Capacity:
    file = cast(FileConfig, config)
    return Capacity(records=None, bytes=file.max_bytes, write_full=file.write_full)


def _read_modes(config: PluginConfig) -> frozenset[ReadMode]:
    if cast(FileConfig, config).framing == NO_FRAMING:
        return frozenset({ReadMode.RAW})
    return frozenset({ReadMode.OFFSET, ReadMode.LATEST, ReadMode.QUERY})


SPEC = StorageSpec(
    name="file",
    summary="An append log in files: segments of framed bytes with an index beside each.",
    config=FileConfig,
    implementation="gauss.plugins.storages.file.log:FileLog",
    capture_implementation="gauss.plugins.storages.file.captures:Captures",
    offline_implementation="gauss.plugins.storages.file.offline:FileOffline",
    read_modes=_read_modes,
    durable=True,
    capacity=_capacity,
)
