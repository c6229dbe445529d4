"""Text in plain objects: it is skipped in blocks, and its end is where a byte-by-byte search finds it."""

from __future__ import annotations

import pytest

from gauss.plugins.formats.literals import BLOCK, text_end


@pytest.mark.parametrize("length", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1, 3 * BLOCK + 7])
@pytest.mark.parametrize("stop", [b'"', b"\\", b"\n", b""])
def test_text_of_any_length_ends_at_its_quote_or_is_left_to_others(length: int, stop: bytes) -> None:
    for start in (0, 5):
        data = b"x" * (start + length) + stop + b'y"' * BLOCK
        wanted = start + length if stop == b'"' else start + length + 1 if stop == b"" else -1
        assert text_end(data, start, len(data)) == wanted
        assert text_end(data, start, start + length) == -1
