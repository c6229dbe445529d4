from __future__ import annotations

import contextlib
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR
from gauss.cli.output import CommandOutput, JsonOption
from gauss.cli.run_log import RunLog
from gauss.cli.stops import Stops
from gauss.model.errors import ConfigError, GaussError
from gauss.model.units import counted, duration_ms

if TYPE_CHECKING:
    from gauss.connect.schedule import SyncSchedule
    from gauss.stream.control.run import Running

LOOK_SECONDS = 1.0
SYNC_SECONDS = 4.0
"""How long a stop waits for running syncs, of the 10 s that it has."""


def command(
    file: Annotated[
        Path, typer.Argument(help="A pipeline, or a folder with a gauss.toml.", autocompletion=complete.files)
    ] = Path(),
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="The data directory.", envvar="GAUSS_DATA_DIR")
    ] = DEFAULT_DATA_DIR,
    *,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only readiness and errors.")] = False,
    for_: Annotated[str | None, typer.Option("--for", help="Stop after this time, such as 30s.")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open its pages in the browser.")] = False,
    json: JsonOption = False,
) -> None:
    """Run a pipeline until it is stopped. Ctrl-C or SIGTERM drains it within 10 s; a second one stops it at once.

    Examples: gauss run pipeline.toml · gauss run pipeline.toml --quiet --data-dir /var/lib/gauss · gauss run --json

    With --json: one status object per second on stdout. Exit codes: 0 stopped on request, 1 config error or
    data directory in use, 3 the pipeline failed to start (port in use, no Java) or kept failing.
    """
    # Heavy imports come after the engine is spawned: it starts meanwhile, on another core.
    from gauss.cli.databases import with_kept_databases
    from gauss.config.check import check_or_raise
    from gauss.config.database_refs import databases_of, databases_of_sync
    from gauss.connect.schedule import embedded_systems
    from gauss.http.server import ApiServer, listen, tls_context, url_of
    from gauss.stream.control.run import Running

    stops = Stops()
    output = CommandOutput(json=json)
    log = RunLog(output, steps=not quiet and not json and not sys.stdout.isatty())
    limit = _seconds(for_)
    log.step(f"checking {file}")
    pipeline, checked = check_or_raise(file)
    output.redactor = checked.redactor
    for warning in checked.warnings:
        output.note(str(warning), style="yellow")
    if pipeline.databases:
        names = databases_of(pipeline).union(*map(databases_of_sync, pipeline.syncs))
        with stops.suspended():
            pipeline = with_kept_databases(pipeline, names, checked, data_dir, log.step)
    api = pipeline.api
    cert = None if api.tls is None else checked.base_dir / api.tls.cert
    tls = None if api.tls is None or cert is None else tls_context(cert, checked.base_dir / api.tls.key)
    # Lock the data directory first: a second run of a config then reports the first run, not its port.
    running = Running(
        pipeline,
        config=checked.file,
        data_dir=data_dir,
        redactor=checked.redactor,
        systems=embedded_systems(pipeline.syncs),
    )
    syncs = _syncs(running, log)
    try:
        listener = listen(api.host, api.port)
    except GaussError:
        running.held.release()
        raise
    running.url = url_of(listener, tls=tls is not None)
    running.start()
    started = ", ".join(child.spec.name for child in running.children)
    log.step(f"starting {started}; data in {running.held.paths.root}, API at {running.url}")

    def make_app() -> Any:
        from gauss.api.app import create_app
        from gauss.api.overview import overview
        from gauss.web.mount import Pages
        from gauss.web.site import run_site

        site = run_site(running.config.name, lambda: overview(running))
        return create_app(running, syncs, lambda app: Pages(app, site))

    server = ApiServer(listener, make_app, allow=api.allow, tls=tls)
    server.start()
    failure: GaussError | None = None
    try:
        running.held.announce(running.url, running.tokens.full, cert)
        with _spinner(running, output, quiet=quiet):
            ready = running.wait_ready(stops.asked, lambda: log.waiting(running))
        if ready:
            syncs.start()
            try:
                _say_ready(running, output, log)
                if open_:
                    webbrowser.open(running.pages_url())
                if not quiet:
                    paths = running.held.paths
                    output.note(log.timed(f"tokens: {paths.full_token} (full access), {paths.read_token} (read only)"))
            except OSError:
                stops.asked.set()  # the terminal was closed
            with _shower(output, log, quiet=quiet) as show:
                _watch(running, show, stops, limit=limit)
    except GaussError as error:
        failure = error
        output.error(failure)
    finally:
        _stop((running, syncs, server), output, log, stops)
    if failure is not None:
        raise typer.Exit(1 if isinstance(failure, ConfigError) else 3)


