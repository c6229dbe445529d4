from __future__ import annotations

import json as jsonlib
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption, RunClient
from gauss.cli.output import CommandOutput, JsonOption, visible_json
from gauss.cli.progress import watched
from gauss.cli.rows import RowPrinter
from gauss.model.units import counted

UNBOUNDED = 1 << 60
"""The default limit of a scan."""

Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Stop after this many rows.")]
Format = Annotated[
    str | None,
    typer.Option("--format", help="The format to decode with. Default: the format of the topic or of its processors."),
]


def command(
    topic: Annotated[str, typer.Argument(help="The topic.", autocompletion=complete.topics)],
    program: Annotated[
        str, typer.Argument(help="A scan program, see gauss docs scan-programs. Default: all records.")
    ] = "",
    *,
    live: Annotated[bool, typer.Option("--live", help="Continue with new records.")] = False,
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="Of a Kafka topic with a key: the newest record of each key, as rows.")
    ] = False,
    limit: Limit = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print the plan of the scan without running it.")] = False,
    format: Format = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Print the rows that a program selects from a topic, as it is now or, with --live, also from new records. The
    program runs in the engine. With --json: one row per line.

    Examples: gauss scan quotes.raw 'select(.bid > 100) | {symbol, mid: (.bid + .ask) / 2}' ·
    gauss scan quotes.raw 'agg(n: count, high: max(.bid))' · gauss scan prices 'prefix("BT")' --live
    """
    output = CommandOutput(json=json)
    client = RunClient(data_dir, timeout=None)
    asked: dict[str, Any] = {"program": program, "live": "true" if live else None, "format": format}
    asked["snapshot"] = "true" if snapshot else None
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
            rows = RowPrinter(sys.stdout, live=live)
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


def show_plan(output: CommandOutput, plan: dict[str, Any]) -> None:
    """Prints a plan."""
    cost = plan["cost"]
    decoded = ", ".join(f"{name} ({kind})" for name, kind in plan["decodes"].items())
    most = f"at most {cost['max_scan']:,}" if cost["max_scan"] < UNBOUNDED else "unlimited"
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
        (
            "cost",
            f"{cost['per_candidate']:,} per candidate plus its texts, at most {cost['max_per_candidate']:,}",
        ),
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
