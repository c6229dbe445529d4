"""File locks that show whether a process is alive."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gauss.process import locks


def test_lock_is_taken_once_until_it_is_released(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not locks.is_locked(path)
    held = locks.take(path)
    assert held is not None and locks.is_locked(path)
    assert locks.take(path, wait_seconds=0.05) is None
    os.close(held)
    assert not locks.is_locked(path)


def test_shared_lock_has_many_holders_and_no_exclusive_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    first, second = locks.share(path), locks.share(path)
    os.close(first)
    assert locks.is_locked(path) and locks.take(path) is None
    os.close(second)
    assert not locks.is_locked(path)


def test_shared_lock_of_a_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        locks.share(tmp_path / "lock")
