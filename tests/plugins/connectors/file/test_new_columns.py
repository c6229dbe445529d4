"""Columns that a plan does not see, since they come late in a file or in files between the first and the last ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gauss.config.syncs import SyncDef
from gauss.connect.sync import Sync, SyncResult
from gauss.contracts.connector.stream import DataErrorPolicy
from plugins.connectors.file.syncing import Kept, Wanted, move, reads

FILES = 30


def sync(folder: Path, new_column: str = "add", mode: str = "incremental") -> Sync:
    return Sync(
        SyncDef.model_validate(
            {
                "name": "events",
                "source": {"connector": "file", "path": str(folder / "events")},
                "destination": {"connector": "file", "path": str(folder / "out"), "format": "arrow"},
                "streams": [{"name": "events", "mode": mode}],
                "policies": {"schema_evolution": {"new_column": new_column}},
            }
        ),
        folder,
        folder / ".gauss",
    )


def landed(folder: Path) -> dict[int, dict[str, Any]]:
    """Rows at the destination, by `n`."""
    tables = [pa.ipc.open_file(str(each)).read_all() for each in sorted((folder / "out" / "events").glob("*.arrow"))]
    rows = [row for table in tables for row in table.to_pylist()]
    assert len(rows) == len({row["n"] for row in rows})
    return {row["n"]: row for row in rows}


def write_file(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    match path.suffix:
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case ".csv":
            lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
            path.write_text("\n".join(lines) + "\n")
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        case _:
            table = pa.Table.from_pylist(rows)
            with pa.ipc.new_file(str(path), table.schema) as writer:
                writer.write_table(table)


def many_files(folder: Path, form: str) -> None:
    """Thirty files with two rows each, of which only the fifteenth has the column `late`."""
    for number in range(FILES):
        late = {"late": f"x{number}"} if number == 15 else {}
        rows = [{"n": 2 * number + place, **late} for place in range(2)]
        write_file(folder / "events" / f"{number:03d}.{form}", rows)


def late_keys(folder: Path) -> None:
    """A file whose second MB has new keys."""
    rows: list[dict[str, Any]] = [{"n": n, "text": "x" * 100} for n in range(25_000)]
    rows[15_000]["late"] = 7
    rows[24_000]["later"] = "seven"
    write_file(folder / "events" / "1.jsonl", rows)


def succeeded(result: SyncResult) -> SyncResult:
    assert result.status == "succeeded", result.error
    return result


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_a_column_of_a_file_in_the_middle_is_written(tmp_path: Path, form: str) -> None:
    many_files(tmp_path, form)
    succeeded(sync(tmp_path).run())
    rows = landed(tmp_path)
    assert sorted(rows) == list(range(2 * FILES))
    assert rows[30]["late"] == rows[31]["late"] == "x15" and rows[29].get("late") is None


@pytest.mark.parametrize("mode", ["incremental", "full_refresh"])
def test_keys_behind_the_first_megabyte_are_written(tmp_path: Path, mode: str) -> None:
    late_keys(tmp_path)
    succeeded(sync(tmp_path, mode=mode).run())
    rows = landed(tmp_path)
    assert len(rows) == 25_000
    assert rows[15_000]["late"] == 7 and rows[24_000]["later"] == "seven"


def test_a_late_field_of_an_object_is_a_data_error_if_the_table_can_not_hold_it(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"n": n, "text": "x" * 100, "at": {"x": n}} for n in range(12_000)]
    rows[11_000]["at"]["y"] = 2
    write_file(tmp_path / "events" / "1.jsonl", rows)
    result = sync(tmp_path).run()
    assert result.error is not None and result.error.code == "NO_CONVERSION"
    assert result.error.message.startswith("at: ") and "'y': 2" in result.error.message


def test_the_next_plan_knows_the_columns_that_a_run_has_found(tmp_path: Path) -> None:
    late_keys(tmp_path)
    write_file(tmp_path / "events" / "2.jsonl", [{"n": 25_000, "late": 8}])
    succeeded(sync(tmp_path).run())
    [change] = sync(tmp_path).dry_run()
    assert not change.changes and not [each for each in change.statements if "late" in each]


def test_new_columns_are_ignored_if_the_policy_says_so(tmp_path: Path) -> None:
    late_keys(tmp_path)
    succeeded(sync(tmp_path, "ignore").run())
    rows = landed(tmp_path)
    assert len(rows) == 25_000 and "late" not in rows[15_000]


def test_a_new_column_fails_the_run_with_its_name_if_the_policy_says_so(tmp_path: Path) -> None:
    write_file(tmp_path / "events" / "1.jsonl", [{"n": 1}])
    succeeded(sync(tmp_path, "fail").run())
    rows: list[dict[str, Any]] = [{"n": n, "text": "x" * 100} for n in range(2, 25_000)]
    rows[20_000]["late"] = 7
    write_file(tmp_path / "events" / "2.jsonl", [{key: row[key] for key in row if key != "text"} for row in rows])
    result = sync(tmp_path, "fail").run()
    assert result.status == "failed" and result.error is not None
    assert result.error.code == "SCHEMA_CHANGED" and "late" in result.error.message
    assert sorted(landed(tmp_path)) == [1]


def test_columns_that_the_host_does_not_ask_for_are_left_out(tmp_path: Path) -> None:
    late_keys(tmp_path)
    kept = Kept()
    wanted = Wanted(stream="1", columns=pa.schema([("n", pa.int64())]), on_data_error=DataErrorPolicy.FAIL)
    move(reads(tmp_path / "events" / "1.jsonl"), kept.side, wanted).ok()
    assert kept.table().schema.names == ["n"] and kept.table().num_rows == 25_000
