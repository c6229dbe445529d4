"""`gauss db`: the embedded servers, and database states."""

from __future__ import annotations

from typing import Annotated

import typer

from gauss.cli import db_engine, db_instances, db_prepare, db_states
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption
from gauss.cli.output import CommandOutput, JsonOption
from gauss.clients.embedded import systems
from gauss.model.errors import Unavailable
from gauss.model.paths import DataDir

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="The embedded servers, and databases prepared by scripts."
)


def _known(system: str) -> str:
    if system not in systems():
        raise typer.BadParameter(f"expected {' or '.join(systems())}, found {system}")
    return system


@app.command()
def url(
    system: Annotated[str, typer.Argument(help=f"{', '.join(systems())}.", callback=_known)],
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Print the URL of an embedded server, including its password, for curl, psql or a notebook; of Kafka host:port.

    Examples: psql "$(gauss db url postgres)" · curl "$(gauss db url clickhouse)" -d 'SELECT 1'
    """
    from gauss.clients.endpoint import owned, read_endpoint

    directory = DataDir(data_dir.absolute()).server(system)
    try:
        endpoint = read_endpoint(directory) if owned(directory) else None
    except OSError as error:
        raise Unavailable(f"{directory} can't be read: {error.strerror}", hint="name the run's --data-dir") from error
    if endpoint is None:
        stored = "" if system == "kafka" else ", or with gauss run of a pipeline that stores a topic in it"
        raise Unavailable(
            f"no embedded {system} runs with the data directory {data_dir}",
            hint=f"start it with gauss dev {system}{stored}",
        )
    output = CommandOutput(json=json)
    output.data(endpoint.shown)
    output.line(*endpoint.shown.values())


for _module in (db_prepare, db_instances, db_states, db_engine):
    for _name, _command in _module.COMMANDS.items():
        app.command(_name)(_command)
