"""Metrics per topic, reader and processor, from which control makes Prometheus text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gauss.stream.engine.observe.status import dead_total, processor_row, topic_row
from gauss.stream.engine.topics.topic import Topic

if TYPE_CHECKING:
    from gauss.stream.engine.runtime import Engine

TOPIC = (
    ("appended", "records", "counter", "Records appended since the engine's start"),
    ("appended_bytes", "bytes", "counter", "Bytes appended since the engine's start"),
    ("records", "held_records", "gauge", "Records in the topic"),
    ("bytes", "held_bytes", "gauge", "Bytes in the topic"),
    ("fill", "fill_ratio", "gauge", "Share of the capacity taken by unread records; 1 is full"),
    ("dropped", "dropped", "counter", "Records refused because the topic was full (write_full = drop)"),
    ("overwritten", "overwritten", "counter", "Records overwritten before they were read (write_full = overwrite)"),
    ("missed", "missed", "counter", "Records removed before a reader reached them"),
    ("lost", "lost", "gauge", "Known records that were missing when the topic was opened"),
    ("set_aside", "set_aside", "gauge", "Uncommitted records that were set aside when the topic was opened"),
    ("damaged", "damaged", "gauge", "Records found damaged on disk since the engine's start"),
    ("blocked_s", "blocked_seconds", "gauge", "Seconds for which writers have been blocked"),
)
READER = (
    ("behind", "behind_records", "gauge", "Records that the reader has not read"),
    ("behind_ms", "behind_ms", "gauge", "Age of the oldest of them"),
    ("missed", "missed", "counter", "Records overwritten before the reader read them"),
    ("lost_on_restart", "lost_on_restart", "counter", "Unread records of a memory topic lost with the engine"),
    ("idle_s", "idle_seconds", "gauge", "Seconds since the reader last moved"),
)
PROCESSOR = (
    ("records", "records", "counter", "Records received or sent"),
    ("bytes", "bytes", "counter", "Bytes received or sent"),
    ("dead", "dead", "counter", "Dead letters"),
    ("late", "late", "counter", "Records behind the watermark"),
    ("behind", "behind_records", "gauge", "Records to be processed"),
    ("behind_ms", "behind_ms", "gauge", "Age of the oldest of them"),
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
    ("wait_ms", "wait_ms", "gauge", "Waiting time for records before its last epoch"),
    ("read_ms", "read_ms", "gauge", "Of its last epoch: reading"),
    ("work_ms", "work_ms", "gauge", "Of its last epoch: decoding, transforming, encoding, inserting"),
    ("publish_ms", "publish_ms", "gauge", "Of its last epoch: staging and publishing"),
    ("attempt", "attempt", "gauge", "Earlier attempts by Spark"),
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
    """All metrics as rows of name, type, help, labels and value."""
    found: list[dict[str, Any]] = []
    for topic in engine.shown.values():
        found += _rows("topic", TOPIC, topic_row(engine.graph.topics.get(topic.name), topic), {"topic": topic.name})
        for reader in engine.progress.readers(topic):
            found += _rows("reader", READER, reader, {"topic": topic.name, "reader": reader["name"]})
        cursors = (("cursors", "cursors", "gauge", "Open cursors over the topic"),)
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
