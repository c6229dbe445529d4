"""What is seen of database states: the engine, states, instances and jobs in one reading."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from gauss.api.databases.source import DatabaseSource, masked
from gauss.clients.dbstates.client import DatabaseStates, running, was_started
from gauss.clients.dbstates.prepared import kept_ids
from gauss.model.errors import Unavailable

MOST_JOBS = 50
_HIDDEN = ("runtime_id", "user", "database")

Row = dict[str, Any]


def reading(source: DatabaseSource) -> Row:
    """Everything that the page of database states shows. Starts no engine."""
    client = running(source.data_dir)
    kept = kept_ids(source.data_dir)
    named = [
        {
            "name": each.name,
            "prepare_kind": each.prepare.kind,
            "args": masked(list(each.prepare.args)),
            "instance_id": kept.get(each.name),
        }
        for each in source.named
    ]
    found: Row = {
        "engine": "stopped" if was_started(source.data_dir) else "never",
        "since": None,
        "data_dir": str(source.data_dir),
        "named": named,
        "cache": None,
        "states": [],
        "instances": [],
        "jobs": [],
        "steps": {"all": 0, "cached": 0},
    }
    if client is not None:
        try:
            found |= {"engine": "running", "since": client.place["startedAt"], **_engine(client, kept)}
        except Unavailable:  # it has ended meanwhile
            found["engine"] = "stopped"
    shown: Row = source.redact(found)
    return shown


def _engine(client: DatabaseStates, kept: dict[str, str]) -> Row:
    jobs = client.get("prepare-jobs")["jobs"]
    tasks: defaultdict[str, list[Row]] = defaultdict(list)
    for task in client.get("tasks")["tasks"]:
        tasks[task["job_id"]].append(task)
    ended = [each for job in jobs if not job["plan_only"] for each in tasks[job["job_id"]] if _is_step(each)]
    done = [each for each in ended if each["status"] == "succeeded"]
    return {
        "cache": _cache(client.get("cache", "status")),
        "states": client.get("states")["states"],
        "instances": [instance_row(each, kept) for each in client.get("instances")["instances"]],
        "jobs": [_job(each, tasks[each["job_id"]]) for each in reversed(jobs[-MOST_JOBS:])],
        "steps": {"all": len(done), "cached": sum(bool(each["cached"]) for each in done)},
    }


def _cache(status: Row) -> Row:
    """The capacity, which follows what is free on the disk, to three digits: a reading without news stays the same."""
    return {**status, "capacity_bytes": int(float(f"{status['capacity_bytes']:.3g}"))}


def instance_row(row: Row, kept: dict[str, str]) -> Row:
    """An instance without its address and password, and with the name under which the data directory keeps it."""
    names = {instance: name for name, instance in kept.items()}
    shown = {key: value for key, value in row.items() if key not in (*_HIDDEN, "dsn")}
    return {**shown, "name": names.get(row["instance_id"])}


def job_row(job: Row) -> Row:
    """A job without the values of variables."""
    return {**job, "args": masked(job["args"] or [])}


def _job(job: Row, tasks: list[Row]) -> Row:
    """A job of the list: how many of its steps are done, not their details."""
    steps = [each for each in tasks if _is_step(each)]
    return {
        **{key: value for key, value in job_row(job).items() if key != "result"},
        "state_id": (job["result"] or {}).get("state_id"),
        "steps": {
            "all": len(steps),
            "cached": sum(bool(each["cached"]) for each in steps),
            "executed": sum(each["status"] == "succeeded" and not each["cached"] for each in steps),
        },
        "now": next((each["title"] for each in tasks if each["status"] == "running"), None),
    }


def _is_step(task: Row) -> bool:
    return bool(task["type"] == "state_execute")
