"""`gauss new`: writes a commented pipeline that passes the check and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauss.cli.client import DEFAULT_DATA_DIR
from gauss.cli.output import CommandOutput, JsonOption
from gauss.cli.starters import KAFKA_STARTER, STARTER
from gauss.config.load import FILE_NAME
from gauss.model.errors import ConfigError
from gauss.model.paths import DataDir

USUAL_BROKER = "127.0.0.1:9092"


def command(
    path: Annotated[Path, typer.Argument(help="The folder or .toml file to write.")] = Path(FILE_NAME),
    kafka: Annotated[bool, typer.Option("--kafka", help="Write one with topics in Kafka.")] = False,
    json: JsonOption = False,
) -> None:
    """Write a commented starter pipeline. An existing file is never overwritten.

    With --kafka its brokers are those of the variable KAFKA_BROKERS, else the one that `gauss dev kafka` runs here.
    """
    file = path if path.suffix == ".toml" else path / FILE_NAME
    if file.exists():
        raise ConfigError(f"{file} already exists", hint="choose another name: gauss new NAME")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(KAFKA_STARTER.format(file=file, brokers=_broker()) if kafka else STARTER.format(file=file))
    except OSError as error:
        raise ConfigError(f"can't write {file}: {error.strerror}", hint="choose another location") from error
    out = CommandOutput(json=json)
    out.data({"file": str(file)})
    out.line(f"wrote {file}")
    out.line(f"next: gauss check {file} && gauss run {file}", style="dim")


def _broker() -> str:
    """The address of the broker that runs with the default data directory, or the usual one."""
    from gauss.clients.endpoint import owned, read_endpoint

    directory = DataDir(DEFAULT_DATA_DIR.absolute()).server("kafka")
    endpoint = read_endpoint(directory) if owned(directory) else None
    return USUAL_BROKER if endpoint is None else endpoint.shown["bootstrap"]
