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

    ABSENT: ClassVar[dict[str, str]] = {"ttl": 'a file topic has "retention", the age at which segments are deleted'}

    data_dir: Path | None = None
    """Folder of the segments, relative to the config file. Default: in the data directory."""
    framing: str = "length_prefixed"
    """Framing of the records in the file: `newline` gives a plain text file. `none` stores captures instead of records:
    one file per connection of a source with `mode = "passthrough"`, see [zero copy](../zero-copy.md)."""
    delimiter: str | None = None
    """Parameter of `framing = "newline"`."""
    prefix_type: str | None = None
    """Parameter of `framing = "length_prefixed"`. Default: u32be."""
    frame_size: int | None = None
    """Parameter of `framing = "fixed_size"`."""
    fsync: Literal["never", "interval", "always"] = "interval"
    """When data is synced to disk. A power loss loses nothing with `always`, and up to `fsync_interval` with
    `interval`. A killed process loses nothing with any setting."""
    fsync_interval: Annotated[Millis, Field(gt=0)] = 1_000
    """Interval of `fsync = "interval"`."""
    segment_bytes: Annotated[Bytes, Field(ge=4096)] = 64 << 20
    """Maximum size of a segment; with `max_bytes`, at most an eighth of that."""
    max_bytes: Annotated[Bytes, Field(ge=4096)] | None = None
    """Maximum bytes that are not yet read by all readers; then `write_full` applies. Default: unlimited."""
    retention: Annotated[Millis, Field(gt=0)] | None = None
    """Age at which a segment is deleted, once every registered reader has read it."""
    retention_force: bool = False
    """Delete by age without waiting for readers; the records that they miss are counted."""
    partition_by: Literal["date"] | None = None
    """`date`: store segments in folders YYYY-MM-DD, by arrival time in UTC."""
    file_format: Literal["log", "arrow_ipc_file"] = "log"
    """`arrow_ipc_file`: a closed segment becomes an `.arrow` file that any Arrow reader can open. With a `format` that
    has a fixed schema the file has `offset`, `ts_ms`, the columns of the format, and `data` with the bytes of records
    that cannot be decoded; the log is kept for readers of the topic. Otherwise it has `offset`, `ts_ms` and `data` and
    replaces the log. Segments are closed by `segment_bytes`, `roll_rows` or `roll_interval`, and at a stop."""
    roll_rows: Annotated[int, Field(gt=0)] = 1_000_000
    """With `arrow_ipc_file`: maximum records of a segment."""
    roll_interval: Annotated[Millis, Field(gt=0)] = 600_000
    """With `arrow_ipc_file`: maximum time that a segment with records stays open."""
    format: str | None = None
    """The format of the records, for readers and for the columns of `file_format = "arrow_ipc_file"`. The records are
    stored unchanged."""
    on_damage: Literal["stop", "skip"] = "stop"
    """How a read handles records with a wrong checksum: `stop` fails the read and names them, `skip` continues behind
    them. Both count them as `damaged`."""
    write_full: WriteFull = WriteFull.BLOCK
    """When `max_bytes` is reached: `block` waits, `drop` refuses new records, `overwrite` removes the oldest
    segments."""

    def framing_parameters(self) -> dict[str, Any]:
        """The parameters for the framing's config model."""
        given = {"delimiter": self.delimiter, "prefix_type": self.prefix_type, "frame_size": self.frame_size}
        parameters = {key: value for key, value in given.items() if value is not None}
        if self.framing == "length_prefixed":
            parameters.setdefault("prefix_type", "u32be")
        return parameters

    def segment_limit(self) -> int:
        """Maximum size of a segment. Whole segments are removed, so small ones keep a bounded topic near its limit."""
        return self.segment_bytes if self.max_bytes is None else min(self.segment_bytes, max(self.max_bytes // 8, 1))

    @model_validator(mode="after")
    def _check_framing(self) -> Self:
        if self.framing == NO_FRAMING:
            self._check_captures()
            return self
        for key in sorted({"roll_rows", "roll_interval"} & self.model_fields_set):
            if self.file_format == "log":
                raise _fault(key, f'{key} needs file_format = "arrow_ipc_file"')
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
            reason = "is not a parameter of" if first["type"] == "extra_forbidden" else "has a wrong value for"
            detail = "" if first["type"] == "extra_forbidden" else f": {first['msg']}"
            raise _fault(key, f'{key} {reason} framing "{self.framing}"{detail}') from error
        if not framing.raw:
            raise _fault(
                "framing",
                f'expected a framing with independent records, found "{self.framing}";'
                ' use "length_prefixed", which holds any record',
            )
        return self

    def _check_captures(self) -> None:
        for key in sorted(self.model_fields_set - CAPTURE_KEYS):
            raise _fault(key, f'{key} does not apply to framing = "none", which stores raw bytes')
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
    summary="An append-only log in files: segments of framed bytes, each with an index.",
    config=FileConfig,
    implementation="gauss.plugins.storages.file.log:FileLog",
    capture_implementation="gauss.plugins.storages.file.captures:Captures",
    offline_implementation="gauss.plugins.storages.file.offline:FileOffline",
    read_modes=_read_modes,
    durable=True,
    capacity=_capacity,
)
