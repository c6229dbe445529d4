"""compress without a JVM: the algorithms' own tools can read its output."""

from __future__ import annotations

import gzip

import lz4.frame
import pyarrow as pa
import pytest
import zstandard

from gauss.contracts.transform import Schemas
from helpers.processors import batch_of, transform_of

RECORDS = [b"", b"x", b'{"symbol":"BTC"}' * 100, bytes(range(256))]


def compressed(algo: str, level: int | None = None) -> list[bytes]:
    made = transform_of("compress", algo=algo, **({} if level is None else {"level": level}))
    assert made.bind(Schemas()).fields == []
    found = made.arrow(batch_of([], [{}] * len(RECORDS), RECORDS))
    assert found.column("_ts_ms").to_pylist() == [10, 20, 30, 40]
    records: list[bytes] = found.column("_data").to_pylist()
    return records


def test_each_record_is_whole_by_itself() -> None:
    assert [gzip.decompress(data) for data in compressed("gzip")] == RECORDS
    assert [zstandard.ZstdDecompressor().decompressobj().decompress(data) for data in compressed("zstd")] == RECORDS
    assert [lz4.frame.decompress(data) for data in compressed("lz4")] == RECORDS
    snappy = pa.Codec("snappy")
    sized = zip(compressed("snappy"), RECORDS, strict=True)
    assert [snappy.decompress(data, len(plain), asbytes=True) for data, plain in sized] == RECORDS


def test_a_replay_gives_the_same_bytes() -> None:
    assert compressed("gzip") == compressed("gzip")


def test_a_level_is_obeyed() -> None:
    assert gzip.decompress(compressed("gzip", 1)[2]) == RECORDS[2]
    assert compressed("gzip", 1)[3] != compressed("gzip", 9)[2]


@pytest.mark.parametrize(("algo", "level", "said"), [("gzip", 10, "from 1 to 9"), ("snappy", 1, "has no levels")])
def test_a_level_that_the_algorithm_lacks_is_a_fault(algo: str, level: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        transform_of("compress", algo=algo, level=level)
