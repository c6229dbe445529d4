from __future__ import annotations

import io
from pathlib import Path

import pytest

from gauss.cli.send import _bodies


@pytest.mark.parametrize("delimiter", ["\n", "||"])
def test_pieces_end_at_whole_records_and_lose_nothing(tmp_path: Path, delimiter: str) -> None:
    end = delimiter.encode()
    content = end.join(b"%d" % n * 50 for n in range(60_000))
    file = tmp_path / "in"
    file.write_bytes(content)
    with file.open("rb") as source:
        bodies = list(_bodies(source, "newline", delimiter))
    assert len(bodies) > 2
    assert b"".join(bodies) == content
    assert all(body.endswith(end) for body in bodies[:-1])


def test_other_framings_go_in_one_body(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"\0\n" * (2 << 20))
    with file.open("rb") as source:
        assert [len(body) for body in _bodies(source, "fixed_size", "\n")] == [4 << 20]


def test_nothing_is_no_request() -> None:
    class Empty(io.BytesIO):
        def fileno(self) -> int:
            return 0

    assert list(_bodies(Empty(), "newline", "\n")) == []
