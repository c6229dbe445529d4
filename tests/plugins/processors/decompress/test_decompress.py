"""decompress without a JVM: every algorithm, several frames in a record, and invalid records one by one."""

from __future__ import annotations

import gzip
from typing import Any

import lz4.frame
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gauss.contracts.field_types import arrow_schema
from gauss.contracts.format import Decoded, Format
from gauss.contracts.transform import Schemas
from gauss.plugins.processors.decompress.spec import SPEC, codecs
from gauss.stream.driver.planning.refs import FormatRef
from helpers.processors import batch_of, transform_of

ALGOS = ["gzip", "zstd", "lz4", "snappy"]


def codec(algo: str, **config: Any) -> Format:
    return FormatRef(*codecs(SPEC.validate({"algo": algo, **config}))["input"]).build()


def decoded(algo: str, records: list[bytes], **config: Any) -> Decoded:
    fields = arrow_schema(transform_of("decompress", algo=algo).bind(Schemas()).fields)
    return codec(algo, **config).decode_batch(pa.array(records, pa.binary()), fields)


def compress(algo: str, data: bytes) -> bytes:
    made = transform_of("compress", algo=algo)
    found: bytes = made.arrow(batch_of([], [{}], [data])).column("_data")[0].as_py()
    return found


@pytest.mark.parametrize("algo", ALGOS)
@given(records=st.lists(st.binary(max_size=300), max_size=5))
def test_what_was_compressed_comes_back(algo: str, records: list[bytes]) -> None:
    found = decoded(algo, [compress(algo, data) for data in records])
    assert found.rows.column(0).to_pylist() == records
    assert found.bad == []


@pytest.mark.parametrize("algo", ALGOS)
@given(junk=st.binary(max_size=40), cut=st.integers(1, 10))
def test_bad_records_cost_only_themselves(algo: str, junk: bytes, cut: int) -> None:
    good = compress(algo, b"good" * 50)
    found = decoded(algo, [good, good[:-cut], good, junk, b"", good])
    assert {0, 2, 5} <= set(found.good.tolist())
    assert all(row == b"good" * 50 for row in found.rows.column(0).take(pa.array([0, 1])).to_pylist())
    verdicts = {index: reason for index, reason, _ in found.bad}
    assert verdicts[1] in ("truncated", "bad_compression")
    assert verdicts[4] == "truncated"


def test_several_members_and_frames_are_one_record() -> None:
    parts = (b"one", b"two")
    assert decoded("gzip", [b"".join(map(gzip.compress, parts))]).rows.column(0).to_pylist() == [b"onetwo"]
    frames = b"".join(map(zstandard.ZstdCompressor().compress, parts))
    assert decoded("zstd", [frames]).rows.column(0).to_pylist() == [b"onetwo"]
    assert decoded("lz4", [b"".join(map(lz4.frame.compress, parts))]).rows.column(0).to_pylist() == [b"onetwo"]


@pytest.mark.parametrize("algo", ALGOS)
def test_a_bomb_is_stopped_at_the_limit(algo: str) -> None:
    found = decoded(algo, [compress(algo, bytes(1 << 20)), compress(algo, b"x")], max_record_bytes=1 << 16)
    assert [(index, reason) for index, reason, _ in found.bad] == [(0, "too_large")]
    assert found.rows.column(0).to_pylist() == [b"x"]


def test_gzip_of_nothing_but_zeros_is_bad() -> None:
    assert [reason for _, reason, _ in decoded("gzip", [b"\0\0\0"]).bad] == ["bad_compression"]


def test_the_decompressed_bytes_become_the_record() -> None:
    made = transform_of("decompress", algo="gzip")
    batch = batch_of(made.bind(Schemas()).fields, [{"data": b"a"}, {"data": b"b"}])
    assert made.arrow(batch).to_pylist() == [{"_ts_ms": 10, "_data": b"a"}, {"_ts_ms": 20, "_data": b"b"}]
