"""`gauss db instances|psql|run|reset`: instances of prepared databases."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption
from gauss.cli.output import CommandOutput, JsonOption, visible
from gauss.model.errors import GaussError, Unavailable, from_dict

IdArgument = Annotated[str, typer.Argument(help="The id of an instance, or its first 8 digits or more.")]
ToolArguments = Annotated[list[str] | None, typer.Argument(help="Arguments for the tool, after --.")]


def instances(
    state: Annotated[str, typer.Option("--state", help="Only those of this state.")] = "",
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """List the instances that were handed out."""
    from gauss.clients.dbstates.client import start

    output = CommandOutput(json=json)
    found = start(data_dir).get("instances", state=state)
    output.data(found)
    output.table(
        ["instance", "state", "status", "port", "expires in", "runtime"],
        [
            [
                row["instance_id"][:12],
                row["state_id"][:12],
                row["status"],
                str(row["port"]),
                _minutes(row),
                row["runtime"],
            ]
            for row in found["instances"]
        ],
    )


def _minutes(row: dict[str, Any]) -> str:
    import time

    if row["expires_ms"] is None:
        return "in use" if row["held"] else "kept"
    return f"{max(row['expires_ms'] / 1000 - time.time(), 0) / 60:.1f} min"


def psql(
    instance: IdArgument,
    args: ToolArguments = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Open psql on an instance. With --json print its DSN instead.

    Examples: gauss db psql 3f9c01ab · gauss db psql 3f9c01ab -- -c 'SELECT 1'
    """
    from gauss.clients.dbstates.client import start
    from gauss.clients.postgres.binaries import bin_folder, run_as

    found = start(data_dir).post("instances", instance, "start", body={})
    if json:
        CommandOutput(json=True).data({"instance_id": found["instance_id"], "dsn": found["dsn"]})
        return
    from psycopg.conninfo import conninfo_to_dict

    known = conninfo_to_dict(found["dsn"])
    program = shutil.which("psql") or str(bin_folder(run_as()) / "psql")
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
    given = {variable: str(known[name]) for name, variable in names.items()}
    sys.stdout.flush()
    os.execve(program, ["psql", *(args or [])], {**os.environ, **given})


def run(
    instance: IdArgument,
    args: ToolArguments = None,
    kind: Annotated[str, typer.Option("--kind", help="psql or pgbench.")] = "psql",
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Run psql or pgbench on an instance. A missing server is started again from its directory.

    Example: gauss db run 3f9c01ab -- -f report.sql
    """
    from gauss.clients.dbstates.client import start

    output = CommandOutput(json=json)
    words = args or []
    request = {"instance_id": instance, "kind": kind, "args": words, "cwd": str(Path.cwd()), "env": dict(os.environ)}
    if kind == "psql" and not words and not sys.stdin.isatty():
        request["stdin"] = sys.stdin.read()
    code: int | None = None
    error: GaussError | None = None
    for event in start(data_dir).run(request):
        output.event(event)
        match event["type"]:
            case "stdout":
                _print(output, event)
            case "stderr" | "log":
                output.note(event.get("data") or event.get("message") or "", style="")
            case "exit":
                code = event["code"]
            case "error":
                error = from_dict(event["error"])
    if code is None and error is None:
        raise Unavailable("the run was lost: its output may be incomplete", hint="run it again")
    if output.json and (error is not None or code):  # an event has said why
        raise typer.Exit(3)
    if error is not None:
        raise error
    if code:
        raise GaussError(f"{kind} ended with exit code {code}", hint="see its output")


def _print(output: CommandOutput, event: dict[str, Any]) -> None:
    """Prints a line of a tool: as it is into a file or pipe, without control characters on a terminal."""
    end = "" if event.get("more") else "\n"
    if sys.stdout.isatty() and not end:
        sys.stdout.write(visible(event["data"]))
    elif sys.stdout.isatty() or output.json:
        output.line(event["data"])
    else:
        sys.stdout.write(event["data"] + end)


def reset(instance: IdArgument, data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """Give an instance the content of its state again; its DSN stays.

    Example: gauss db reset 3f9c01ab
    """
    from gauss.clients.dbstates.client import start

    output = CommandOutput(json=json)
    found = start(data_dir).post("instances", instance, "reset")
    output.data(found)
    output.line(f"{found['instance_id'][:12]} has the content of state {found['state_id'][:12]} again")


COMMANDS = {"instances": instances, "psql": psql, "run": run, "reset": reset}
