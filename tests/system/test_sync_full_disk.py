"""Syncs on a disk that is full for a while: a typed error, nothing lost, and the same command completes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.embedded import ensure
from helpers.disks import fill, small_file_system
from helpers.gated_sync import ROWS, STREAM, GatedSync
from helpers.landed_rows import landed_ids

pytestmark = pytest.mark.fault
BALLAST = "ballast"


def fails_for_space(sync: GatedSync, disk: Path) -> dict[str, Any]:
    """Fills the disk in the middle of a run; returns the error by which that ends."""
    sync.start()
    sync.wait_for_gate()
    fill(disk / BALLAST)
    sync.open_gate()
    assert sync.end() == 3, sync.events
    assert sync.events[-1]["status"] == "failed" and "Traceback" not in sync.said, sync.said
    return sync.error


def files(folder: Path) -> list[int]:
    """The ids in the files of a stream, in order."""
    lines = [line for file in sorted((folder / STREAM).glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [json.loads(line)["id"] for line in lines]


@pytest.mark.parametrize("mode", ["incremental", "full_refresh"])
def test_the_folder_of_a_file_destination(tmp_path: Path, mode: str) -> None:
    with small_file_system(tmp_path / "small", "4m") as disk:
        out = disk / "out"
        sync = GatedSync(tmp_path / "sync", {"connector": "file", "path": str(out), "format": "jsonl"}, mode=mode)
        if mode == "full_refresh":
            sync.open_gate()
            fill(disk / BALLAST)
            assert sync.run() == 3
            error = sync.error
            assert not out.exists() or files(out) == []
        else:
            error = fails_for_space(sync, disk)
            assert files(out) == list(range(1, 101))
        assert (error["code"], error["retryable"]) == ("DISK_FULL", True) and "the disk is full" in error["message"]
        (disk / BALLAST).unlink()
        assert sync.run() == 0, sync.events
        assert files(out) == list(range(1, ROWS + 1))


def test_the_data_directory_of_the_sync(tmp_path: Path) -> None:
    with small_file_system(tmp_path / "small", "4m") as disk:
        out = tmp_path / "out"
        config = {"connector": "file", "path": str(out), "format": "jsonl"}
        sync = GatedSync(tmp_path / "sync", config, data_dir=disk / "data")
        error = fails_for_space(sync, disk)
        assert (error["code"], error["retryable"]) == ("DISK_FULL", True), error
        assert "the disk is full" in error["message"] and str(disk) in error["message"]
        (disk / BALLAST).unlink()
        assert sync.run() == 0, sync.events
        assert files(out) == list(range(1, ROWS + 1))


@pytest.mark.parametrize("system", ["postgres", "clickhouse"])
def test_the_disk_of_a_server(tmp_path: Path, system: str) -> None:
    with small_file_system(tmp_path / "small", "80m") as disk, ensure(system, disk / "server") as server:
        url = server.endpoint.url
        sync = GatedSync(tmp_path / "sync", {"connector": system, "dsn": url})
        error = fails_for_space(sync, disk)
        assert (error["code"], error["retryable"]) == ("DISK_FULL", True), error
        (disk / BALLAST).unlink()
        assert landed_ids(url, STREAM) == list(range(1, 101))
        assert sync.run() == 0, sync.events
        assert landed_ids(url, STREAM) == list(range(1, ROWS + 1))
