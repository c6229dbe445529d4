"""A copy of a file topic that is made during writes opens as a topic and holds what was visible."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from gauss.contracts.storage import Log
from gauss.model.errors import Rejected
from gauss.plugins.storages.file.log import FileLog
from helpers.logs import arrow, data, numbered, open_log, put, records

CONFIG: dict[str, Any] = {"framing": "newline", "segment_bytes": 4096}


def backed_up(log: Log, folder: Path) -> Path:
    cast(FileLog, log).backup(folder)
    return folder


def restored(folder: Path, **more: Any) -> Log:
    """Opens a copy as a topic of another data directory, whose journal does not mention it."""
    return open_log("file", folder.parent, {**CONFIG, **more, "data_dir": folder.name}, committed=lambda _: False)


@pytest.mark.parametrize("partition", [None, "date"])
def test_a_copy_holds_every_segment_with_its_times(tmp_path: Path, partition: str | None) -> None:
    config = {**CONFIG, "partition_by": partition} if partition else CONFIG
    log = open_log("file", tmp_path, config)
    for first in range(0, 3000, 100):
        put(log, numbered(first, 100, ts_ms=[first * 100_000 + number for number in range(100)]))
    copy = backed_up(log, tmp_path / "copy")
    assert records(restored(copy, **({"partition_by": partition} if partition else {}))) == records(log)


def test_a_copy_leaves_out_what_is_not_visible_and_commits_what_is(tmp_path: Path) -> None:
    log = open_log("file", tmp_path, CONFIG)
    log.append(numbered(0, 10), publish=7)
    log.reveal()
    log.append(numbered(10, 1000), publish=8)
    copy = restored(backed_up(log, tmp_path / "copy"))
    assert data(copy) == [b"r%d" % number for number in range(10)]
    put(copy, arrow(b"goes on"))
    assert data(copy)[-1] == b"goes on"
    log.reveal()
    assert len(data(log)) == 1010


def test_an_empty_topic_and_one_with_a_floor_can_be_copied(tmp_path: Path) -> None:
    log = open_log("file", tmp_path, CONFIG)
    assert data(restored(backed_up(log, tmp_path / "empty"))) == []
    for first in range(0, 3000, 100):
        put(log, numbered(first, 100))
    log.trim(1500)
    assert log.floor > 0
    assert records(restored(backed_up(log, tmp_path / "rest"))) == records(log)


def test_writers_and_trims_go_on_while_a_copy_is_made(tmp_path: Path) -> None:
    log, stop = open_log("file", tmp_path, CONFIG), threading.Event()

    def write() -> None:
        first = 0
        while not stop.is_set():
            put(log, numbered(first, 50))
            first += 50
            log.trim(first - 2000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            found = records(restored(backed_up(log, tmp_path / f"copy{number}")))
            offsets = [offset for offset, _, _ in found]
            assert offsets == list(range(offsets[0], offsets[0] + len(offsets))) if offsets else True
            assert all(content == b"r%d" % offset for offset, _, content in found)
    finally:
        stop.set()
        writer.join(10)


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    log = open_log("file", tmp_path, CONFIG)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(Rejected, match="already exists"):
        backed_up(log, tmp_path / "full")


def test_bytes_are_copied_by_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, copied = os.copy_file_range, [0]

    def count(*args: Any, **kwargs: Any) -> int:
        done = real(*args, **kwargs)
        copied[0] += done
        return done

    monkeypatch.setattr(os, "copy_file_range", count)
    log = open_log("file", tmp_path, CONFIG)
    put(log, numbered(0, 5000))
    made = cast(FileLog, log).backup(tmp_path / "copy")
    assert copied[0] == made.bytes > 20_000


@pytest.mark.parametrize("code", [errno.EXDEV, errno.ENOSYS])
def test_where_the_kernel_refuses_bytes_go_through_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: Any, **__: Any) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "copy_file_range", refuse)
    log = open_log("file", tmp_path, CONFIG)
    put(log, numbered(0, 5000))
    assert records(restored(backed_up(log, tmp_path / "copy"))) == records(log)
