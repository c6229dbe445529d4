"""The figures of a run in short: each topic and processor with rate and pressure, and a headline that says whether data
flows and what holds it up."""

from __future__ import annotations

from typing import Any

from gauss.api.bottleneck import Row, headline, limiting_reader, why_held
from gauss.api.databases.source import run_databases
from gauss.api.sync_letters import letters_of_syncs
from gauss.config.listeners import Address
from gauss.contracts.storage import TopicKind
from gauss.model.errors import GaussError
from gauss.model.names import DEAD_TOPIC, inserted_topic
from gauss.stream.control.run import Running

ANSWER_SECONDS = 1.0
"""The figures must tell that the engine has ended, and so cannot wait for it to come back."""
FILLING = 0.75
"""A topic fuller than this is about to hold its writers back."""


def overview(running: Running) -> dict[str, Any]:
    """What the home page of a run shows, with secrets hidden."""
    health, sampler = running.health(), running.sampler
    rows = {
        kind: [{**row, "rates": sampler.recent(kind, row["name"])} for row in found]
        for kind, found in sampler.rows.items()
    }
    read = {topic for row in rows["processors"] if row["behind"] for topic in row["sources"]}
    topics = {
        row["name"]: topic_figures(row, row["name"] in read, sampler.holdups.of(row["name"]))
        for row in rows["topics"]
        if not row["hidden"]
    }
    processors = {row["name"]: processor_figures(row, topics) for row in rows["processors"]}
    inserts = {inserted_topic(name): row for name, row in processors.items() if inserted_topic(name)}
    for name, row in inserts.items():
        if name in topics:
            topics[name] |= {"insert": row, "behind": row["behind"]}
    processors = {name: row for name, row in processors.items() if not inserted_topic(name)}
    limits = limiting_reader(topics, processors | {f"_table.{name}": row for name, row in inserts.items()})
    if limits is not None and limits.processor in processors:
        processors[limits.processor]["pressure"] = "full"
    offered = _offered(running, limits)
    dead = next((row for row in rows["topics"] if row["name"] == DEAD_TOPIC), None)
    syncs = running.syncs.rows() if running.syncs is not None else []
    found = {
        "config": running.config.name,
        "data_dir": str(running.held.paths.root),
        "folder": running.config.absolute().parent.name,
        "status": health["status"],
        "reasons": health["reasons"],
        "processes": [{key: each[key] for key in ("name", "state", "restarts")} for each in health["processes"]],
        "headline": headline(health, topics, processors, limits, offered=offered, listening=listeners(running)),
        "bottleneck": None if limits is None else limits.processor,
        "bottleneck_why": "" if limits is None else why_held(limits, offered),
        "dead": _dead_count(running, dead) + sum(each.count() for each in letters_of_syncs(running)),
        "topics": topics,
        "processors": processors,
        "databases": run_databases(running).is_used(),
        "syncs": {"all": len(syncs), "failed": sum(row["state"] == "failed" for row in syncs)},
    }
    redacted: dict[str, Any] = running.redactor.redact_data(found)
    return redacted


def listeners(running: Running) -> list[str]:
    """Where sources of the pipeline listen."""
    addresses: list[Address] = [
        node.address for node in running.graph.processors.values() if node.address is not None and not node.sources
    ]
    return [f"{each.host}:{each.port}" for each in addresses if each.listens]


def topic_figures(row: Row, awaited: bool, held: tuple[str, float] | None) -> Row:
    """`awaited`: whether a reader has yet to read records of it. Without one a full ring holds nobody back. `held`: who
    holds its writers back, and for how many seconds."""
    rate = _rounded(row["rates"].get("appended", 0.0))
    if not awaited and held is None and row["fill"] is not None and row["kind"] != TopicKind.TABLE:
        row = {**row, "fill": 0.0}
    return {
        "rate": rate,
        "bytes_rate": _rounded(row["rates"].get("appended_bytes", 0.0)),
        "fill": None if row["fill"] is None else round(row["fill"], 3),
        "pressure": "full" if held is not None else _pressure(row, rate),
        "records": row["records"],
        "bytes": row["bytes"],
        "last_ts_ms": row["last_ts_ms"],
        "blocked_s": 0 if held is None else round(held[1]),
        "blocked_by": "" if held is None else held[0],
        "lost": row["dropped"] + row["overwritten"] + row["lost"] + row["missed"],
    }


def processor_figures(row: Row, topics: dict[str, Row]) -> Row:
    rate = _rounded(row["rates"].get("records", 0.0))
    waits = any(topics.get(target, {}).get("pressure") == "full" for target in row["targets"])
    failed = row["state"] in ("failed", "stopped")
    return {
        "state": row["state"],
        "rate": rate,
        "pressure": "failed" if failed else "filling" if waits else "flowing" if rate else "idle",
        "behind": row["behind"],
        "behind_ms": row["behind_ms"],
        "dead": row["dead"],
        "batch_ms": row["batch_ms"],
        "connections": row["connections"],
        "detail": row.get("detail", ""),
    }


def _pressure(row: Row, rate: float) -> str:
    fill, holds_back = row["fill"], row["write_full"] == "block"
    if holds_back and fill is not None and fill >= 1.0 and not rate:
        return "full"
    if holds_back and fill is not None and fill >= FILLING:
        return "filling"
    return "flowing" if rate else "idle"


def _offered(running: Running, limits: Any) -> float:
    """The highest rate of the last minute at which records came to the full topic."""
    return 0.0 if limits is None else running.sampler.most("topics", limits.topic)


def _dead_count(running: Running, dead: Row | None) -> int:
    if dead is None or not dead["records"]:
        return 0
    try:
        return int(running.command("dlq.ls", wait_s=ANSWER_SECONDS)["total"])
    except GaussError:
        return int(dead["records"])


def _rounded(rate: float) -> float:
    """Three digits: what is shown of a rate, so that a page hears only of changes that it shows."""
    return float(f"{rate:.3g}")
