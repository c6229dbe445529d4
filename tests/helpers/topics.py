"""Log topics of every kind."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from gauss import registry
from gauss.contracts.cursor import Program
from gauss.contracts.storage import Capacity, StorageSpec, WriteFull
from gauss.stream.engine.topics.log_topic import LogTopic
from helpers.logs import drain, open_log


def memory_topic(
    folder: Path, size: int | None, full: str = "block", size_bytes: int | None = None, **more: Any
) -> LogTopic:
    return LogTopic("t", open_log("memory", folder), Capacity(size, size_bytes, WriteFull(full)), **more)


def file_topic(folder: Path, config: dict[str, Any], **more: Any) -> LogTopic:
    spec = registry.spec(StorageSpec, "file")
    return LogTopic("t", open_log("file", folder, config), spec.capacity(spec.validate(config)), **more)


def offsets(topic: LogTopic) -> list[int]:
    return [record[0] for record in drain(topic.open(Program()))]


def at_once() -> threading.Event:
    """A cancelled event, for an append that must not wait."""
    event = threading.Event()
    event.set()
    return event
