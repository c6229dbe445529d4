from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR
from gauss.cli.output import JsonOption, Output
from gauss.cli.run_log import RunLog
from gauss.model.errors import ConfigError, GaussError
from gauss.model.units import counted, duration_ms

if TYPE_CHECKING:
    from gauss.stream.control.run import Running

LOOK_SECONDS = 1.0


def command(
    file: Annotated[
        Path, typer.Argument(help="The pipeline's TOML file, or its folder.", autocompletion=complete.files)
    ] = Path(),
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="Where everything is kept.", envvar="GAUSS_DATA_DIR")
    ] = DEFAULT_DATA_DIR,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the readiness line and what goes wrong.")] = False,
    for_: Annotated[str | None, typer.Option("--for", help="Stop by itself after this long, such as 30s.")] = None,
    json: JsonOption = False,
) -> None:
    """Runs a pipeline until it is stopped; Ctrl-C or SIGTERM drain it within 10 s, a second one ends it at once.

    Examples: gauss run pipeline.toml · gauss run pipeline.toml --quiet --data-dir /var/lib/gauss · gauss run --json

    With --json: one status object per second on stdout. Exit codes: 0 stopped as asked, 1 the config has faults or
    the data directory is taken, 3 the pipeline could not be started (a port is taken, no Java) or kept up.
    """
    # Everything heavy is imported after the engine has been spawned: it starts up meanwhile, on another core.
    from gauss.api.server import Server, listen, tls_context, url_of
    from gauss.config.check import check_or_raise
    from gauss.stream.control.run import Running

    stops = Stops()
    output = Output(json=json)
    log = RunLog(output, steps=not quiet and not json and not sys.stdout.isatty())
    limit = _seconds(for_)
    log.step(f"checking {file}")
    pipeline, checked = check_or_raise(file)
    output.redactor = checked.redactor
    for warning in checked.warnings:
        output.note(str(warning), style="yellow")
    api = pipeline.api
    cert = None if api.tls is None else checked.base_dir / api.tls.cert
    tls = None if api.tls is None or cert is None else tls_context(cert, checked.base_dir / api.tls.key)
    # The data directory first: of two runs with one config the second is told of the first, not of its port.
    running = Running(pipeline, config=checked.file, data_dir=data_dir, redactor=checked.redactor)
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

        return create_app(running)

    server = Server(listener, make_app, allow=api.allow, tls=tls)
    server.start()
    failure: GaussError | None = None
    try:
        running.held.announce(running.url, running.tokens.full, cert)
        with _spinner(running, output, quiet=quiet):
            ready = running.wait_ready(stops.asked, lambda: log.waiting(running))
        if ready:
            try:
                _say_ready(running, output, log)
                if not quiet:
                    paths = running.held.paths
                    output.note(
                        log.timed(f"tokens: {paths.full_token} (all requests), {paths.read_token} (only reading)")
                    )
            except OSError:
                stops.asked.set()  # the terminal is gone
            with _shower(output, log, quiet=quiet) as show:
                _watch(running, show, stops, limit=limit)
    except GaussError as error:
        failure = error
        output.error(failure)
    finally:
        _stop(running, server, output, log, stops)
    if failure is not None:
        raise typer.Exit(1 if isinstance(failure, ConfigError) else 3)


class Stops:
    """Signals: the first asks for a polite end, the second ends at once."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.now = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
                signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        (self.now if self.asked.is_set() else self.asked).set()


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else duration_ms(text) / 1000
    except ValueError as error:
        raise ConfigError(f"--for: {error} (got {text!r})") from None


def _spinner(running: Running, output: Output, *, quiet: bool) -> contextlib.AbstractContextManager[Any]:
    """Something to look at while Spark starts, which takes seconds."""
    if quiet or output.json or not running.graph.needs_spark or not sys.stdout.isatty():
        return contextlib.nullcontext()
    return output.console().status("starting Spark; listeners take records meanwhile")


def _say_ready(running: Running, output: Output, log: RunLog) -> None:
    """`ready in 0.9 s · URL · 2 listeners · 1 processor on Spark`."""
    processors = running.graph.processors.values()
    listeners = sum(node.address is not None and node.address.listens for node in processors)
    on_spark = sum(node.where == "spark" for node in processors)
    parts = [f"ready in {time.monotonic() - running.started:.1f} s", running.url, counted(listeners, "listener")]
    if on_spark:
        parts.append(f"{counted(on_spark, 'processor')} on Spark")
    output.line(log.timed(" · ".join(parts)))
    sys.stdout.flush()


def _watch(running: Running, show: Callable[[dict[str, Any]], None], stops: Stops, *, limit: float | None) -> None:
    """Shows the run until it is asked to stop, or until a child is given up."""
    deadline = None if limit is None else time.monotonic() + limit
    while not stops.asked.wait(LOOK_SECONDS):
        for child in running.children:
            running.raise_if_given_up(child)
        try:
            show(running.sampler.status())
        except OSError:
            stops.asked.set()  # the terminal is gone
        if deadline is not None and time.monotonic() >= deadline:
            return


@contextlib.contextmanager
def _shower(output: Output, log: RunLog, *, quiet: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """What shows a status: a JSON line, the live view on a terminal, else a line when health changes."""
    if output.json:
        yield output.event
    elif quiet or not sys.stdout.isatty():
        yield log.health
    else:
        from rich.live import Live

        from gauss.cli.view import render

        with Live(console=output.console(), auto_refresh=False, transient=True) as live:
            yield lambda status: live.update(render(status, footer="Ctrl-C stops"), refresh=True)


def _stop(running: Running, server: Any, output: Output, log: RunLog, stops: Stops) -> None:
    from gauss.stream.control.run import STOP_SECONDS

    began = time.monotonic()
    with contextlib.suppress(OSError):
        if running.engine.state == "ready":
            output.note(log.timed("stopping; once more ends it at once"))
    killed = running.stop(stops.now)
    server.stop()
    with contextlib.suppress(OSError):
        if killed and not stops.now.is_set():
            said = f"killed, since it did not end within {STOP_SECONDS:.0f} s: {', '.join(killed)}"
            output.note(log.timed(f"{said}; see {running.held.paths.logs}"), style="yellow")
        output.note(log.timed(f"stopped in {time.monotonic() - began:.1f} s"))
