"""Specs import nothing heavy, since `gauss check` loads them."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from gauss import registry
from gauss.contracts.framing import FramingSpec
from gauss.contracts.processor import ProcessorSpec
found = [registry.spec(FramingSpec, name) for name in registry.names(FramingSpec)]
found += [registry.spec(ProcessorSpec, name) for name in ("passthrough", "reframe")]
heavy = {"numpy", "pyarrow", "pyspark", "numba"} & set(sys.modules)
assert not heavy, heavy
print(*sorted(spec.name for spec in found))
"""


def test_specs_are_found_by_name_and_import_nothing_heavy() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True)
    expected = "arrow_ipc_streaming auto avro_container fixed_size length_prefixed newline passthrough reframe"
    assert run.stdout.split() == expected.split()