def _syncs(running: Running, log: RunLog) -> SyncSchedule:
    """The syncs of the pipeline, each run as a child of this process by the command that people use, too."""
    from gauss.connect.schedule import SyncSchedule

    paths = running.held.paths
    gauss = [sys.executable, "-m", "gauss.cli.main", "sync", str(running.config.absolute())]

    def command(name: str) -> list[str]:
        return [*gauss, name, "--data-dir", str(paths.root), "--json"]

    found = SyncSchedule(running.pipeline.syncs, command, paths.root, running.held.group, log.step)
    running.syncs = found
    return found


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else duration_ms(text) / 1000
    except ValueError as error:
        raise ConfigError(f"--for: {error} (got {text!r})") from None


def _spinner(running: Running, output: CommandOutput, *, quiet: bool) -> contextlib.AbstractContextManager[Any]:
    """Shows that Spark is starting, which takes seconds."""
    if quiet or output.json or not running.graph.needs_spark or not sys.stdout.isatty():
        return contextlib.nullcontext()
    return output.console().status("starting Spark; sources already accept records")


def _say_ready(running: Running, output: CommandOutput, log: RunLog) -> None:
    """`ready in 0.9 s · URL of the pages · 2 listeners · 1 processor on Spark`."""
    processors = running.graph.processors.values()
    listeners = sum(node.address is not None and node.address.listens for node in processors)
    on_spark = sum(node.where == "spark" for node in processors)
    parts = [
        f"ready in {time.monotonic() - running.started:.1f} s",
        running.pages_url(),
        counted(listeners, "listener"),
    ]
    if on_spark:
        parts.append(f"{counted(on_spark, 'processor')} on Spark")
    if running.pipeline.syncs:
        parts.append(counted(len(running.pipeline.syncs), "sync"))
    output.line(log.timed(" · ".join(parts)))
    sys.stdout.flush()


def _watch(running: Running, show: Callable[[dict[str, Any]], None], stops: Stops, *, limit: float | None) -> None:
    """Shows the run until it is stopped, or until a process has failed for good."""
    deadline = None if limit is None else time.monotonic() + limit
    while not stops.asked.wait(LOOK_SECONDS):
        for child in running.children:
            running.raise_if_given_up(child)
        try:
            show(running.sampler.status())
        except OSError:
            stops.asked.set()  # the terminal was closed
        if deadline is not None and time.monotonic() >= deadline:
            return


@contextlib.contextmanager
def _shower(output: CommandOutput, log: RunLog, *, quiet: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Shows a status: as a JSON line, as the live view on a terminal, otherwise as a line when health changes."""
    if output.json:
        yield output.event
    elif quiet or not sys.stdout.isatty():
        yield log.health
    else:
        from rich.live import Live

        from gauss.cli.view import render

        with Live(console=output.console(), auto_refresh=False, transient=True) as live:
            yield lambda status: live.update(render(status, footer="Ctrl-C to stop"), refresh=True)


def _stop(parts: tuple[Running, SyncSchedule, Any], output: CommandOutput, log: RunLog, stops: Stops) -> None:
    from gauss.stream.control.run import STOP_SECONDS

    running, syncs, server = parts
    began = time.monotonic()
    with contextlib.suppress(OSError):
        if running.engine.state == "ready":
            output.note(log.timed("Stopping… press Ctrl-C again to force"))
    # Syncs first: they may write to topics and embedded servers of this run.
    killed = [f"sync {name}" for name in syncs.stop(stops.now, SYNC_SECONDS)]
    killed += running.stop(stops.now, STOP_SECONDS - (time.monotonic() - began))
    server.stop()
    with contextlib.suppress(OSError):
        if killed and not stops.now.is_set():
            said = f"killed after {STOP_SECONDS:.0f} s without stopping: {', '.join(killed)}"
            output.note(log.timed(f"{said}; see {running.held.paths.logs}"), style="yellow")
        output.note(log.timed(f"stopped in {time.monotonic() - began:.1f} s"))
