"""union without a JVM: its config, and bytes that pass unchanged."""

from __future__ import annotations

import pytest

from gauss.contracts.transform import Schemas
from helpers.processors import batch_of, transform_of


def test_bytes_pass_unchanged() -> None:
    made = transform_of("union", sources=[{"topic": "a", "read": "offset"}, {"topic": "b"}])
    assert made.bind(Schemas()).fields == []
    assert made.arrow(batch_of([], [{}, {}], [b"\xff", b""])).to_pylist() == [
        {"_ts_ms": 10, "_data": b"\xff"},
        {"_ts_ms": 20, "_data": b""},
    ]


def test_one_topic_is_no_union_and_each_stands_once() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        transform_of("union", sources=[{"topic": "a"}])
    with pytest.raises(ValueError, match='found "a" twice'):
        transform_of("union", sources=[{"topic": "a"}, {"topic": "a"}])


def test_any_other_read_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="'offset'"):
        transform_of("union", sources=[{"topic": "a", "read": "latest"}, {"topic": "b"}])
