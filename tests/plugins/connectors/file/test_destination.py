"""The file destination: modes, watermarks, fencing, recovery after a crash, errors."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gauss.connect.attempt import Attempt
from gauss.connect.host import StreamHost
from gauss.contracts.connector.connector import ManagedDestination, Watermark, partition_key
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.errors import CommitState, ConnectorError, ErrorCategory
from gauss.contracts.connector.lifecycle import JsonConfig
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind
from gauss.contracts.connector.stream import Append, Replace, SyncMode, Upsert, WriteMode
from gauss.plugins.connectors.file import atomic
from gauss.plugins.connectors.file.data_folder import DataFolder
from gauss.plugins.connectors.file.destination import FileDestination
from plugins.connectors.file.syncing import (
    FULL,
    INCREMENTAL,
    Wanted,
    as_nobody,
    emits,
    move,
    ns,
    numbers,
    opened,
    read,
    writes,
)


def watermark(path: Path, wanted: Wanted, partition: str = "") -> Watermark | None:
    with opened(writes(path), wanted) as manager:
        assert isinstance(manager, ManagedDestination)
        return manager.watermark(wanted.context(), partition)


def files(path: Path, stream: str = "s") -> list[str]:
    return sorted(each.name for each in (path / stream).iterdir() if each.is_file())


def hidden(path: Path) -> list[str]:
    """Temporary files and folders of any kind."""
    return [str(each) for each in path.rglob("*") if each.name.startswith((".tmp", "staging", "aside"))]


def test_folder_of_a_stream_has_its_whole_name_or_the_given_one(tmp_path: Path) -> None:
    for stream, folder in {"a.b": "a.b", "given": "x%2Fy"}.items():
        move(emits(numbers(1)), writes(tmp_path, tables={"given": "x/y"}), Wanted(stream=stream)).ok()
        assert files(tmp_path, folder)


def test_incremental_stream_is_committed_at_every_mark(tmp_path: Path) -> None:
    wanted = Wanted(mode=INCREMENTAL)
    assert watermark(tmp_path, wanted) is None
    moved = move(emits(numbers(1), numbers(2, 3)), writes(tmp_path), wanted).ok()
    assert moved.cursor == Int64Cursor(2)
    assert watermark(tmp_path, wanted) == Watermark(1, 2, Int64Cursor(2), True)
    assert len(files(tmp_path)) == 2 and ns(tmp_path) == [1, 2, 3]
    later = replace(wanted, generation=2, cursor=Int64Cursor(2))
    move(emits(numbers(1), numbers(2, 3), numbers(4)), writes(tmp_path), later).ok()
    assert ns(tmp_path) == [1, 2, 3, 4] and watermark(tmp_path, later) == Watermark(2, 1, Int64Cursor(3), True)
    assert not hidden(tmp_path)


@pytest.mark.parametrize(("write", "rows"), [(Append(), [1, 2, 3]), (Replace(), [3])])
def test_full_refresh_is_invisible_until_it_is_finished(tmp_path: Path, write: Any, rows: list[int]) -> None:
    wanted = Wanted(write=write)
    move(emits(numbers(1), numbers(2)), writes(tmp_path), wanted).ok()
    assert ns(tmp_path) == [1, 2]
    later = replace(wanted, generation=2, finish=False)
    move(emits(numbers(3)), writes(tmp_path), later).ok()
    assert ns(tmp_path) == [1, 2]
    assert watermark(tmp_path, later) == Watermark(2, 1, Int64Cursor(1), True)
    with opened(writes(tmp_path), later) as manager:
        for _ in range(3):
            manager.finish(later.context(), 2)
            assert ns(tmp_path) == rows
    assert watermark(tmp_path, later) == Watermark(2, 1, Int64Cursor(1), True) and not hidden(tmp_path)


@pytest.mark.parametrize("write", [Append(), Replace()])
def test_full_refresh_swaps_in_two_steps_if_folders_cannot_be_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any
) -> None:
    monkeypatch.setattr(atomic, "_exchange", lambda *_: False)
    wanted = Wanted(write=write)
    move(emits(numbers(1)), writes(tmp_path), wanted).ok()
    later = replace(wanted, generation=2)
    renamed = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self.name.startswith("staging"):
            raise OSError(errno.EIO, "gone")
        return renamed(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fails)
        with pytest.raises(ConnectorError, match="gone"):
            move(emits(numbers(2)), writes(tmp_path), later)
    assert not (tmp_path / "s").exists()  # the moment between the two steps
    with opened(writes(tmp_path), later) as manager:
        manager.finish(later.context(), 2)
    expected = [1, 2] if isinstance(write, Append) else [2]
    assert ns(tmp_path) == expected and not hidden(tmp_path)


def test_interrupted_full_refresh_leaves_no_rows_to_the_next_one(tmp_path: Path) -> None:
    move(emits(numbers(1)), writes(tmp_path), Wanted(write=Replace())).ok()
    move(emits(numbers(2)), writes(tmp_path), Wanted(write=Replace(), generation=2, finish=False)).ok()
    move(emits(numbers(3)), writes(tmp_path), Wanted(write=Replace(), generation=3)).ok()
    assert ns(tmp_path) == [3] and not hidden(tmp_path)


def test_empty_full_refresh_replaces_all_rows_and_keeps_the_columns(tmp_path: Path) -> None:
    schema = numbers(1).schema
    move(emits(numbers(1)), writes(tmp_path), Wanted(write=Replace(), schema=schema)).ok()
    move(emits(), writes(tmp_path), Wanted(write=Replace(), generation=2, schema=schema)).ok()
    assert ns(tmp_path) == []
    with opened(writes(tmp_path), Wanted()) as manager:
        assert manager.describe(Wanted().context()) == schema


def test_partitions_form_one_full_refresh_and_a_repeated_one_is_written_once(tmp_path: Path) -> None:
    parts = {"0": [1, 2], "1": [3], "2": [4]}
    for part in ("0", "1", "2", "1"):
        wanted = Wanted(partition=part, finish=False)
        run, _ = wanted.run()
        with opened(writes(tmp_path), wanted) as manager:
            if part == "0":
                manager.prepare(run.stream, [], 1)
        outcome = Attempt(run, emits(*(numbers(each) for each in parts[part])), writes(tmp_path))()
        assert outcome.error is None
        rows = len(parts[part])
        assert watermark(tmp_path, wanted, partition_key(part)) == Watermark(1, rows, Int64Cursor(rows), True)
    with opened(writes(tmp_path), Wanted()) as manager:
        manager.finish(Wanted().context(), 1)
    assert sorted(ns(tmp_path)) == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", [FULL, INCREMENTAL])
def test_run_of_an_earlier_generation_is_fenced_at_every_step(tmp_path: Path, mode: SyncMode) -> None:
    old, new = Wanted(mode=mode, generation=1), Wanted(mode=mode, generation=2)
    with opened(writes(tmp_path), old) as manager:
        manager.prepare(old.context(), [], 1)
        with opened(writes(tmp_path), new) as later:
            later.prepare(new.context(), [], 2)
        with pytest.raises(ConnectorError) as raised:
            manager.prepare(old.context(), [], 1)
    assert raised.value.code == "FENCED" and not raised.value.retryable
    run, _ = old.run()
    outcome = Attempt(run, emits(numbers(1)), writes(tmp_path))()
    assert outcome.error is not None and outcome.error.code == "FENCED"
    move(emits(numbers(2)), writes(tmp_path), new).ok()
    assert ns(tmp_path) == [2]


@pytest.mark.parametrize("write", [Append(), Replace()])
def test_a_second_refresh_of_the_same_generation_is_refused(tmp_path: Path, write: WriteMode) -> None:
    wanted = Wanted(write=write)
    move(emits(numbers(1)), writes(tmp_path), wanted).ok()
    with opened(writes(tmp_path), wanted) as manager, pytest.raises(ConnectorError) as raised:
        manager.prepare(wanted.context(), [], 1)
    assert raised.value.code == "FENCED" and ns(tmp_path) == [1]


def test_run_is_fenced_between_two_commits(tmp_path: Path) -> None:
    """A later run begins while the earlier one writes: what that has not committed by then never appears."""
    old, new = Wanted(mode=INCREMENTAL), Wanted(mode=INCREMENTAL, generation=2, cursor=Int64Cursor(1))
    batches = [numbers(1), numbers(2), numbers(3)]
    begun: list[Any] = []

    class Interrupted(FileDestination):
        def run_write(self, stream: Any) -> Any:
            original = self._host.checkpoint

            def checkpoint(each: Any) -> None:
                original(each)
                if each.id == 1 and not begun:
                    begun.append(each)
                    with opened(writes(tmp_path), new) as later:
                        later.prepare(new.context(), [], 2)

            self._host.checkpoint = checkpoint  # type: ignore[method-assign, assignment]
            return super().run_write(stream)

    side = replace(writes(tmp_path), make=Interrupted)
    assert move(emits(*batches), side, old).error.code == "FENCED"
    assert ns(tmp_path) == [1]
    move(emits(*batches), writes(tmp_path), new).ok()
    assert ns(tmp_path) == [1, 2, 3] and not hidden(tmp_path)


def test_two_syncs_in_one_folder_keep_their_rows_and_watermarks(tmp_path: Path) -> None:
    for name, value in (("a", 1), ("b", 2), ("a", 3)):
        wanted = Wanted(mode=INCREMENTAL, pipeline=name, generation=value)
        move(emits(numbers(value)), writes(tmp_path), wanted).ok()
    assert sorted(ns(tmp_path)) == [1, 2, 3]
    move(emits(numbers(4)), writes(tmp_path), Wanted(pipeline="a", generation=4)).ok()
    assert sorted(ns(tmp_path)) == [1, 2, 3, 4]
    kept = watermark(tmp_path, Wanted(mode=INCREMENTAL, pipeline="b"))
    assert kept == Watermark(2, 1, Int64Cursor(1), True)


def test_commit_that_fails_at_its_end_is_unknown_and_completed_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(DataFolder, "publish", fails)
        error = move(emits(numbers(1)), writes(tmp_path), Wanted(mode=INCREMENTAL)).error
    assert error.commit_state is CommitState.AFTER_COMMIT_UNKNOWN and error.retryable and not error.safe_to_retry
    later = Wanted(mode=INCREMENTAL, generation=2)
    mark = watermark(tmp_path, later)
    assert mark == Watermark(1, 1, Int64Cursor(1), False)
    move(emits(numbers(1), numbers(2)), writes(tmp_path), replace(later, cursor=mark.cursor)).ok()
    assert ns(tmp_path) == [1, 2]


def test_columns_are_described_and_extended(tmp_path: Path) -> None:
    first = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("gone", pa.string())])
    move(emits(pa.record_batch([[1], ["x"]], schema=first)), writes(tmp_path), Wanted(schema=first)).ok()
    second = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("new", pa.float64())])
    wanted = Wanted(generation=2, schema=second)
    with opened(writes(tmp_path), wanted) as manager:
        live = manager.describe(wanted.context())
        assert live == first and manager.statements(wanted.context(), live, live) == []
        (statement,) = manager.statements(wanted.context(), live, second)
        assert "new double" in statement and "n int64 not null" in statement
    move(emits(pa.record_batch([[2], [0.5]], schema=second)), writes(tmp_path), wanted).ok()
    assert read(tmp_path).rows() == [{"n": 1, "gone": "x", "new": None}, {"n": 2, "gone": None, "new": 0.5}]


@pytest.mark.parametrize("stream", ["../up", "a/b", ".", "..", "x" * 900, "_gauss", ".gauss", "é\n%"])
def test_hostile_stream_names_stay_inside_the_directory(tmp_path: Path, stream: str) -> None:
    place = tmp_path / "out"
    for mode in (FULL, INCREMENTAL):
        generation = 1 if mode is FULL else 2
        move(emits(numbers(generation)), writes(place), Wanted(stream, mode, generation=generation)).ok()
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    assert ns(place, stream) == [1, 2]


@pytest.mark.parametrize(("write", "name"), [(Replace(), "mine.csv"), (Append(), ".hidden"), (Append(), "deep/x")])
def test_full_refresh_refuses_to_remove_files_that_no_sync_has_written(tmp_path: Path, write: Any, name: str) -> None:
    mine = tmp_path / "s" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("n\n7\n")
    with pytest.raises(ConnectorError, match="was not written by a sync") as raised:
        move(emits(numbers(1)), writes(tmp_path), Wanted(write=write))
    assert raised.value.category is ErrorCategory.CONFIG and mine.read_text() == "n\n7\n"


def test_rows_are_appended_beside_files_of_other_writers(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "0.csv").write_text("n\n7\n")
    move(emits(numbers(8)), writes(tmp_path, format="csv"), Wanted(schema=numbers(1).schema)).ok()
    assert sorted(ns(tmp_path)) == [7, 8]


def test_upsert_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="upsert") as raised:
        move(emits(numbers(1)), writes(tmp_path), Wanted(write=Upsert(["n"])))
    assert raised.value.category is ErrorCategory.CONFIG


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"format": "csv", "compression": "snappy"}, "compressed"),
        ({"format": "csv", "delimiter": "-"}, "delimiter"),
        ({"max_file_bytes": 0}, "max_file_bytes"),
    ],
)
def test_invalid_config_is_refused(tmp_path: Path, config: dict[str, Any], key: str) -> None:
    with pytest.raises(ConnectorError, match=key), opened(writes(tmp_path, **config), Wanted()):
        pass


# --- errors ---


def test_read_only_directory_is_a_permission_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    side = writes(tmp_path / "out")
    with as_nobody(), pytest.raises(ConnectorError) as raised, opened(side, Wanted()) as manager:
        manager.validate(side.config)
    assert raised.value.category is ErrorCategory.PERMISSION


def test_directory_that_becomes_read_only_between_two_commits_costs_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as place:
        out = Path(place, "out")
        Path(place).chmod(0o777)
        told = StreamHost.checkpoint

        def allow(mode: int) -> None:
            for each in (out, *(found for found in out.rglob("*") if found.is_dir())):
                each.chmod(mode)

        def checkpoint(host: StreamHost, made: Checkpoint) -> None:
            told(host, made)
            if made.kind is CheckpointKind.DEST:
                allow(0o555)

        source = emits(numbers(1), numbers(2), numbers(3))
        with as_nobody():
            with monkeypatch.context() as patched:
                patched.setattr(StreamHost, "checkpoint", checkpoint)
                moved = move(source, writes(out), Wanted(mode=INCREMENTAL))
            assert moved.error.category is ErrorCategory.PERMISSION and not moved.error.retryable
            assert moved.cursor == Int64Cursor(1) and ns(out) == [1]
            allow(0o755)
            move(source, writes(out), Wanted(mode=INCREMENTAL, cursor=moved.cursor, generation=2)).ok()
            assert ns(out) == [1, 2, 3]


def test_file_instead_of_the_directory_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(ConnectorError) as raised, opened(writes(tmp_path / "out"), Wanted()) as manager:
        manager.validate(JsonConfig({"path": str(tmp_path / "out" / "in")}))
    assert raised.value.category is ErrorCategory.CONFIG


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 4 MiB if this process may mount one, else a limit of 1 MiB per file: both end in a typed
    error of a write."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder], capture_output=True, check=False
    )
    if mounted.returncode == 0:
        try:
            yield folder
        finally:
            subprocess.run(["umount", folder], check=True)
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        yield folder
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_full_disk_is_a_transient_error_and_committed_rows_are_kept(tmp_path: Path, form: str) -> None:
    small = pa.record_batch({"n": pa.array([1]), "raw": pa.array([b"x"])})
    large = pa.record_batch({"n": pa.array([2]), "raw": pa.array([os.urandom(5 << 20)])})
    config = {"format": form, "compression": "none"}
    with small_disk(tmp_path / "disk") as disk:
        moved = move(emits(small, large), writes(disk, **config), Wanted(mode=INCREMENTAL))
        assert (moved.error.category, moved.error.code) == (ErrorCategory.TRANSIENT_DB, "DISK_FULL")
        assert moved.error.retryable and "full" in moved.error.message
        assert ns(disk) == [1] and not hidden(disk)
        later = Wanted(mode=INCREMENTAL, generation=2, cursor=Int64Cursor(1))
        move(emits(small, small), writes(disk, **config), later).ok()
        assert ns(disk) == [1, 1]


def test_file_size_limit_is_reported_like_a_full_disk(tmp_path: Path) -> None:
    large = pa.record_batch({"n": pa.array([2]), "raw": pa.array([os.urandom(3 << 20)])})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        moved = move(emits(large), writes(tmp_path), Wanted(mode=INCREMENTAL))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert moved.error.code == "DISK_FULL" and not hidden(tmp_path)
