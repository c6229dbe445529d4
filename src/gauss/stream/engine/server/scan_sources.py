"""The engine's topics as sources of scans, and the running scans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gauss.config.formats import requested_format
from gauss.config.spec import Pipeline
from gauss.contracts.format import Format
from gauss.model.closing import Closing, scope
from gauss.scan.binding import Formats
from gauss.scan.engine import ScanEngine
from gauss.scan.sources import SourceTask
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.formats import topic_format


def scan_engine(topics: Mapping[str, Topic], pipeline: Pipeline, held: Closing) -> ScanEngine:
    """A source for every topic, whose records are decoded with the pipeline's formats."""
    engine, formats = ScanEngine(), pipeline_formats(pipeline, held)
    for name, topic in topics.items():
        found = topic_format(pipeline, name)
        for source in (topic.source, *_of_rows(topic)):
            source.formats, source.default_format = formats, "" if found is None else found.name
        register(engine, topic)
    return engine


def register(engine: ScanEngine, topic: Topic) -> None:
    """Registers the sources of a topic, of its first incarnation or a later one."""
    for source in (topic.scanned.source, *_of_rows(topic)):
        engine.register(source)


def _of_rows(topic: Topic) -> list[SourceTask]:
    """The source beside that of all records."""
    return [topic.rows.source] if topic.rows is not None and topic.rows.source.id.rows else []


def pipeline_formats(pipeline: Pipeline, held: Closing) -> Formats:
    """Formats of the config by name, and plugins without settings by theirs. A format that must be closed is shared by
    all scans and closed by `held`."""
    kept: dict[str, Format] = {}

    def build(name: str) -> Format:
        if name in kept:
            return kept[name]
        own = Closing()
        with scope(own):
            built = requested_format(pipeline, name)
        if len(own):
            held.add(own)
            kept[name] = built
        return built

    return build


def scan_rows(engine: ScanEngine, topics: Mapping[str, Topic]) -> list[dict[str, Any]]:
    """The scans of other processes: reader, progress and cost."""
    return [row for number, task in engine.tasks() if (row := _row(number, task, topics)) is not None]


def _row(number: int, task: Any, topics: Mapping[str, Topic]) -> dict[str, Any] | None:
    handle = task.handle(0)
    if handle is None:
        return None
    topic = topics[handle.source_task_id.topic].scannable(rows=handle.source_task_id.rows)
    try:
        executor = topic.source.executor(handle.cursor_id)
    except KeyError:  # it has just ended
        return None
    used = task.resources
    return {
        "scan": number,
        "topic": topic.name,
        "name": task.name,
        "mode": handle.mode.value,
        "program": executor.program.text,
        "pinned_version": handle.pinned_version,
        "position": executor.cursor.position,
        "hold": executor.hold,
        "end": topic.version(),
        "floor": topic.floor(),
        "fuel": used.fuel,
        "read_bytes": used.recv,
        "pinned_bytes": task.pinned_bytes(),
        "seconds": round(task.used()[0] / 1e9, 3),
    }
