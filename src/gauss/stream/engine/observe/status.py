"""The status of topics, readers and processors, and the health of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from gauss.clients.engine.driver_messages import QueryStatus
from gauss.contracts.processor import Role, Where
from gauss.contracts.storage import TopicKind
from gauss.model.units import human_bytes
from gauss.stream.engine.delivery.processor_run import ProcessorRun
from gauss.stream.engine.observe.driver_board import SILENT_S
from gauss.stream.engine.topics.topic_state import TopicState
from gauss.stream.graph import ProcessorNode, TopicNode

if TYPE_CHECKING:
    from gauss.stream.engine.runtime import Engine

BLOCKED_S = 10.0
RATE_S = 2.0
"""A task that has reported nothing for so long counts as idle."""


def topic_row(node: TopicNode | None, topic: TopicState) -> dict[str, Any]:
    """A topic's row of `topics`; `node` is `None` for internal topics."""
    stats: dict[str, Any] = topic.stats()
    blocked = topic.blocked()
    return {
        "name": topic.name,
        "storage": node.storage if node is not None else "file",
        "kind": (node.kind if node is not None else TopicKind.LOG).value,
        "hidden": node is None,
        **{key: stats[key] for key in ("inc", "floor", "end", "records", "bytes")},
        **{key: stats[key] for key in ("capacity_records", "capacity_bytes", "write_full")},
        "fill": topic.fill(),
        "appended": stats["records_in"],
        "appended_bytes": stats["bytes_in"],
        **{key: stats[key] for key in ("dropped", "overwritten", "missed", "lost", "set_aside", "damaged")},
        "blocked_s": stats["blocked_seconds"],
        "blocked_by": stats["blocked_by"],
        "blocked_reader": blocked.reader if blocked is not None else "",
        "last_ts_ms": topic.last_ts(),
        "times_vary": topic.times_vary,
        "read_modes": list(node.read_modes) if node is not None else ["offset"],
    }


def query_of(engine: Engine, name: str) -> QueryStatus:
    """The status of a transform, wherever it runs; a stop by the engine takes precedence."""
    query = engine.pumps[name].status if name in engine.pumps else engine.board.query(name)
    if stopped := engine.publisher.running[name].stopped:
        return msgspec.structs.replace(query, state="stopped", detail=stopped)
    if query.state in ("starting", "running") and engine.progress.is_done(name):
        bounded = engine.publisher.running[name].bounded
        return msgspec.structs.replace(query, state="done", detail=bounded.outlook() if bounded is not None else "")
    return query


def processor_row(engine: Engine, node: ProcessorNode) -> dict[str, Any]:
    """A processor's row of `processors.ls`."""
    name = node.name
    row: dict[str, Any] = {
        "name": name,
        "plugin": node.plugin,
        "role": node.role.value,
        "where": node.where.value,
        "source": node.sources[0].topic if node.sources else None,
        "target": node.targets[0] if node.targets else None,
        "sources": [reading.topic for reading in node.sources],
        "targets": list(node.targets),
        **dict.fromkeys(("records", "bytes", "dead", "late", "behind", "behind_ms"), 0),
        **dict.fromkeys(("connections", "accepted", "refused"), 0),
        "epoch": -1,
        "vain": 0,
        "generation": 0,
        "address": "",
        "clients": {},
        "batch_rows": 0,
        "batch_ms": 0,
        "rows_per_second": 0.0,
        "failures": 0,
        "runs": "",
        "trace": "",
        "under_way": 0,
        "tasks": [],
    }
    if name in engine.edges:
        status = engine.edges[name].status
        keys = ("address", "detail", "connections", "accepted", "refused", "records", "bytes", "dead", "clients")
        row |= {"state": status.shown(), **{key: getattr(status, key) for key in keys}}
        if engine.dead.waiting[name]:
            row["detail"] = engine.dead.full(name) or row["detail"]
        if node.role is Role.SINK:
            read = [engine.state(reading.topic) for reading in node.sources]
            mine = [each for topic in read for each in engine.progress.readers(topic) if _is_of(name, each)]
            row["behind"] = max((each["behind"] for each in mine), default=0)
            row["behind_ms"] = max((each["behind_ms"] for each in mine), default=0)
        return row
    if name not in engine.publisher.running:
        return row | {"state": "starting", "detail": "waits for Spark" if node.where is Where.SPARK else ""}
    running, ledger_row, query = engine.publisher.running[name], engine.ledger.row(name), query_of(engine, name)
    row |= {key: getattr(query, key) for key in ("state", "detail", "batch_rows", "batch_ms", "rows_per_second")}
    row["vain"] = running.vain
    row |= {"failures": query.failures, "runs": query.runs, "trace": query.trace}
    row |= {"records": running.records, "bytes": running.bytes, "dead": running.dead, "late": running.late}
    row["behind"], row["behind_ms"] = engine.progress.lag(name)
    if ledger_row is not None:
        row |= {"epoch": ledger_row.epoch, "generation": ledger_row.generation}
    if running.job is not None:
        row |= _standing(engine, running)
    return row


