"""Modules that Python workers import before their first task of a pipeline."""

from __future__ import annotations

from gauss.spark.session import Preload

PRELOAD = Preload(
    early=(
        *("gauss.stream.driver.queries.source", "gauss.stream.driver.queries.sink", "gauss.registry"),
        *("gauss.stream.driver.tasks.hosted_loop", "gauss.plugins.formats.json.codec"),
    ),
    late=(
        *("gauss.stream.driver.tasks.preloaded", "numba", "gauss.spark.machine_code"),
        "gauss.plugins.formats.json.preloaded",
    ),
)
