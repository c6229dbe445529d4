from __future__ import annotations

import time
from typing import Annotated

import typer

from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption, RunClient
from gauss.cli.output import CommandOutput, JsonOption
from gauss.model.errors import ConfigError, Unavailable
from gauss.model.units import duration_ms


def command(
    *,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    every: Annotated[str, typer.Option("--every", help="Refresh interval.")] = "1s",
    sort: Annotated[
        str, typer.Option(help="Sort by name, rate, behind or dead. Default: the order of the pipeline.")
    ] = "",
    filter: Annotated[str, typer.Option(help="Only topics and processors whose name matches this glob.")] = "*",
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Watch a run: topics and processors with totals, rates, lag, fill and dead letters.

    Examples: gauss top · gauss top --sort behind --filter 'quotes.*' · gauss top --once --json
    """
    from rich.live import Live

    from gauss.cli.view import SORTS, render

    if sort and sort not in SORTS:
        raise ConfigError(f"--sort: expected one of {', '.join(SORTS)} (got {sort!r})")
    try:
        pause = duration_ms(every) / 1000
    except ValueError as error:
        raise ConfigError(f"--every: {error} (got {every!r})") from None
    output, client = CommandOutput(json=json), RunClient(data_dir)
    status = client.get("status")
    if once:
        output.data(status)
        if not json:
            console = output.console()
            console.print(render(status, interval=every, sort=sort, pattern=filter))
        return
    if json:
        _follow(output, client, pause)
        return
    console = output.console()
    try:
        with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
            while True:
                live.update(
                    render(status, interval=every, sort=sort, pattern=filter, footer="Ctrl-C to exit"), refresh=True
                )
                time.sleep(pause)
                status = client.get("status")
    except KeyboardInterrupt:
        return


def _follow(output: CommandOutput, client: RunClient, pause: float) -> None:
    """Prints one JSON object per interval, until the run ends."""
    try:
        while True:
            output.event(client.get("status"))
            time.sleep(pause)
    except (KeyboardInterrupt, Unavailable):
        return
