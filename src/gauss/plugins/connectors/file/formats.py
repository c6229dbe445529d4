"""Formats of files, by their suffix."""

from __future__ import annotations

from typing import NamedTuple

FORMATS = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
"""Of csv and jsonl; parquet and arrow compress inside."""
COMPRESSION_SUFFIXES = {name: suffix for suffix, name in COMPRESSIONS.items()}
TEXT_FORMATS = ("csv", "jsonl")
NULL_TEXT = "\\N"
"""What a destination writes for null in csv files, unquoted; strings are quoted, so that it differs from any."""


class FileKind(NamedTuple):
    """What the name of a file says about it."""

    stem: str
    """The name without the suffixes of format and compression."""
    format: str
    """Empty if the suffix is unknown."""
    compression: str


def kind_of(name: str) -> FileKind:
    """What a file name says about the file."""
    stem, compression = name, ""
    for suffix, found in COMPRESSIONS.items():
        if name.endswith(suffix):
            stem, compression = name.removesuffix(suffix), found
    for suffix, found in FORMATS.items():
        if stem.endswith(suffix) and (found in TEXT_FORMATS or not compression):
            return FileKind(stem.removesuffix(suffix), found, compression)
    return FileKind(stem.rpartition(".")[0] or stem, "", compression)
