"""Who holds writers of full topics back, as seen in samples of a second."""

from __future__ import annotations

from typing import Any

from gauss.stream.control.holdups import FORGOTTEN_SECONDS, Holdups


def sample(reader: str, seconds: float = 0.0) -> list[dict[str, Any]]:
    detail = f"{reader} has not read for 0 s" if reader else ""
    return [{"name": "raw", "blocked_reader": reader, "blocked_by": detail, "blocked_s": seconds}]


def test_a_reader_that_lets_writers_in_now_and_then_holds_them_back_all_the_time() -> None:
    found = Holdups()
    found.look(sample("slow", 0.5), 100.0)
    for second in range(1, 60):
        found.look(sample("slow" if second % 3 == 0 else "", 0.1), 100.0 + second)
    reader, seconds = found.of("raw") or ("", 0.0)
    assert reader == "slow" and seconds == 57.5


def test_a_holdup_ends_once_no_writer_has_waited_for_a_while() -> None:
    found = Holdups()
    found.look(sample("slow", 2.0), 100.0)
    found.look(sample(""), 100.0 + FORGOTTEN_SECONDS)
    assert found.of("raw") is not None
    found.look(sample(""), 101.0 + FORGOTTEN_SECONDS)
    assert found.of("raw") is None


def test_another_slow_reader_begins_anew() -> None:
    found = Holdups()
    found.look(sample("slow", 50.0), 100.0)
    found.look(sample("other", 1.0), 101.0)
    assert found.of("raw") == ("other", 1.0)
