"""Small batches are decoded as large ones are, so that tests need few records to see the fast ways."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gauss.plugins.formats.json import codec


@pytest.fixture(autouse=True, scope="package")
def few() -> Iterator[int]:
    """How many records are few outside of tests."""
    with pytest.MonkeyPatch.context() as patch:
        usual = codec.FEW
        patch.setattr(codec, "FEW", 0)
        yield usual
