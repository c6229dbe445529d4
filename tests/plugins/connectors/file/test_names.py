"""Folder names of streams."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.contracts.connector.errors import ConnectorError
from gauss.plugins.connectors.file.names import stream_folder, stream_name

HOSTILE = [
    ".",
    "..",
    "../../etc/passwd",
    "a/b",
    "a\\b",
    "\0",
    "%",
    "%2F",
    "_gauss",
    ".gauss",
    "a\nb",
    "é😀",
    "x" * 5_000,
]


@given(st.text(min_size=1) | st.text("./_%é\0", min_size=1, max_size=900) | st.sampled_from(HOSTILE))
def test_folder_name_is_safe_and_reversible(stream: str) -> None:
    folder = stream_folder(stream)
    assert stream_name(folder.parts) == stream
    for part in folder.parts:
        assert 0 < len(os.fsencode(part)) <= 255
        assert not part.startswith((".", "_")) and "/" not in part and "\0" not in part


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=300))
def test_different_streams_have_different_folders(one: str, other: str) -> None:
    assert (stream_folder(one) == stream_folder(other)) == (one == other)
    # Nor is one inside the other, where it would be swapped with it.
    assert one == other or stream_folder(one) not in stream_folder(other).parents


def test_ordinary_names_are_unchanged() -> None:
    assert str(stream_folder("public.people")) == "public.people"


def test_empty_name_is_refused() -> None:
    with pytest.raises(ConnectorError, match="needs a name"):
        stream_folder("")
