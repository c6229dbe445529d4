"""Spark's Python daemon, from which every worker is forked: loaded once, its objects out of the collector's way."""

from __future__ import annotations

import gc
import importlib
import os

from gauss.model.memory import reuse_pages

PRELOAD_VARIABLE = "GAUSS_PRELOAD"
"""Names the modules that workers need beside Spark's own, separated by commas."""


def main() -> None:
    """Loads what tasks need, freezes it, and serves forks. Nothing here may start a thread or open a connection."""
    # Thread pools of a parent are dead in its forked children: the pools start lazily, so importing is safe.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    import msgspec
    import polars
    import pyarrow
    import pyarrow.flight
    import pyspark.daemon
    import pyspark.sql
    import pyspark.worker

    loaded = (msgspec, polars, pyarrow.flight, pyspark.sql, pyspark.worker)
    assert all(loaded)
    for module in filter(None, os.environ.get(PRELOAD_VARIABLE, "").split(",")):
        importlib.import_module(module)
    # Spark collects garbage after every task, which went through all of these modules' objects: 85 % of a worker's
    # time on small batches.
    gc.collect()
    gc.freeze()
    reuse_pages()
    pyspark.daemon.manager()


if __name__ == "__main__":
    main()
