"""`gauss connectors test`: tries a connector on every rule of the protocol."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauss.cli.output import CommandOutput, JsonOption
from gauss.config.secrets import Redactor

if TYPE_CHECKING:
    from gauss.connect.conformance.case import Result
    from gauss.connect.conformance.runner import Conformance

FAILED = 3
WASM = ".wasm"


class RoleName(StrEnum):
    SOURCE = "source"
    DESTINATION = "destination"


def command(
    target: Annotated[str, typer.Argument(help="A connector: its name, module:Class, or the path of a .wasm file.")],
    *,
    role: Annotated[RoleName | None, typer.Option(help="Default: every role that the connector has.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with tables `source` and `destination`.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting, key=value.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="A case, or the beginning of several (`read.`).")] = None,
    kills: Annotated[int | None, typer.Option(min=0, help="How often each case of crashes kills. Default: 5.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides where syncs are killed.")] = None,
    json: JsonOption = False,
) -> None:
    """Test a connector: every rule of the protocol, kill -9 included.

    The connector runs against a source or destination of the kit, in a temporary directory. Tables that it makes
    elsewhere begin with gk_ and are left there. Without an address, the embedded server is used.

    Examples: gauss connectors test postgres · gauss connectors test people:People --set rows=100
    """
    from gauss.connect.conformance.case import Role
    from gauss.connect.conformance.runner import Conformance, check_names
    from gauss.connect.conformance.settings import read_settings

    output = CommandOutput(json=json)
    output.redactor = Redactor()
    names = case or []
    check_names(names)
    found = read_settings(config, settings or [], output.redactor)
    changed = {key: value for key, value in (("kills", kills), ("seed", seed)) if value is not None}
    found = found.model_copy(update=changed)
    base_dir = (config.parent if config is not None else Path()).absolute()
    if target.endswith(WASM):
        target = str(Path(target).absolute())
    kit = Conformance(
        target,
        found,
        base_dir,
        role=None if role is None else Role(role.value),
        only=lambda name: not names or any(name == each or _begins(name, each) for each in names),
    )
    results = _run(kit, output)
    _show(results, output, found.seed)
    code = FAILED if any(each.status == "failed" for each in results) else 0
    if kit.hung:  # a connector that does not end would keep this process
        sys.stdout.flush()
        os._exit(code)
    raise typer.Exit(code)


def _begins(name: str, given: str) -> bool:
    return given.endswith(".") and name.startswith(given)


def _run(kit: Conformance, output: CommandOutput) -> list[Result]:
    """Runs all cases; on a terminal the last one is shown meanwhile."""
    results: list[Result] = []
    live = not output.json and sys.stderr.isatty()
    status = output.console(stderr=True).status("…") if live else nullcontext()
    with status as shown:
        for result in kit:
            results.append(result)
            output.event({"event": "case", **result.to_dict()})
            if shown is not None:
                shown.update(f"{result.case.role}: {result.case.name}")
    return results


def _show(results: list[Result], output: CommandOutput, seed: int) -> None:
    output.table(["role", "case", "result", "detail"], [row for group in _groups(results) for row in group])
    for role in dict.fromkeys(each.case.role for each in results):
        counts = Counter(each.status for each in results if each.case.role is role)
        output.line(f"{role}: {', '.join(f'{count} {status}' for status, count in counts.items())} (seed {seed})")
    totals = Counter(str(each.status) for each in results)
    output.event({"event": "result", "status": "failed" if totals["failed"] else "passed", "seed": seed, **totals})


def _groups(results: list[Result]) -> Iterator[list[list[object]]]:
    """The rows of the table. Neighbours that are not applicable for one reason are one row."""

    def group(each: Result) -> tuple[object, ...]:
        untried = each.status == "not applicable"
        return each.case.role, each.status, *((each.detail, each.case.name.rpartition(".")[0]) if untried else ())

    for _, members in groupby(results, group):
        found = list(members)
        first = found[0]
        if len(found) > 2 and first.status == "not applicable":
            name = f"{first.case.name.rpartition('.')[0]}.… ({len(found)} cases)"
            yield [[first.case.role, name, first.status, first.detail]]
        else:
            yield [[each.case.role, each.case.name, each.status, _detail(each)] for each in found]


def _detail(result: Result) -> str:
    if result.status == "failed":
        return f"expected: {result.case.expected} found: {result.detail}"
    return result.detail
