"""`gauss db prepare|plan|watch|explain`: databases from scripts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption
from gauss.cli.db_view import shown_tasks
from gauss.cli.output import CommandOutput, JsonOption
from gauss.model.errors import ConfigError, GaussError, from_dict
from gauss.model.units import duration_ms

if TYPE_CHECKING:
    from gauss.clients.dbstates.client import DatabaseStates

KindOption = Annotated[str, typer.Option("--kind", help="psql, migrations, alembic or liquibase.")]
ImageOption = Annotated[
    str, typer.Option("--image", help="Another Postgres: the folder of its programs, or an image of a container.")
]
ArgsArgument = Annotated[
    list[str] | None, typer.Argument(help="Arguments for the scripts, after --, such as -f schema.sql.")
]


def prepare(
    args: ArgsArgument = None,
    kind: KindOption = "psql",
    image: ImageOption = "",
    deadline: Annotated[str, typer.Option("--deadline", help="Fail after this time, such as 5m.")] = "",
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    *,
    json: JsonOption = False,
) -> None:
    """Prepare a database by scripts and print the DSN of an instance of it.

    Steps that ran before with the same content are not run again.

    Example: gauss db prepare -- -f schema.sql -v n=5 -f data.sql
    """
    from gauss.clients.dbstates.client import start

    output = CommandOutput(json=json)
    client = start(data_dir)
    request = _request(args, kind, image)
    if deadline:
        request["deadline_secs"] = _seconds(deadline)
    result = _follow(client, client.prepare(request), output)
    dsn = client.dsn(result["instance_id"])
    output.event({"type": "result", "dsn": dsn, **result})
    output.line(dsn)


def plan(
    args: ArgsArgument = None,
    kind: KindOption = "psql",
    image: ImageOption = "",
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Show the steps of a preparation and which of them are cached; nothing is executed.

    Example: gauss db plan -- -f schema.sql -f data.sql
    """
    from gauss.clients.dbstates.client import start

    output = CommandOutput(json=json)
    client = start(data_dir)
    events = client.prepare({**_request(args, kind, image), "plan_only": True})
    result = _follow(client, events, output, live=False)
    output.event({"type": "result", **result})
    steps = [task for task in result["tasks"] if task["type"] == "state_execute"]
    _show_steps(output, steps, "state", lambda step: str(step["state_id"][:12]))


def watch(
    job: Annotated[str, typer.Argument(help="The id of a job, or its first 8 digits or more.")],
    first: Annotated[int, typer.Option("--from", min=1, help="The first event to show.")] = 1,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Show the events of a job until it ends.

    Example: gauss db watch 3f9c01ab
    """
    from gauss.clients.dbstates.client import start

    output = CommandOutput(json=json)
    client = start(data_dir)
    result = _follow(client, client.events(job, first), output, cancels=False)
    output.event({"type": "result", **result})
    output.line(f"instance {result['instance_id']}" if result.get("instance_id") else "planned")


def explain(
    args: ArgsArgument = None,
    kind: KindOption = "psql",
    image: ImageOption = "",
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Explain whether a preparation would be a cache hit, and what has changed if not.

    Example: gauss db explain -- -f schema.sql -f data.sql
    """
    from gauss.clients.dbstates.client import start

    output = CommandOutput(json=json)
    found = start(data_dir).post("cache", "explain", "prepare", body=_request(args, kind, image))
    output.data(found)
    output.line(f"{found['outcome']}: {found['reason']}")
    if found["nearest"] is not None and found["outcome"] == "miss":
        output.line(f"nearest cached state: {found['nearest']['state_id'][:12]} ({found['nearest']['title']})")
    _show_steps(
        output, found["steps"], "not reproducible", lambda step: ", ".join(mark["reason"] for mark in step["marks"])
    )


def _show_steps(
    output: CommandOutput, steps: list[dict[str, Any]], column: str, shown: Callable[[dict[str, Any]], str]
) -> None:
    """A table of steps, with one column besides title and `cached`."""
    rows = [[step["title"], "yes" if step["cached"] else "no", shown(step)] for step in steps]
    output.table(["step", "cached", column], rows)


def _request(args: list[str] | None, kind: str, image: str) -> dict[str, Any]:
    given = {"prepare_kind": kind, "args": args or [], "cwd": str(Path.cwd()), "image": image}
    return {**given, "env": dict(os.environ)}


def _seconds(text: str) -> float:
    try:
        return duration_ms(text) / 1000
    except ValueError as error:
        raise ConfigError(f"--deadline: {error}", hint="for example --deadline 5m") from None


def _follow(
    client: DatabaseStates,
    events: Iterator[dict[str, Any]],
    output: CommandOutput,
    *,
    live: bool = True,
    cancels: bool = True,
) -> dict[str, Any]:
    """Shows the events of a job; returns its result. A failed job ends the command."""
    result: dict[str, Any] | None = None
    error: GaussError | None = None
    job = ""
    try:
        with shown_tasks(output, live=live) as show:
            for event in events:
                job = event.get("job_id", job)
                if event["type"] == "result":  # told at the end, with what only the client may know
                    result = {key: value for key, value in event.items() if key not in ("seq", "ts", "type")}
                    continue
                if event["type"] == "error":
                    error = from_dict(event["error"])
                output.event(event)
                show(event)
    except KeyboardInterrupt:
        if cancels and job:
            with suppress(GaussError):
                client.post("prepare-jobs", job, "cancel")
        raise typer.Exit(130) from None
    if error is not None:
        if not output.json:  # else it was an event, and every line is one document
            output.error(error)
        raise typer.Exit(1 if isinstance(error, ConfigError) else 3)
    if result is None:
        raise GaussError("the job was removed before it ended", hint="prepare it again")
    return result


COMMANDS = {"prepare": prepare, "plan": plan, "watch": watch, "explain": explain}
