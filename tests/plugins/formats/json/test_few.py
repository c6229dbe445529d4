"""Small batches, read record by record, give the rows and errors of large batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gauss import registry
from gauss.contracts.format import Format, FormatSpec
from gauss.plugins.formats.json import codec

RECORDS = [
    b'{"k": "a", "v": 1}',
    b'{"v": 2}',
    b'{"k": 7, "v": 3}',
    b'{"k": "b", "v": 1e400}',
    b'{"k": "c"',
    b"[]",
    b"",
    b'{"k": "d", "v": 2.5, "k": "e"}',
    b'{"k": "\\u00e9", "v": null}',
    b"\xff",
]
FIELDS = [{"name": "k", "type": "string"}, {"name": "v", "type": "double"}]
ASKED = pa.schema([("k", pa.string()), ("v", pa.float64())])


def decoded(records: list[bytes]) -> tuple[Any, ...]:
    spec = registry.spec(FormatSpec, "json")
    built: Format = registry.build(spec, spec.validate({"fields": FIELDS}))
    rows, good, bad, _ = built.decode_batch(pa.array(records, pa.binary()), ASKED)
    return rows.to_pylist(), good.tolist(), bad


@pytest.mark.parametrize("records", [RECORDS, RECORDS[:1], RECORDS[:2], RECORDS[7:9]])
def test_few_records_give_the_rows_and_verdicts_of_many(
    records: list[bytes], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(records) <= few
    expected = decoded(records)
    monkeypatch.setattr(codec, "FEW", few)
    assert decoded(records) == expected
