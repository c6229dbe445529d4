"""`gauss db states|rm`: the cache of prepared states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption
from gauss.cli.output import CommandOutput, JsonOption
from gauss.model.errors import NotFound
from gauss.model.units import human_bytes

if TYPE_CHECKING:
    from gauss.clients.dbstates.client import DatabaseStates

KINDS = {"instances": 32, "states": 64, "prepare-jobs": 32}
"""Where an id is looked for, and its length."""


def states(data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """Show the prepared states as a tree, with what each takes on the disk and how often it was used."""
    from gauss.clients.dbstates.client import start

    output = CommandOutput(json=json)
    found = start(data_dir).get("states")
    output.data(found)
    output.table(
        ["state", "step", "status", "own size", "hits", "instances", "not reproducible"],
        [
            [
                row["state_id"][:12],
                f"{'  ' * depth}{row['title']}",
                row["status"],
                "?" if row["exclusive_bytes"] is None else human_bytes(row["exclusive_bytes"]),
                row["hits"],
                row["instances"],
                ", ".join(sorted({mark["reason"] for mark in row["marks"]})),
            ]
            for depth, row in _tree(found["states"])
        ],
        spare=["not reproducible", "instances"],
    )


def _tree(rows: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each state after its parent, with its depth."""
    known = {row["state_id"] for row in rows}
    below: dict[str | None, list[dict[str, Any]]] = {}
    for row in rows:
        parent = row["parent_state_id"] if row["parent_state_id"] in known else None
        below.setdefault(parent, []).append(row)
    left = [(0, row) for row in reversed(below.get(None, []))]
    while left:
        depth, row = left.pop()
        yield depth, row
        left += [(depth + 1, child) for child in reversed(below.get(row["state_id"], []))]


def rm(
    ids: Annotated[list[str], typer.Argument(help="States, instances or jobs; the first 8 digits or more.")],
    recurse: Annotated[bool, typer.Option("--recurse", "-r", help="Also what was made of a state.")] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Also instances with connections, active jobs.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed.")] = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    *,
    json: JsonOption = False,
) -> None:
    """Remove states, instances or jobs: each with all that depends on it, or not at all.

    Examples: gauss db rm 3f9c01ab · gauss db rm -r --dry-run 77aa01bc
    """
    from gauss.clients.dbstates.client import start

    output = CommandOutput(json=json)
    client = start(data_dir)
    asked = {"recurse": recurse, "force": force}
    results = [_remove(client, each, {**asked, "dry_run": True}) for each in ids]
    blocked = _blocked(results)
    if not (blocked or dry_run):
        results = []
        for each in ids:
            results.append(_remove(client, each, {**asked, "dry_run": False}))
            if blocked := results[-1]["outcome"] == "blocked":  # by something that has come meanwhile
                break
    for result in results:
        output.event(result)
        output.line(f"{result['outcome'].replace('_', ' ')}:")
        for depth, node in _nodes(result["root"]):
            reason = f": {node['reason']}" if node.get("reason") else ""
            output.line(f"{'  ' * (depth + 1)}{node['kind']} {node['id'][:12]}{reason}")
    if blocked:
        nothing = "nothing was removed: " if results[0]["dry_run"] and not dry_run else ""
        output.note(f"{nothing}-r removes what was made of a state; -f removes instances with connections", style="")
        raise typer.Exit(5)


def _remove(client: DatabaseStates, given: str, options: dict[str, bool]) -> dict[str, Any]:
    flags = {name: "true" for name, wanted in options.items() if wanted}
    for kind, length in KINDS.items():
        if len(given) > length:
            continue
        query = {name: flag for name, flag in flags.items() if kind == "states" or name != "recurse"}
        try:
            return client.remove(kind, given, **query)
        except NotFound:
            continue
    raise NotFound(f"no state, instance or job {given}", hint="gauss db states and gauss db instances list them")


def _nodes(node: dict[str, Any], depth: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    yield depth, node
    for child in node["children"]:
        yield from _nodes(child, depth + 1)


def _blocked(results: list[dict[str, Any]]) -> bool:
    """Whether a rule forbids one of several removals. A state may go if all that was made of it goes before it."""
    gone: set[str] = set()
    for result in results:
        below = {node["id"] for depth, node in _nodes(result["root"]) if depth}
        descends = result["root"].get("reason") == "has_descendants"
        if result["outcome"] == "blocked" and not (descends and below <= gone):
            return True
        gone |= {result["root"]["id"], *below}
    return False


COMMANDS = {"states": states, "rm": rm}
