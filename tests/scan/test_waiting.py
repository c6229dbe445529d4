"""Waiting for a new version."""

from __future__ import annotations

import threading

from gauss.scan.waiting import Waiting


class Counter(Waiting):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def version(self) -> int:
        return self.count


def test_wait_returns_when_the_version_moves() -> None:
    counter, seen = Counter(), list[int]()
    thread = threading.Thread(target=lambda: seen.append(counter.wait(0, 30)))
    thread.start()
    counter.count = 2
    while thread.is_alive():
        counter.announce()
        thread.join(0.01)
    assert seen == [2]
    assert counter.wait(2, 0.01) == 2
