"""The `file` source: csv, jsonl, parquet and arrow files."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gauss.contracts.connector.settings import CheckpointThresholds
from gauss.contracts.connector.spec import SourceSpec
from gauss.contracts.plugin import PluginConfig

Format = Literal["csv", "jsonl", "parquet", "arrow"]
Sign = Annotated[str, Field(min_length=1, max_length=1, pattern=r"^[\x09\x20-\x7e]$")]
"""One ASCII character."""


class FileSourceConfig(PluginConfig):
    """Settings of the `file` source.

    Streams: a file is a stream with its name, without suffixes. A glob (`*`, `?`, `[…]`, `**`) is one stream, named
    after the folder before its first wildcard. In a directory each sub-folder is a stream with its name, and files that
    lie in the directory itself are one, named after the directory. Hidden files, and those that start with `_`, are
    ignored.

    The columns of a stream are those of its first and last ten files; of text files the first rows are looked at. A
    column that appears elsewhere follows `new_column` of the policies: with `add` or `fail` the stream is planned again
    once it is found, with `ignore` it is left out.

    An incremental stream reads files in the order of their names, and new ones must come last in it: a file that was
    added before the last one that was read, or changed since, is a data error.
    """

    path: Annotated[str, Field(min_length=1)]
    """A file, a directory or a glob, relative to the config file."""
    format: Format | None = None
    """Default: by the suffix (`.csv`, `.jsonl`, `.ndjson`, `.parquet`, `.arrow`, `.ipc`, `.feather`; csv and jsonl also
    with `.gz` or `.zst`). In a directory other files are then ignored."""
    checkpoint: CheckpointThresholds = CheckpointThresholds()
    """When a checkpoint is made."""
    header: bool = True
    """csv: the first row has the names of the columns."""
    delimiter: Sign = ","
    """csv: what separates values."""
    quote: Sign = '"'
    """csv: what encloses values; doubled inside."""
    text_columns: tuple[str, ...] = ()
    """csv: columns that are text, whatever their values look like. A column is text by itself if one of its first
    values has a leading zero (`007`); in a column of numbers a later one is a data error."""
    null_text: str | None = None
    r"""csv: the unquoted text that means null. Default: nothing at all, or `\N`."""


SPEC = SourceSpec(
    name="file",
    own_cursor=True,
    summary="Reads csv, jsonl, parquet and arrow files; new files are the increment.",
    config=FileSourceConfig,
    implementation="gauss.plugins.connectors.file.source:FileSource",
)
