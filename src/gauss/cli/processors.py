"""`gauss processors ls|retry|skip|drop-state|rebuild`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR, Client, DataDirOption
from gauss.cli.output import JsonOption, Output
from gauss.cli.topics import late, seconds
from gauss.model.errors import ConfigError

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Processors: their states, and what to do with one that failed."
)

Name = Annotated[str, typer.Argument(help="The processor's name.", autocompletion=complete.processors)]


@app.command()
def ls(data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """Processors with state, counters and lag.

    Example: gauss processors ls --json | jq '.processors[] | select(.state == "failed")'
    """
    output = Output(json=json)
    found = Client(data_dir).get("processors")
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
    """Starts a failed processor again, at the epoch that failed.

    Example: gauss processors retry enrich
    """
    _tell("retry", name, data_dir, json)


@app.command()
def skip(name: Name, data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """Starts a failed processor again without the records at which it fails, which become dead letters; not one that
    keeps a state.

    Example: gauss processors skip enrich
    """
    _tell("skip", name, data_dir, json)


@app.command()
def drop_state(name: Name, data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """Starts a processor whose checkpoint was lost where it stood, without what it knew.

    Example: gauss processors drop-state candles
    """
    _tell("drop-state", name, data_dir, json)


@app.command()
def rebuild(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Empty the target without asking.")] = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Empties a processor's target and starts it anew at the oldest retained record.

    Example: gauss processors rebuild candles --yes
    """
    if not yes and not (sys.stdin.isatty() and typer.confirm(f"Remove every record that {name} has written?")):
        raise ConfigError(f"rebuild removes every record of {name}'s target", hint="say --yes if that is meant")
    _tell("rebuild", name, data_dir, json)


def _tell(action: str, name: str, data_dir: DataDirOption, json: bool) -> None:
    output = Output(json=json)
    found = Client(data_dir).post("processors", name, action)
    output.data(found)
    output.line(f"{name}: {action} is on its way; gauss processors ls shows what becomes of it")
