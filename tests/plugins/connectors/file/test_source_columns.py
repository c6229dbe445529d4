"""Columns of files that Gauss did not write: types that keep every value, and columns of later files."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gauss.contracts.connector.progress import CheckpointKind
from gauss.contracts.connector.stream import DataErrorPolicy
from plugins.connectors.file.syncing import INCREMENTAL, Kept, Moved, Wanted, move, opened, read, reads

DLQ = DataErrorPolicy.DLQ


def read_one(path: Path, content: bytes) -> tuple[Kept, Moved]:
    path.write_bytes(content)
    kept = Kept()
    return kept, move(reads(path), kept.side, Wanted(on_data_error=DLQ)).ok()


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("value", [2**63, 2**64 - 1, -(2**63) - 1, 10**37 + 1])
def test_integers_beyond_64_bits_are_read_exactly(tmp_path: Path, form: str, value: int) -> None:
    text = f"n,t\n1,a\n{value},b\n" if form == "csv" else f'{{"n":1,"t":"a"}}\n{{"n":{value},"t":"b"}}\n'
    kept, moved = read_one(tmp_path / f"s.{form}", text.encode())
    assert [row["n"] for row in kept.rows()] == [Decimal(1), Decimal(value)] and not moved.seen.letters
    assert kept.rows()[1]["t"] == "b"


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_column_with_fractions_stays_floating_point(tmp_path: Path, form: str) -> None:
    text = f"n\n1.5\n{2**64}\n" if form == "csv" else f'{{"n":1.5}}\n{{"n":{2**64}}}\n'
    kept, _ = read_one(tmp_path / f"s.{form}", text.encode())
    assert kept.table().schema.field("n").type == pa.float64()


def test_invalid_utf8_rejects_one_row_of_a_csv_file(tmp_path: Path) -> None:
    kept, moved = read_one(tmp_path / "s.csv", b"n,t\n1,a\n2,\xff\n3,c\n")
    assert [row["t"] for row in kept.rows()] == ["a", "c"] and len(moved.seen.letters) == 1


def test_last_value_of_a_duplicate_key_is_used(tmp_path: Path) -> None:
    kept, moved = read_one(tmp_path / "s.jsonl", b'{"n":1,"n":2}\n')
    assert kept.rows() == [{"n": 2}] and not moved.seen.letters


def test_lines_that_are_no_objects_are_rejected_individually(tmp_path: Path) -> None:
    kept, moved = read_one(tmp_path / "s.jsonl", b'[1]\n"x"\nnonsense\n')
    assert kept.rows() == [] and len(moved.seen.letters) == 3


def test_columns_of_a_large_csv_file_are_found_without_a_full_read(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_bytes(b"n,t\n" + (b"1," + b"x" * 200 + b"\n") * 400_000)
    usual, counting = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counting)
    try:
        with opened(reads(tmp_path / "s.csv"), Wanted(), CheckpointKind.SOURCE) as source:
            (stream,) = source.discover().streams
    finally:
        pa.set_memory_pool(usual)
    assert [each.data_type for each in stream.schema] == ["Int64", "Utf8"]
    assert (counting.max_memory() or 0) < 40 << 20


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_column_that_only_the_last_of_many_files_have_is_read(tmp_path: Path, form: str) -> None:
    for number in range(30):
        row: dict[str, Any] = {"n": number, **({"new": "x"} if number >= 28 else {})}
        path = tmp_path / f"{number:02}.{form}"
        if form == "parquet":
            pq.write_table(pa.Table.from_pylist([row]), path)
        else:
            path.write_text(str(row).replace("'", '"') + "\n")
    found = read(tmp_path, Wanted(tmp_path.name, INCREMENTAL)).rows()
    assert [row["new"] for row in found] == [None] * 28 + ["x", "x"]


def test_corrupt_file_does_not_hide_the_columns_of_the_others(tmp_path: Path) -> None:
    for number in range(12):
        pq.write_table(pa.table({"n": [number]}), tmp_path / f"{number:02}.parquet")
    for name in ("00", "11"):
        (tmp_path / f"{name}.parquet").write_bytes(b"PAR1, which is cut off")
    kept = Kept()
    moved = move(reads(tmp_path), kept.side, Wanted(tmp_path.name, on_data_error=DLQ)).ok()
    assert [row["n"] for row in kept.rows()] == list(range(1, 11))
    assert [error.code for _, _, error in moved.seen.letters] == ["CORRUPT_FILE"] * 2


def test_type_that_changes_in_a_late_file_rejects_only_its_rows(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number:02}.csv").write_text(f"n\n{number if number < 11 else 'text'}\n")
    kept = Kept()
    moved = move(reads(tmp_path), kept.side, Wanted(tmp_path.name, on_data_error=DLQ)).ok()
    assert [row["n"] for row in kept.rows()] == list(range(11)) and len(moved.seen.letters) == 1


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.map_(pa.string(), pa.int8())], ids=["list", "map"])
def test_list_or_map_that_does_not_fit_rejects_one_row(tmp_path: Path, kind: pa.DataType) -> None:
    stream = tmp_path / "s"
    (stream / "_gauss").mkdir(parents=True)
    (stream / "_gauss" / "schema.arrow").write_bytes(pa.schema([("v", kind)]).serialize())
    numbers = [1, 300, 2]
    wide = pa.list_(pa.int64()) if pa.types.is_list(kind) else pa.map_(pa.string(), pa.int64())
    values = [[n] if pa.types.is_list(kind) else [("k", n)] for n in numbers]
    pq.write_table(pa.table({"v": pa.array(values, wide)}), stream / "1.parquet")
    kept = Kept()
    moved = move(reads(tmp_path), kept.side, Wanted(on_data_error=DLQ)).ok()
    assert [row["v"] for row in kept.rows()] == [values[0], values[2]] and len(moved.seen.letters) == 1


def test_file_name_that_is_not_utf8_is_an_error_with_the_name(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path / "s") + b"/\xff.csv")).write_text("n\n1\n")
    error = move(reads(tmp_path), Kept().side).error
    assert error.code == "BAD_NAME" and "\\xff.csv" in error.message


@pytest.mark.parametrize("value", ["007", "-07", "00", "00.5"])
def test_a_csv_column_with_a_leading_zero_is_text(tmp_path: Path, value: str) -> None:
    kept, moved = read_one(tmp_path / "s.csv", f"zip,n,x\n7,0,0.5\n{value},-1,-0.25\n".encode())
    assert [row["zip"] for row in kept.rows()] == ["7", value] and not moved.seen.letters
    assert kept.table().schema.types[1:] == [pa.int64(), pa.float64()]


def test_csv_files_of_which_some_have_leading_zeros_are_text_in_that_column(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "1.csv").write_text("zip,n\n7,1\n")
    (tmp_path / "s" / "2.csv").write_text("zip,n\n007,1.5\n")
    kept = Kept()
    move(reads(tmp_path / "s"), kept.side).ok()
    assert kept.rows() == [{"zip": "7", "n": 1.0}, {"zip": "007", "n": 1.5}]


def late_zero(path: Path) -> None:
    path.write_text("zip,t\n" + f"1,{'x' * 1000}\n" * 6_000 + "007,x\n")


def test_a_leading_zero_behind_the_first_rows_of_a_csv_file_is_a_data_error(tmp_path: Path) -> None:
    late_zero(tmp_path / "s.csv")
    kept = Kept()
    moved = move(reads(tmp_path / "s.csv"), kept.side, Wanted(on_data_error=DLQ)).ok()
    [(_, row, error)] = moved.seen.letters
    assert row.to_pylist()[0]["zip"] == b"007" and "text_columns" in error.message and "'zip'" in error.message
    assert kept.table().num_rows == 6_000


def test_text_columns_of_a_csv_file_keep_later_leading_zeros(tmp_path: Path) -> None:
    late_zero(tmp_path / "s.csv")
    kept = Kept()
    move(reads(tmp_path / "s.csv", text_columns=["zip"]), kept.side).ok()
    assert kept.rows()[0]["zip"] == "1" and kept.rows()[-1]["zip"] == "007"
