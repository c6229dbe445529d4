from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauss.cli.output import CommandOutput, JsonOption
from gauss.cli.stops import Stops
from gauss.model.errors import ConfigError
from gauss.model.units import duration_ms
from gauss.process import ready

DEFAULT_DATA_DIR = Path(".gauss-worker")


def command(
    *,
    store: Annotated[
        str, typer.Option("--store", help="sqlite:///FILE or postgresql://…, the same for all.", envvar="GAUSS_STORE")
    ],
    lease_ttl: Annotated[str, typer.Option("--lease-ttl", help="How long a slot is held without renewal.")] = "20s",
    reconcile_every: Annotated[str, typer.Option("--reconcile-every", help="How often the store is asked.")] = "5s",
    data_dir: Annotated[Path, typer.Option("--data-dir", help="Files of Spark.")] = DEFAULT_DATA_DIR,
    no_leases: Annotated[bool, typer.Option("--no-leases", help="One instance of each started pipeline here.")] = False,
    max_slots: Annotated[int | None, typer.Option("--max-slots", help="Slots of this worker at most.", min=1)] = None,
    replicas_per_instance: Annotated[
        int | None, typer.Option("--replicas-per-instance", help="Slots of one pipeline at most.", min=1)
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", help="Serve /metrics on this port of loopback.", min=0, max=65_535)
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", help="The key that opens secrets.", envvar="GAUSS_KEY_FILE")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run pipelines of a fleet until it is stopped. Ctrl-C or SIGTERM drains all slots and releases them.
    With --json, stdout has one line with the worker's id once it is up.

    Examples: gauss worker --store postgresql://gauss@db/fleet · gauss worker --store sqlite:///fleet.db --no-leases
    """
    from gauss.fleet.fleet_store import FleetStore, store_address
    from gauss.fleet.leases.placement import Limits
    from gauss.fleet.store.sealing import key_file as named_key_file
    from gauss.fleet.worker.instance import Surroundings
    from gauss.fleet.worker.process import serve_metrics, start_spark
    from gauss.fleet.worker.worker import FleetWorker, Settings

    limits = Limits(max_slots, replicas_per_instance)
    ttl_ms = _milliseconds("--lease-ttl", lease_ttl)
    settings = Settings(ttl_ms, _milliseconds("--reconcile-every", reconcile_every), not no_leases, limits)
    settings.check()
    stops, output = Stops(), CommandOutput(json=json)
    opened = FleetStore(store_address(store), named_key_file(key_file))
    try:
        with start_spark(data_dir) as (runner, clusters):
            worker = FleetWorker(Surroundings(opened, runner, clusters, ttl_ms, data_dir.absolute()), settings)
            with serve_metrics(metrics_port, worker):
                ready.report({"ready": True})
                output.event({"worker": worker.id})
                output.note(f"worker {worker.id} is up")
                worker.run(stops.asked)
    finally:
        opened.close()


def _milliseconds(option: str, text: str) -> int:
    try:
        return duration_ms(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error} (got {text!r})") from None
