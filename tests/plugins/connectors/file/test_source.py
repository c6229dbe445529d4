"""The file source: streams, bad rows, new files as the cursor, errors."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gauss import registry
from gauss.contracts.connector.cursor import JsonCursor
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.lifecycle import JsonConfig
from gauss.contracts.connector.progress import CheckpointKind, ReadSummary
from gauss.contracts.connector.stream import ColumnSchema, DataErrorPolicy, StreamContext, StreamLimits
from gauss.plugins.connectors.file.source import FileSource
from plugins.connectors.file.syncing import (
    INCREMENTAL,
    Increments,
    Kept,
    Wanted,
    as_nobody,
    emits,
    move,
    opened,
    read,
    reads,
    write_numbers,
    writes,
)

SOURCE = CheckpointKind.SOURCE


def streams(path: Path, **config: Any) -> dict[str, list[ColumnSchema]]:
    with opened(reads(path, **config), Wanted(), SOURCE) as source:
        return {each.name: each.schema for each in source.discover().streams}


def columns(path: Path, **config: Any) -> dict[str, str]:
    (found,) = streams(path, **config).values()
    return {each.name: each.data_type for each in found}


def test_file_directory_and_glob_are_discovered_as_streams(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in ("top.csv", "orders/a.csv", "orders/b.csv", "orders/.c.csv", "orders/notes.txt", "%2Eusers/x.csv"):
        (data / name).parent.mkdir(exist_ok=True, parents=True)
        (data / name).write_text("n\n1\n")
    assert list(streams(data / "top.csv")) == ["top"]
    assert sorted(streams(data)) == [".users", "data", "orders"]
    assert list(streams(data / "orders" / "*.csv")) == ["orders"]
    assert len(read(data / "**" / "*.csv", Wanted("data")).rows()) == 4
    assert len(read(data, Wanted("orders")).rows()) == 2


def test_relative_path_is_resolved_against_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.csv").write_text("n\n1\n")
    monkeypatch.setenv(registry.PLUGIN_DIR, str(tmp_path))
    assert read(Path("s.csv")).rows() == [{"n": 1}]


def test_types_of_foreign_text_files_are_inferred(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name,at,ok,empty\n1,x,2026-01-31T10:00:00,true,\n2,,,,\n")
    (tmp_path / "b.jsonl").write_text(
        '{"id":1,"at":"2026-01-31","tags":[1.5],"none":null}\n{"id":2,"more":{"a":"x"}}\n'
    )
    assert columns(tmp_path / "a.csv") == {
        "id": "Int64",
        "name": "Utf8",
        "at": "Timestamp(Second)",
        "ok": "Boolean",
        "empty": "Utf8",
    }
    assert columns(tmp_path / "b.jsonl") == {
        "id": "Int64",
        "at": "Utf8",
        "tags": "List(Float64)",
        "none": "Utf8",
        "more": "Struct(a: Utf8)",
    }
    assert read(tmp_path / "b.jsonl", Wanted("b")).rows()[1] == {
        "id": 2,
        "at": None,
        "tags": None,
        "none": None,
        "more": {"a": "x"},
    }


def test_csv_options_are_applied_and_quoted_nulls_are_text(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("1|'a|''\nb'|nil\n2|'nil'|'x'\n")
    rows = read(tmp_path / "s.csv", header=False, delimiter="|", quote="'", null_text="nil").rows()
    assert rows == [{"f0": 1, "f1": "a|'\nb", "f2": None}, {"f0": 2, "f1": "nil", "f2": "x"}]


def test_compressed_text_is_read(tmp_path: Path) -> None:
    (tmp_path / "s.csv.gz").write_bytes(gzip.compress(b"n\n1\n") + gzip.compress(b"2\n"))
    assert read(tmp_path / "s.csv.gz").rows() == [{"n": 1}, {"n": 2}]


def test_missing_columns_of_a_file_are_null(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.array([2], pa.int32()), "b": ["x"]}), tmp_path / "2.parquet")
    assert read(tmp_path, Wanted(tmp_path.name)).rows() == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]


BAD = {
    "csv": "n,t\n" + "".join({3: "3\n", 5: "x5,t\n", 6: '6,"\xff"\n'}.get(n, f"{n},t\n") for n in range(1, 200)),
    "jsonl": "".join(
        {3: "{broken\n", 5: '{"n":"x5"}\n', 6: "[]\n", 9: '{"n":9}{"n":9}\n'}.get(n, f'{{"n":{n}}}\n')
        for n in range(1, 200)
    ),
}


@pytest.mark.parametrize("form", BAD)
def test_bad_rows_are_rejected_individually_with_their_line(tmp_path: Path, form: str) -> None:
    (tmp_path / f"s.{form}").write_bytes(BAD[form].encode("latin-1"))
    kept = Kept()
    columns = pa.schema([("n", pa.int64()), ("t", pa.string())])
    wanted = Wanted(on_data_error=DataErrorPolicy.DLQ, columns=columns)
    moved = move(reads(tmp_path / f"s.{form}"), kept.side, wanted).ok()
    lines = [error.details["line"] for _, _, error in moved.seen.letters]
    assert lines == ([3, 5, 6] if form == "csv" else [3, 5, 6, 9])
    assert [row["n"] for row in kept.rows()] == [n for n in range(1, 200) if n not in lines]
    assert all(rows.num_rows == 1 and error.category is ErrorCategory.DATA for _, rows, error in moved.seen.letters)


def test_bad_row_ends_the_run_by_default(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"n":1}\n{"n":\n')
    moved = move(reads(tmp_path / "s.jsonl"), Kept().side)
    assert moved.error.code == "BAD_ROW" and "row 2" in moved.error.message


@pytest.mark.parametrize("text", ["n,t\n" + '1,"' + "x" * 3_000_000 + '"\n2,y\n', None])
def test_record_above_the_limit_is_rejected_and_the_next_one_is_read(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / ("s.csv" if text else "s.jsonl")
    path.write_text(text or '{"n":1,"t":"' + "x" * 3_000_000 + '"}\n{"n":2}\n')
    kept = Kept()
    wanted = Wanted(on_data_error=DataErrorPolicy.DLQ, limits=StreamLimits(max_record_bytes=1_000_000))
    if text:
        wanted = Wanted(on_data_error=DataErrorPolicy.DLQ, limits=StreamLimits(2_000_000, 4_000_000))
    moved = move(reads(path), kept.side, wanted).ok()
    assert len(moved.seen.letters) == 1 and [row["n"] for row in kept.rows()] == [2]


def test_csv_record_larger_than_a_block_is_read_between_small_ones(tmp_path: Path) -> None:
    small = [f"{n},{'y' * 50}\n" for n in range(60_000)]
    small[30_000] = f"30000,{'x' * 2_000_000}\n"
    small[40_000] = "bad,row,here\n"
    (tmp_path / "s.csv").write_text("n,t\n" + "".join(small))
    kept = Kept()
    moved = move(reads(tmp_path / "s.csv"), kept.side, Wanted(on_data_error=DataErrorPolicy.DLQ)).ok()
    assert kept.table()["n"].to_pylist() == [n for n in range(60_000) if n != 40_000]
    assert [error.details["line"] for _, _, error in moved.seen.letters] == [40_001]


class Counting(list[pa.RecordBatch]):
    """Counts rows and keeps none."""

    rows = 0

    def append(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_memory_does_not_grow_with_the_file_size(tmp_path: Path, form: str) -> None:
    batch = pa.record_batch({"n": pa.array(range(10_000)), "t": pa.array(["x" * 200] * 10_000)})
    move(emits(*[batch] * 20), writes(tmp_path, format=form, compression="none"), Wanted(schema=batch.schema)).ok()
    used: list[int] = []

    class Measuring(FileSource):
        def run_read(self, stream: StreamContext) -> ReadSummary:
            emit = self._host.emit_batch

            def measured(rows: Any) -> None:
                used.append(pa.total_allocated_bytes())
                emit(rows)

            self._host.emit_batch = measured  # type: ignore[method-assign, assignment]
            return super().run_read(stream)

    before = pa.total_allocated_bytes()
    kept, counted = Kept(), Counting()
    kept.batches = counted
    side = replace(reads(tmp_path), make=Measuring)
    move(side, kept.side, Wanted(limits=StreamLimits(1 << 20, max_inflight_batches=2))).ok()
    assert counted.rows == 200_000 and max(used) - before < 20 << 20


# --- incremental ---


def test_each_run_reads_the_files_that_were_added(tmp_path: Path) -> None:
    runs = Increments(tmp_path)
    write_numbers(tmp_path / "1.jsonl", 1, 2)
    write_numbers(tmp_path / "2.jsonl", 3)
    runs.run().ok()
    assert runs.seen == [1, 2, 3]
    runs.run().ok()
    assert runs.seen == []
    write_numbers(tmp_path / "3.jsonl", 4)
    write_numbers(tmp_path / "4.jsonl")
    runs.run().ok()
    assert runs.seen == [4] and runs.cursor.value["file"] == "4.jsonl"


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_every_checkpoint_resumes_inside_a_file_without_loss_or_repetition(tmp_path: Path, form: str) -> None:
    values = list(range(1, 301))
    for first in (0, 150):
        table = pa.table({"n": pa.array(values[first : first + 150], pa.int64())})
        path = tmp_path / f"{first:03}.{form}"
        if form == "parquet":
            pq.write_table(table, path, row_group_size=40)
        elif form == "arrow":
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table, 40)
        else:
            lines = [str(n) if n % 50 else "bad" for n in table["n"].to_pylist()]
            text = "".join(f'{{"n":{n}}}\n' for n in lines) if form == "jsonl" else "n\n" + "\n".join(lines)
            path.write_text(text)
    bad = {n for n in values if n % 50 == 0 and form in ("csv", "jsonl")}
    wanted = Wanted(
        tmp_path.name,
        INCREMENTAL,
        on_data_error=DataErrorPolicy.DLQ,
        limits=StreamLimits(max_batch_bytes=1 << 10),
        columns=pa.schema([("n", pa.int64())]),
    )
    config = {"checkpoint": {"rows": 1}}
    kept = Kept()
    moved = move(reads(tmp_path, **config), kept.side, wanted).ok()
    assert [row["n"] for row in kept.rows()] == [n for n in values if n not in bad]
    assert len(moved.seen.safe) == 1  # a destination that commits once; the cursors are in the source's checkpoints
    for place in range(0, 150, 7):
        file = tmp_path / f"000.{form}"
        state = file.stat()
        cursor = JsonCursor(
            {
                "file": file.name,
                "rows": place,
                "done": False,
                "size": state.st_size,
                "mtime_ns": state.st_mtime_ns,
                "newest_ns": state.st_mtime_ns,
            }
        )
        again = Kept()
        rest = move(reads(tmp_path, **config), again.side, replace(wanted, cursor=cursor)).ok()
        assert [row["n"] for row in again.rows()] == [n for n in values if n > place and n not in bad]
        assert len(rest.seen.letters) == len([n for n in bad if n > place])


def test_file_that_changed_after_it_was_read_is_a_data_error(tmp_path: Path) -> None:
    runs = Increments(tmp_path)
    write_numbers(tmp_path / "1.jsonl", 1)
    write_numbers(tmp_path / "2.jsonl", 2)
    runs.run().ok()
    for name, sentence in (("2.jsonl", "changed since it was read"), ("1.jsonl", "added or changed")):
        write_numbers(tmp_path / name, 1, 2, 3)
        stamp = runs.cursor.value["newest_ns"] + 10**9
        os.utime(tmp_path / name, ns=(stamp, stamp))
        error = runs.run().error
        assert (error.code, error.category) == ("FILE_CHANGED", ErrorCategory.DATA)
        assert sentence in error.message and name in error.message
        skipped = runs.run(DataErrorPolicy.DLQ).ok()
        assert len(skipped.seen.letters) == 1 and runs.seen == []
        assert not runs.run().ok().seen.letters


def test_cursor_of_another_source_is_refused(tmp_path: Path) -> None:
    runs = Increments(tmp_path)
    write_numbers(tmp_path / "1.jsonl", 1)
    runs.cursor = JsonCursor({"file": 7})
    assert runs.run().error.code == "BAD_CURSOR"


def test_stream_without_rows_has_a_final_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("n\n")
    moved = move(reads(tmp_path / "s.csv"), Kept().side).ok()
    assert [each.id for each in moved.seen.safe] == [0]


def test_partitions_are_disjoint_and_complete(tmp_path: Path) -> None:
    for number in range(7):
        write_numbers(tmp_path / f"{number}.jsonl", *range(number * 10, number * 10 + 1 + number))
    with opened(reads(tmp_path), Wanted(tmp_path.name), SOURCE) as source:
        assert source.partitions(Wanted(tmp_path.name, INCREMENTAL).context(), 3) == [None]
        parts = source.partitions(Wanted(tmp_path.name).context(), 3)
    assert 2 <= len(parts) <= 4
    found = [row["n"] for part in parts for row in read(tmp_path, Wanted(tmp_path.name, partition=part)).rows()]
    assert found == [row["n"] for row in read(tmp_path, Wanted(tmp_path.name)).rows()]


# --- errors ---


def failed(path: Path, **config: Any) -> ConnectorError:
    with pytest.raises(ConnectorError) as raised, opened(reads(path, **config), Wanted(), SOURCE) as source:
        source.validate(JsonConfig({"path": str(path), **config}))
        source.discover()
    return raised.value


def test_missing_path_is_a_config_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path / "none" / "*.csv"):
        error = failed(path)
        assert (error.category, error.code) == (ErrorCategory.CONFIG, "NO_PATH") and "none" in error.message


def test_unknown_suffix_without_a_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("n\n1\n")
    assert failed(tmp_path / "s.txt").code == "NO_FORMAT"
    assert read(tmp_path / "s.txt", format="csv").rows() == [{"n": 1}]


def test_unreadable_file_is_a_permission_error(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("n\n1\n")
    tmp_path.chmod(0o755)
    (tmp_path / "s.csv").chmod(0)
    tmp_path.chmod(0)
    try:
        with as_nobody():
            error = failed(tmp_path / "s.csv")
    finally:
        tmp_path.chmod(0o755)
    assert error.category is ErrorCategory.PERMISSION and not error.retryable


@pytest.mark.parametrize("name", ["b.parquet", "b.arrow", "b.csv.gz", "b.jsonl.zst"])
def test_corrupt_file_is_a_data_error_and_the_others_are_read(tmp_path: Path, name: str) -> None:
    suffix = name.partition(".")[2].partition(".")[0]
    good = pa.table({"n": [1]})
    for each in ("a", "c"):
        if suffix == "parquet":
            pq.write_table(good, tmp_path / f"{each}.parquet")
        elif suffix == "arrow":
            with pa.ipc.new_stream(tmp_path / f"{each}.arrow", good.schema) as writer:
                writer.write_table(good)
        else:
            (tmp_path / f"{each}.{suffix}").write_text("n\n1\n" if suffix == "csv" else '{"n":1}\n')
    (tmp_path / "_gauss").mkdir()
    (tmp_path / "_gauss" / "schema.arrow").write_bytes(good.schema.serialize())
    (tmp_path / name).write_bytes(b"ARROW1 is not what comes now" * 9)
    moved = move(reads(tmp_path), Kept().side, Wanted(tmp_path.name))
    assert (moved.error.code, moved.error.category) == ("CORRUPT_FILE", ErrorCategory.DATA)
    assert name in moved.error.message
    kept = Kept()
    skipped = move(reads(tmp_path), kept.side, Wanted(tmp_path.name, on_data_error=DataErrorPolicy.DLQ)).ok()
    assert [row["n"] for row in kept.rows()] == [1, 1] and len(skipped.seen.letters) == 1


def test_unknown_stream_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("n\n1\n")
    error = move(reads(tmp_path / "people.csv"), Kept().side, Wanted("peopel")).error
    assert error.code == "NO_STREAM" and "people" in error.hint


def test_invalid_config_is_refused_with_its_fault(tmp_path: Path) -> None:
    error = failed(tmp_path, delimiter="ab", formt="csv")
    assert error.code == "BAD_CONFIG" and "delimiter" in error.message and "formt" in error.message
