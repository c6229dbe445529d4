"""`gauss processors ls|retry|skip|drop-state|rebuild`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption, RunClient
from gauss.cli.output import CommandOutput, JsonOption
from gauss.cli.topics import late, seconds
from gauss.model.errors import ConfigError

app = typer.Typer(no_args_is_help=True, add_completion=False, help="List processors; retry, skip or rebuild them.")

Name = Annotated[str, typer.Argument(help="The processor's name.", autocompletion=complete.processors)]


@app.command()
def ls(data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """List processors with state, counters and lag.

    Example: gauss processors ls --json | jq '.processors[] | select(.state == "failed")'
    """
    output = CommandOutput(json=json)
    found = RunClient(data_dir).get("processors")
    output.data(found)
    output.table(
        ["processor", "plugin", "state", "records", "behind", "by", "dead"],
        [
            [
                row["name"],
                row["plugin"],
                row["state"],
                row["records"],
                "–" if row.get("behind") is None else row["behind"],
                seconds(row.get("behind_ms")),
                row["dead"],
            ]
            for row in found["processors"]
        ],
        spare=["by", "plugin"],
        remarks=[
            " · ".join(filter(None, (row["address"], row["detail"], late(row))))
            + (f" (log: {row['trace']})" if row.get("trace") else "")
            for row in found["processors"]
        ],
    )


@app.command()
def retry(name: Name, data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """Restart a failed processor at the epoch that failed.

    Example: gauss processors retry enrich
    """
    _tell("retry", name, data_dir, json)


@app.command()
def skip(name: Name, data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """Restart a failed processor and skip the records at which it fails; they become dead letters. Refused for a
    processor that keeps state.

    Example: gauss processors skip enrich
    """
    _tell("skip", name, data_dir, json)


@app.command()
def drop_state(name: Name, data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """Restart a processor whose checkpoint was lost, at its last position and with empty state.

    Example: gauss processors drop-state candles
    """
    _tell("drop-state", name, data_dir, json)


@app.command()
def rebuild(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Empty the target of a processor and restart it at the oldest retained record.

    Example: gauss processors rebuild candles --yes
    """
    if not yes and not (sys.stdin.isatty() and typer.confirm(f"Delete every record in the target of {name}?")):
        raise ConfigError(f"rebuild deletes every record in the target of {name}", hint="confirm with --yes")
    _tell("rebuild", name, data_dir, json)


def _tell(action: str, name: str, data_dir: DataDirOption, json: bool) -> None:
    output = CommandOutput(json=json)
    found = RunClient(data_dir).post("processors", name, action)
    output.data(found)
    output.line(f"{name}: {action} requested; see its state with gauss processors ls")
