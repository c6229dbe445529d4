"""`gauss db status|config|shutdown`: the engine of database states."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer

from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption
from gauss.cli.output import CommandOutput, JsonOption, as_json
from gauss.model.errors import Unavailable
from gauss.model.units import human_bytes


def _running(data_dir: Path) -> Any:
    from gauss.clients.dbstates.client import running

    found = running(data_dir)
    if found is None:
        raise Unavailable(
            f"no engine of database states runs with the data directory {data_dir}",
            hint="gauss db prepare starts one",
        )
    return found


def status(data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """Show the engine and how full its cache is; starts none."""
    output = CommandOutput(json=json)
    client = _running(data_dir)
    cache = client.get("cache", "status")
    instances = len(client.get("instances")["instances"])
    place = client.place
    found = {
        "pid": place["pid"],
        "endpoint": place["endpoint"],
        "store": str(Path(place["lockfile"]).parent),
        "version": place["version"],
        "startedAt": place["startedAt"],
        "instances": instances,
        **cache,
    }
    output.data(found)
    output.line(f"engine {found['pid']} at {found['endpoint']}, since {found['startedAt']}")
    output.line(f"store {found['store']} ({found['backend']})")
    used, most = human_bytes(cache["used_bytes"]), human_bytes(cache["capacity_bytes"])
    output.line(f"{cache['states']} states, {instances} instances, {used} of {most}, {cache['hits']} hits")


def config(
    path: Annotated[str, typer.Argument(help="A setting, such as instances.ttlSecs. Default: all.")] = "",
    value: Annotated[str | None, typer.Argument(help="Its new value, as JSON or text.")] = None,
    effective: Annotated[bool, typer.Option("--effective", help="Show defaults too.")] = False,
    unset: Annotated[bool, typer.Option("--unset", help="Set it back to its default.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Show all settings with their meaning.")] = False,
    *,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Show or change the settings of the engine.

    Examples: gauss db config --effective · gauss db config instances.ttlSecs 600
    """
    from gauss.clients.dbstates.client import start

    output = CommandOutput(json=json)
    client = start(data_dir)
    if schema:
        found = client.get("config", "schema")
    elif unset:
        found = client.delete("config", path=path)
    elif value is not None:
        found = client.patch("config", body={"path": path, "value": _parsed(value)})
    else:
        found = client.get("config", path=path, effective="true" if effective else "false")
    output.data(found)
    output.line(as_json(found if schema else found["value"], indent=2))


def _parsed(value: str) -> Any:
    try:
        return jsonlib.loads(value)
    except ValueError:
        return value


def shutdown(data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """End the engine and the servers of all instances; states stay. Starts no engine."""
    output = CommandOutput(json=json)
    found = _running(data_dir).post("shutdown")
    output.data(found)
    output.line(f"stopped, with {found['instances']} instances")


COMMANDS = {"status": status, "config": config, "shutdown": shutdown}
