"""Flat totals per topic, reader and processor; control makes Prometheus text of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gauss.stream.engine.observe.status import dead_total, processor_row, topic_row
from gauss.stream.engine.topics.topic import Topic

if TYPE_CHECKING:
    from gauss.stream.engine.runtime import Engine

TOPIC = (
    ("appended", "records", "counter", "Records appended since the engine's start"),
    ("appended_bytes", "bytes", "counter", "Bytes appended since the engine's start"),
    ("records", "held_records", "gauge", "Records that the topic holds"),
    ("bytes", "held_bytes", "gauge", "Bytes that the topic holds"),
    ("fill", "fill_ratio", "gauge", "How full the topic is of what readers have not passed, 1 is full"),
    ("dropped", "dropped", "counter", "Records refused because the topic was full (write_full = drop)"),
    ("overwritten", "overwritten", "counter", "Records that gave way unread (write_full = overwrite)"),
    ("missed", "missed", "counter", "Records that readers came too late for"),
    ("lost", "lost", "gauge", "Records known to have existed that were gone when the topic was opened"),
    ("set_aside", "set_aside", "gauge", "Records cut at open that the journal does not commit; kept beside the topic"),
    ("damaged", "damaged", "gauge", "Records found damaged on disk since the engine's start"),
    ("blocked_s", "blocked_seconds", "gauge", "How long writers have been waiting for room"),
)
READER = (
    ("behind", "behind_records", "gauge", "Records that the reader has not passed"),
    ("behind_ms", "behind_ms", "gauge", "How long the oldest of them has waited"),
    ("missed", "missed", "counter", "Records overwritten before the reader came to them"),
    ("lost_on_restart", "lost_on_restart", "counter", "Unread records of a memory topic that died with the engine"),
    ("idle_s", "idle_seconds", "gauge", "Since when the reader has not moved"),
)
PROCESSOR = (
    ("records", "records", "counter", "Records taken in or sent out"),
    ("bytes", "bytes", "counter", "Bytes taken in or sent out"),
    ("dead", "dead", "counter", "Dead letters"),
    ("late", "late", "counter", "Records that came behind the watermark"),
    ("behind", "behind_records", "gauge", "Records yet to be processed"),
    ("behind_ms", "behind_ms", "gauge", "How long the oldest of them has waited"),
    ("epoch", "epoch", "gauge", "The last published epoch"),
    ("batch_rows", "batch_rows", "gauge", "Records of the last batch"),
    ("batch_ms", "batch_ms", "gauge", "Duration of the last batch"),
    ("failures", "failures", "gauge", "Failures in a row"),
    ("connections", "connections", "gauge", "Open connections"),
    ("accepted", "accepted_connections", "counter", "Connections accepted"),
    ("refused", "refused_connections", "counter", "Connections refused"),
)
TASK = (
    ("rows", "rows", "gauge", "Records of the task's last epoch"),
    ("wait_ms", "wait_ms", "gauge", "How long it waited for records before its last epoch"),
    ("read_ms", "read_ms", "gauge", "Of its last epoch: reading"),
    ("work_ms", "work_ms", "gauge", "Of its last epoch: decoding, transforming, encoding, inserting"),
    ("publish_ms", "publish_ms", "gauge", "Of its last epoch: staging and publishing"),
    ("attempt", "attempt", "gauge", "How often Spark tried it before"),
)
Columns = tuple[tuple[str, str, str, str], ...]


def _rows(prefix: str, columns: Columns, row: dict[str, Any], labels: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "name": f"gauss_{prefix}_{name}" + ("_total" if kind == "counter" else ""),
            "type": kind,
            "help": meaning,
            "labels": labels,
            "value": row[key],
        }
        for key, name, kind, meaning in columns
        if row[key] is not None
    ]


def metrics(engine: Engine) -> list[dict[str, Any]]:
    """Everything countable, as rows of name, type, help, labels and value."""
    found: list[dict[str, Any]] = []
    for topic in engine.shown.values():
        found += _rows("topic", TOPIC, topic_row(engine.graph.topics.get(topic.name), topic), {"topic": topic.name})
        for reader in engine.progress.readers(topic):
            found += _rows("reader", READER, reader, {"topic": topic.name, "reader": reader["name"]})
        cursors = (("cursors", "cursors", "gauge", "Cursors open over the topic"),)
        count = topic.source.open_cursors() if isinstance(topic, Topic) else 0
        found += _rows("topic", cursors, {"cursors": count}, {"topic": topic.name})
    for node in engine.graph.processors.values():
        row = processor_row(engine, node)
        labels = {"processor": node.name, "plugin": node.plugin}
        found += _rows("processor", PROCESSOR, row, labels)
        for task in row["tasks"]:
            found += _rows("task", TASK, task, {"processor": node.name, "task": str(task["task"])})
        up = (("up", "up", "gauge", "1 while it runs"),)
        found += _rows("processor", up, {"up": int(row["state"] == "running")}, labels)
    whole = {"dead": dead_total(engine), "staged": engine.stages.used, "free": engine.free_bytes}
    columns = (
        ("dead", "dead_letters", "gauge", "Dead letters held"),
        ("staged", "staged_bytes", "gauge", "Staged bytes in memory"),
        ("free", "free_bytes", "gauge", "Free disk"),
    )
    return found + _rows("engine", columns, whole, {})
