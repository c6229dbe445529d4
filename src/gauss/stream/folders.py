"""The folders of topics in a data directory, for use without an engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from gauss import registry
from gauss.contracts.offline import Offline
from gauss.contracts.storage import StorageSpec
from gauss.model.errors import PluginError
from gauss.model.paths import DataDir


class TopicFolder(NamedTuple):
    """The folder of a topic, and the storage that reads its files."""

    topic: str
    path: Path
    offline: Offline

    def uncommitted(self, committed: Callable[[int], bool]) -> int:
        """Records at the end of the topic whose publishes are not committed."""
        found = 0
        for publish, records in self.offline.blocks(self.path):
            if not publish or committed(publish):
                break
            found += records
        return found


def storages() -> list[Offline]:
    """The installed storages that write folders to disk."""
    found: list[Offline] = []
    for name in registry.names(StorageSpec):
        try:
            spec = registry.spec(StorageSpec, name)
        except PluginError:
            continue  # a broken third-party plugin
        if spec.offline_implementation:
            found.append(registry.build(dataclasses.replace(spec, implementation=spec.offline_implementation)))
    return found


def topic_folders(paths: DataDir, others: Iterable[tuple[str, Path]] = ()) -> list[TopicFolder]:
    """All topics of a data directory, including those whose folder is elsewhere."""
    offline = storages()
    inside = [(path.name, path) for path in sorted(paths.topics.iterdir())] if paths.topics.exists() else []
    places: dict[Path, str] = {}
    for name, path in [*inside, *others]:
        moved = next((there for each in offline if (there := each.elsewhere(path)) is not None), path)
        places.setdefault(moved.absolute(), name)
    return [
        TopicFolder(name, path, each)
        for path, name in places.items()
        for each in offline
        if path.is_dir() and each.is_folder(path)
    ]
