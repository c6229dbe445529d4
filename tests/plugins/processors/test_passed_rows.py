"""Transforms that pass records unchanged name them by `_row`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gauss import registry
from gauss.contracts.processor import ProcessorSpec
from gauss.contracts.transform import Schemas
from helpers.processors import batch_of, transform_of

JSON = {"format": "json"}
CONFIGS: dict[str, dict[str, Any]] = {
    "filter": {"input": JSON, "where": ".n > 1"},
    "symbol-filter": {"input": JSON, "field": "s", "symbols": ["b", "c"]},
    "expression": {"input": JSON, "program": "select(.n > 1)"},
    "router": {"input": JSON, "routes": [{"when": ".n > 1", "topic": "t"}]},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_row_numbers_go_along_with_the_bytes(name: str) -> None:
    assert registry.spec(ProcessorSpec, name).passes_bytes
    made = transform_of(name, **CONFIGS[name])
    fields = made.bind(Schemas()).fields
    rows = [{"n": 1.0, "s": "a"}, {"n": 2.0, "s": "b"}, {"n": 3.0, "s": "c"}]
    given = batch_of(fields, [{field.name: row[field.name] for field in fields} for row in rows], [b"0", b"1", b"2"])
    found = made.arrow(given.append_column("_row", pa.array([0, 1, 2])))
    assert found.column("_row").to_pylist() == [1, 2]
    assert found.column("_data").to_pylist() == [b"1", b"2"]
    assert "_row" not in made.arrow(given).schema.names
