"""Topics in outside systems, which tasks read and write themselves."""

from __future__ import annotations

from collections.abc import Iterable

from gauss.config.spec import Pipeline, SourceRef
from gauss.contracts.storage import StorageSpec
from gauss.registry import spec
from gauss.stream.driver.planning.refs import OutsideTarget, format_ref
from gauss.stream.orders import OrdersSource


def outside(pipeline: Pipeline, names: Iterable[str]) -> dict[str, OutsideTarget]:
    """Those of some topics that are in an outside system, each with the fields by which its records are written."""
    topics = {topic.name: topic for topic in pipeline.topics}
    found: dict[str, OutsideTarget] = {}
    for name in names:
        if name not in topics:  # an internal one
            continue
        storage = spec(StorageSpec, topics[name].storage)
        if storage.task_implementation:
            config = storage.validate(topics[name].storage_config)
            key, partition = (getattr(config, field, None) or "" for field in ("key_field", "partition_field"))
            found[name] = OutsideTarget(key, partition, format_ref(pipeline, getattr(config, "format", None)))
    return found


def outside_sources(pipeline: Pipeline, sources: Iterable[SourceRef]) -> list[str]:
    """Those of some sources that tasks read themselves, also by order."""
    return list(outside(pipeline, (each.table if isinstance(each, OrdersSource) else each.topic for each in sources)))
