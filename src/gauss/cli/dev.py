"""`gauss dev`: a local server in the foreground."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gauss.cli.client import DEFAULT_DATA_DIR
from gauss.cli.output import CommandOutput, JsonOption
from gauss.cli.stops import Stops
from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.model.errors import Rejected, StorageError
from gauss.model.files import PRIVATE_FOLDER
from gauss.model.paths import DataDir, unusable

if TYPE_CHECKING:
    from gauss.clients.endpoint import Endpoint

LOOK_SECONDS = 0.5
CLIENTS = {
    "postgresql": 'psql "{url}"',
    "http": "curl \"{url}\" -d 'SELECT version()'",
    "kafka": 'kcat -b "{url}" -L',
}
"""A command that connects, by the scheme of the URL."""


def command(
    system: Annotated[
        Literal["postgres", "clickhouse", "kafka"], typer.Argument(help="The server.", show_default=False)
    ],
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="The data directory.", envvar="GAUSS_DATA_DIR")
    ] = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Start a local Postgres, ClickHouse or Kafka and print its address. Ctrl-C or SIGTERM stops it.

    Data, port and password are kept in the data directory: the next start finds them. Postgres has wal_level=logical.
    Kafka is one broker without login that creates no topic by itself; its first start fetches 41 MB into the user's
    cache folder.

    Examples: gauss dev postgres · gauss dev clickhouse --data-dir scratch --json · gauss dev kafka

    With --json: one line {"url": …}, for Kafka {"bootstrap": "host:port"}, when the server is ready. Exit codes: 0
    stopped on request, 3 the server runs already, can't start or has ended.
    """
    stops = Stops()
    output = CommandOutput(json=json)
    if system == "kafka":
        _fetch_kafka(output)
    with _started(system, DataDir(data_dir.absolute())) as server:
        if stops.asked.is_set():
            return
        try:
            output.event(server.endpoint.shown)
            _say_ready(server.endpoint, _url_command(system, data_dir), output)
        except OSError:
            return  # the terminal was closed
        while not stops.asked.wait(LOOK_SECONDS):
            if server.process is None or server.process.poll() is not None:
                log = DataDir(data_dir).server(system) / "owner.log"
                raise StorageError(f"the {system} server has ended", hint=f"see {log}")


def _fetch_kafka(output: CommandOutput) -> None:
    """Here rather than in the owner process, which has a minute to start."""
    from gauss.clients.kafka import jars

    if not jars.folder().is_dir():
        output.note(f"fetching Kafka {jars.VERSION} into {jars.folder()} …")
    jars.class_path()


def _started(system: str, paths: DataDir) -> EmbeddedServer:
    os.umask(0o077)  # as `gauss run`: data and logs are for their owner only
    try:
        paths.root.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        server = ensure(system, paths.server(system))
    except OSError as error:
        raise unusable(paths.root, error) from error
    if server.process is None:
        raise Rejected(
            f"{system} already runs on the data directory {paths.root}: pid {server.endpoint.pid}",
            hint=f"its address: {_url_command(system, paths.root)}",
        )
    return server


def _url_command(system: str, data_dir: Path) -> str:
    """The command that prints the server's address."""
    given = "" if data_dir == DEFAULT_DATA_DIR else f" --data-dir {shlex.quote(str(data_dir))}"
    return f"gauss db url {system}{given}"


def _say_ready(endpoint: Endpoint, url_command: str, output: CommandOutput) -> None:
    """Prints the address, never folded so that it can be copied; on a terminal framed, with a command that connects."""
    if output.json:
        return
    (address,) = endpoint.shown.values()
    if not sys.stdout.isatty():
        output.line(address)
        sys.stdout.flush()
        return
    console = output.console()
    console.rule("the server is ready · Ctrl-C to stop")
    output.line(address, style="bold")
    output.line(CLIENTS[endpoint.scheme].format(url=f"$({url_command})"))
    console.rule()
