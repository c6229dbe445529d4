from __future__ import annotations

import io
from pathlib import Path
from typing import Any, cast

import pytest

from gauss.cli.client import RunClient
from gauss.cli.send import PIECE_BYTES, _to_topic, _whole_lines


@pytest.mark.parametrize("delimiter", ["\n", "||"])
def test_pieces_end_at_whole_records_and_lose_nothing(tmp_path: Path, delimiter: str) -> None:
    end = delimiter.encode()
    content = end.join(b"%d" % n * 50 for n in range(60_000))
    file = tmp_path / "in"
    file.write_bytes(content)
    with file.open("rb") as source:
        bodies = list(_whole_lines(source, delimiter))
    assert len(bodies) > 2
    assert b"".join(bodies) == content
    assert all(body.endswith(end) for body in bodies[:-1])


def test_other_framings_go_in_one_request_a_piece_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"\0\n" * (2 << 20))
    pieces: list[int] = []

    class Posted:
        def post(self, *_: str, body: Any, **__: Any) -> dict[str, int]:
            pieces.extend(len(piece) for piece in body)
            return {"accepted": 7}

    with file.open("rb") as source:
        done = _to_topic(cast(RunClient, Posted()), "t", source, "fixed_size", {})
    assert max(pieces) <= PIECE_BYTES
    assert done == {"topic": "t", "accepted": 7, "bytes": 4 << 20}


def test_nothing_is_no_request() -> None:
    class Empty(io.BytesIO):
        def fileno(self) -> int:
            return 0

    assert list(_whole_lines(Empty(), "\n")) == []


def test_what_was_refused_is_summed_up(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"1\n" * PIECE_BYTES)

    class Posted:
        def post(self, *_: str, **__: Any) -> dict[str, int]:
            return {"accepted": 1, "refused": 3}

    with file.open("rb") as source:
        done = _to_topic(cast(RunClient, Posted()), "t", source, "newline", {})
    assert done["refused"] == 3 * done["accepted"] >= 6
