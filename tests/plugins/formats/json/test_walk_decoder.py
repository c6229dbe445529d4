"""The compiled JSON walk is loaded from the cache and used from the first record."""

from __future__ import annotations

import subprocess
import sys

LOADS = """
import threading
from gauss.plugins.formats.json import walk, walk_decoder
from gauss.plugins.formats.json.plan import column
from gauss.plugins.formats.json.spec import JsonType
import pyarrow as pa

columns = [column("symbol", JsonType(name="string")), column("bid", JsonType(name="double"))]
data = pa.array([b'{"symbol":"a","bid":1.5}'], pa.binary())
if not walk_decoder.load_cached():
    assert walk_decoder.decode(data, columns, walk_decoder.make_tables(columns)) is None
    walk.WALK.compile(lambda made: walk_decoder._decode(made, data, columns, walk_decoder.make_tables(columns)))
    walk.WALK._compiled = None
    assert walk_decoder.load_cached()
found = walk_decoder.decode(data, columns, walk_decoder.make_tables(columns))
assert [each.to_pylist() for each in found.columns] == [["a"], [1.5]]
assert threading.active_count() == 1
"""


def test_cached_walk_of_other_columns_decodes_at_once_without_a_thread() -> None:
    subprocess.run([sys.executable, "-c", LOADS], check=True)
