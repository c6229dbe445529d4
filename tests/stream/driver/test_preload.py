"""The zygote has imported everything that tasks need, so that workers share it."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import importlib
import sys
import pyarrow as pa
from gauss.stream.driver.preload import PRELOAD

for name in (*PRELOAD.early, *PRELOAD.late):
    importlib.import_module(name)
loaded = set(sys.modules)

from gauss.stream.driver.planning.refs import FormatRef, TransformRef

quotes = FormatRef("json", {"fields": [{"name": "symbol", "type": "string"}, {"name": "bid", "type": "double"}]})
config = {"input": {"format": "quote"}, "add": {"twice": ".bid * 2"}}
TransformRef("expression", config, input=quotes).build()
quotes.build().decode_batch(pa.array([b'{"symbol": "a", "bid": 1.5}']), pa.schema([("bid", pa.float64())]))
print(sorted(set(sys.modules) - loaded))
"""


def test_a_task_with_json_and_an_expression_imports_nothing_more() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "[]", done.stderr
