"""`gauss db`: the servers that come with Gauss."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption
from gauss.cli.output import JsonOption, Output
from gauss.model.errors import Unavailable
from gauss.model.paths import DataDir

app = typer.Typer(no_args_is_help=True, add_completion=False, help="The servers that come with Gauss.")


class System(StrEnum):
    CLICKHOUSE = "clickhouse"
    POSTGRES = "postgres"


@app.callback()
def _root() -> None:
    """Keeps `url` a subcommand."""


@app.command()
def url(
    system: Annotated[System, typer.Argument(help="Which of them.")],
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Prints the URL of an embedded server, its secret included: for curl, psql, a notebook.

    Examples: psql "$(gauss db url postgres)" · curl "$(gauss db url clickhouse)" -d 'SELECT 1'
    """
    from gauss.clients.endpoint import owned, read_endpoint

    directory = DataDir(data_dir.absolute()).server(system.value)
    try:
        endpoint = read_endpoint(directory) if owned(directory) else None
    except OSError as error:
        raise Unavailable(f"{directory} can't be read: {error.strerror}", hint="name the run's --data-dir") from error
    if endpoint is None:
        raise Unavailable(
            f"no embedded {system.value} runs with the data directory {data_dir}",
            hint="it runs while a pipeline does that has a topic in it: gauss run",
        )
    output = Output(json=json)
    output.data({"url": endpoint.url})
    output.line(endpoint.url)
