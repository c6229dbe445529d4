"""Sizes of streams in the catalog of the file source."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from gauss.plugins.connectors.file.estimates import estimated_rows
from gauss.plugins.connectors.file.listing import find_streams
from plugins.connectors.file.syncing import FORMATS, NAMES, Wanted, emits, move, opened, reads, writes

ROWS = 100_000


@pytest.mark.parametrize("config", FORMATS, ids=NAMES)
def test_rows_are_estimated_by_bytes(tmp_path: Path, config: dict[str, str]) -> None:
    rows = pa.record_batch({"n": range(ROWS), "text": [f"{n * 7919 % 100_003} and more" for n in range(ROWS)]})
    parts = [rows[start : start + 10_000] for start in range(0, ROWS, 10_000)]
    move(emits(*parts), writes(tmp_path, max_file_bytes="1MiB", **config), Wanted(schema=rows.schema)).ok()
    with opened(reads(tmp_path), Wanted()) as source:
        [stream] = source.discover().streams
    assert 0.7 * ROWS < stream.estimated_rows < 1.4 * ROWS


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", b"", 0),
        ("a.csv.gz", b"no gzip", None),
        ("a.parquet", b"no parquet", None),
        ("a.arrow", b"ARROW1 no", None),
    ],
)
def test_files_that_are_empty_or_unreadable_are_no_failure(
    tmp_path: Path, name: str, content: bytes, expected: int | None
) -> None:
    (tmp_path / name).write_bytes(content)
    [stream] = find_streams(str(tmp_path), None).values()
    assert estimated_rows(stream) == expected