def _standing(engine: Engine, running: ProcessorRun) -> dict[str, Any]:
    """The status of a processor of a standing job, whose epochs are counted anew in each generation."""
    head = engine.publisher.running[running.chain[0]] if running.chain else running
    tasks = engine.grants.tasks_of(head.name)
    last = max(tasks, key=lambda task: task["told_s"] * -1, default=None)
    found: dict[str, Any] = {
        "epoch": head.published - 1,
        "under_way": len(head.job.given) if head.job is not None else 0,
        "tasks": tasks,
    }
    if last is not None:
        spent = last["read_ms"] + last["work_ms"] + last["publish_ms"]
        found |= {"batch_rows": last["rows"] if head is running else 0, "batch_ms": round(spent)}
        busy = last["told_s"] < RATE_S
        found["rows_per_second"] = last["rows"] / max(spent, 1.0) * 1000 if busy else 0.0
    return found


def _is_of(name: str, reader: dict[str, Any]) -> bool:
    return str(reader["name"]).partition("#")[0] == name


def starting(engine: Engine) -> bool:
    """Whether a listener or query is not up yet."""
    edges = any(edge.edge is None for edge in engine.edges.values())
    return edges or any(query_of(engine, name).state == "starting" for name in engine.publisher.running)


def health_reasons(engine: Engine) -> list[str]:
    """The reasons why the engine is unhealthy; empty if it is healthy."""
    reasons = []
    if not engine.paths.root.exists():
        reasons.append(f"the data directory {engine.paths.root} was deleted; restart the run")
    elif not engine.may_read():
        least = human_bytes(engine.pipeline.engine.min_free_bytes)
        reasons.append(f"disk: {human_bytes(engine.free_bytes)} free, below min_free_bytes = {least}; sources wait")
    roles = {name: node.role.value for name, node in engine.graph.processors.items()}
    for topic in engine.shown.values():
        if damaged := topic.damaged():
            reasons.append(f"topic {topic.name}: {damaged:,} records are damaged on disk; gauss verify names the files")
        if outage := topic.outage():
            reasons.append(f"topic {topic.name} can't be reached: {outage}; it is tried again")
        blocked = topic.blocked()
        if blocked is not None and blocked.seconds > BLOCKED_S:
            role = roles.get(blocked.reader.partition("#")[0], "")
            reasons.append(f"topic {topic.name} is blocked: {role} {blocked.detail}".replace("  ", " "))
    for name, edge in engine.edges.items():
        if edge.status.state in ("waiting", "failed"):
            reasons.append(f"{roles[name]} {name}: {edge.status.detail}")
        if engine.dead.waiting[name] and (full := engine.dead.full(name)):
            reasons.append(f"{roles[name]} {name} waits with dead letters that can't be stored: {full}")
    for name in engine.publisher.running:
        query = query_of(engine, name)
        if query.state in ("failed", "stopped") and not engine.draining:
            reasons.append(f"transform {name} {query.state}: {query.detail}")
        elif query.failures:  # also while it runs: until an epoch passes, it has only been restarted
            times = "a failure" if query.failures == 1 else f"{query.failures} failures"
            reasons.append(f"transform {name} starts again after {times}: {query.detail}")
    if engine.board.silence() > SILENT_S:
        reasons.append(f"driver: no report for {engine.board.silence():.0f} s")
    return reasons


def dead_total(engine: Engine) -> int:
    """Total number of dead letters."""
    return sum(int(group["count"]) for group in engine.dead.groups())
