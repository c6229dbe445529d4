from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauss.cli.output import CommandOutput, JsonOption
from gauss.cli.stops import Stops
from gauss.model.errors import Unavailable

if TYPE_CHECKING:
    from gauss.api.fleet.overview import FleetFigures
    from gauss.api.fleet.sessions import Sessions
    from gauss.fleet.fleet_store import FleetStore
    from gauss.http.body import App
    from gauss.process.supervise import Child

DEFAULT_DATA_DIR = Path(".gauss-fleet")


def command(
    *,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            help="sqlite:///FILE or postgresql://…; default: SQLite in the data directory.",
            envvar="GAUSS_STORE",
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port; 0 for any free one.", min=0, max=65_535)] = 8080,
    data_dir: Annotated[Path, typer.Option("--data-dir", help="Where serve.json is written.")] = DEFAULT_DATA_DIR,
    key_file: Annotated[
        Path | None,
        typer.Option("--key-file", help="The key that seals secrets.", envvar="GAUSS_KEY_FILE"),
    ] = None,
    with_worker: Annotated[
        bool, typer.Option("--with-worker", help="Also run the pipelines here, by one worker.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Serve the API and the pages of a fleet until it is stopped. Prints a link that opens the pages signed in, once.
    Address and token are in serve.json in the data directory, which appears once the API answers; with --json, stdout
    then has one line that names all three.

    Examples: gauss serve --with-worker · gauss serve --store postgresql://gauss@db/fleet --host 0.0.0.0 --port 8080
    """
    from gauss.api.fleet.served import Served
    from gauss.api.fleet.sessions import Sessions
    from gauss.fleet.fleet_store import FleetStore, store_address
    from gauss.fleet.retention import Retention
    from gauss.fleet.store.sealing import key_file as named_key_file
    from gauss.fleet.worker.child import worker_beside
    from gauss.http.server import ApiServer, listen, url_of

    stops = Stops()
    output = CommandOutput(json=json)
    with Served(data_dir) as served, ExitStack() as stack:
        address = data_dir.absolute() / "fleet.db" if store is None else store_address(store)
        key = named_key_file(key_file)
        opened = stack.enter_context(closing(FleetStore(address, key)))
        stack.enter_context(Retention(opened))
        sessions = Sessions(opened)
        server = ApiServer(listen(host, port), lambda: _app(opened, sessions, data_dir.absolute()))
        server.start()
        stack.callback(server.stop)
        url = url_of(server.listener)
        token = served.announce(url, opened, socket.gethostname(), stops.asked)
        link = sessions.link(url, token.id, token.role)
        output.event({"endpoint": url, "file": str(served.file), "pages": link})
        output.note(f"ready · {link}")
        output.note(f"the link opens the pages signed in, once; the API's address and a token: {served.file}")
        if with_worker:
            named = f"sqlite:///{address}" if isinstance(address, Path) else address
            child = stack.enter_context(worker_beside(data_dir.absolute(), named, key.absolute(), {}))
            output.note(f"a worker starts beside it; its log is {child.output_path}")
            _watch(child, stops, output)
        stops.asked.wait()


def _watch(child: Child, stops: Stops, output: CommandOutput) -> None:
    """Until both are stopped. Raises the error of a worker that can't be started."""
    was_ready = False
    while not stops.asked.wait(0.2):
        if child.state == "failed":
            raise child.error or Unavailable("the worker has ended", hint=f"its log: {child.output_path}")
        if child.state == "ready" and not was_ready:
            was_ready = True
            output.note("the worker is up")


def _app(store: FleetStore, sessions: Sessions, data_dir: Path) -> Any:
    from gauss.api.fleet.app import create_fleet_app
    from gauss.web.mount import Pages
    from gauss.web.site import fleet_site

    def pages(figures: FleetFigures) -> Callable[[App], App]:
        site = fleet_site(lambda: figures.read().model_dump(by_alias=True))
        return lambda app: Pages(app, site)

    return create_fleet_app(store, sessions, pages, data_dir)
