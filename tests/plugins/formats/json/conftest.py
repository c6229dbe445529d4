"""Lets tests reach the fast paths with few records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gauss.plugins.formats.json import codec


@pytest.fixture(autouse=True, scope="module")
def few() -> Iterator[int]:
    """The threshold for small batches outside tests."""
    with pytest.MonkeyPatch.context() as patch:
        usual = codec.FEW
        patch.setattr(codec, "FEW", 0)
        yield usual
