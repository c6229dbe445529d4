from __future__ import annotations

import json as jsonlib
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR, Client, DataDirOption
from gauss.cli.output import JsonOption, Output, visible_json
from gauss.cli.progress import watched
from gauss.cli.rows import Rows
from gauss.model.units import counted

UNBOUNDED = 1 << 60
"""What a scan may cost where nobody means to bound it."""

Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Stop after this many rows.")]
Format = Annotated[
    str | None,
    typer.Option("--format", help="What decodes records; default: what the topic or its processors say."),
]


def command(
    topic: Annotated[str, typer.Argument(help="The topic.", autocompletion=complete.topics)],
    program: Annotated[
        str, typer.Argument(help="A view and stages, see gauss docs scan-programs; left out: all.")
    ] = "",
    *,
    live: Annotated[bool, typer.Option("--live", help="Go on with what comes.")] = False,
    limit: Limit = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what the scan would do, and do not do it.")] = False,
    format: Format = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Prints the rows of a scan of a topic, as it is now or, with --live, as it goes on. The program runs in the
    engine, beside the data. With --json: one row per line.

    Examples: gauss scan quotes.raw 'select(.bid > 100) | {symbol, mid: (.bid + .ask) / 2}' ·
    gauss scan quotes.raw 'agg(n: count, high: max(.bid))' · gauss scan prices 'prefix("BT")' --live
    """
    output = Output(json=json)
    client = Client(data_dir, timeout=None)
    asked: dict[str, Any] = {"program": program, "live": "true" if live else None, "format": format}
    if explain or not json:
        plan = client.get("topics", topic, "scan", "explain", **asked)
    if explain:
        output.data(plan)
        show_plan(output, plan)
        return
    if not json and plan["decodes"] and plan["format"]:
        output.note(f"decoded by {plan['format']['name']} ({plan['format']['why']})")
    began = time.monotonic()
    headers, lines = client.stream("topics", topic, "scan", **asked, limit=limit)
    try:
        if json:
            count = _passed_on(lines)
        else:
            rows = Rows(sys.stdout, live=live)
            with watched(client, int(headers["Gauss-Scan"]), rows, candidates=plan["candidates"], live=live):
                count = rows.print(jsonlib.loads(line) for line in lines)
    except KeyboardInterrupt:
        return
    version = int(headers["Gauss-Version"])
    output.note(f"{counted(count, 'row')} in {time.monotonic() - began:.2f} s, version {version:,}")


def _passed_on(lines: Iterator[bytes]) -> int:
    count = 0
    for line in lines:
        sys.stdout.write(visible_json(line.decode()))
        sys.stdout.flush()
        count += 1
    return count


def show_plan(output: Output, plan: dict[str, Any]) -> None:
    """A plan for people."""
    cost = plan["cost"]
    decoded = ", ".join(f"{name} ({kind})" for name, kind in plan["decodes"].items())
    most = f"at most {cost['max_scan']:,}" if cost["max_scan"] < UNBOUNDED else "without a bound"
    lines = [
        ("topic", plan["topic"]),
        ("mode", f"{plan['mode']}, pinned at version {plan['pinned_version']:,}"),
        ("reads", plan["view"]),
        *[("then" if index else "does", stage) for index, stage in enumerate(plan["stages"])],
        ("gives", ", ".join(plan["columns"])),
        ("runs as", plan["backend"]),
        *_codec(plan, decoded),
        *[("pushed down" if index == 0 else "", pushed) for index, pushed in enumerate(plan["pushed_down"])],
        *([("asks", plan["sql"])] if plan["sql"] else []),
        ("cost", f"{cost['per_candidate']:,} a candidate, more by its texts, at most {cost['max_per_candidate']:,}"),
        ("", f"{cost['scan_at_least']:,} or more for up to {plan['candidates']:,} candidates, {most}"),
    ]
    for name, text in lines:
        output.line(f"{name:>12}  {text}")


def _codec(plan: dict[str, Any], decoded: str) -> list[tuple[str, str]]:
    found = plan["format"]
    if plan["sql"]:
        return [("format", "none: the columns of a table")]
    return [
        ("format", f"{found['name']} ({found['why']})" if found else "none: records stay opaque"),
        ("decodes", decoded or "nothing"),
    ]
