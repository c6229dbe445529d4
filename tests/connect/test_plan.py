"""What a run makes of a catalog and of what connectors propose."""

from __future__ import annotations

import pytest

from gauss.config.syncs import SyncDef
from gauss.connect.plan import plan_streams
from gauss.contracts.connector.lifecycle import Catalog, CatalogStream, OpenInfo
from gauss.contracts.connector.stream import ColumnSchema, SyncMode

SYNC = SyncDef.model_validate({"name": "s", "source": {"connector": "a"}, "destination": {"connector": "b"}})
CATALOG = Catalog([CatalogStream("t", [ColumnSchema("n", "Int64")], [SyncMode.FULL_REFRESH])])


@pytest.mark.parametrize(
    ("proposed", "limit"),
    [([5_000, 9_000], 5_000), ([0, 9_000], 9_000), ([1], 1 << 10), ([1 << 62], 1 << 30), ([], 8 << 20)],
)
def test_the_size_of_batches_is_what_connectors_propose_within_bounds(proposed: list[int], limit: int) -> None:
    [plan] = plan_streams(SYNC, CATALOG, [OpenInfo(default_max_batch_bytes=each) for each in proposed])
    assert plan.limits.max_batch_bytes == limit
