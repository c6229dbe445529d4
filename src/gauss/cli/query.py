from __future__ import annotations

import datetime
import json as jsonlib
import sys
from typing import Annotated

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption, RunClient
from gauss.cli.output import JsonOption, visible, visible_json

Begin = Annotated[
    str | None, typer.Option("--from", help="First time: ISO 8601, Unix milliseconds, or relative to now (-5m, -1h).")
]
End = Annotated[str | None, typer.Option("--to", help="End time (exclusive), as --from.")]
Snapshot = Annotated[
    bool, typer.Option("--snapshot", help="Of a Kafka topic with a key: the newest record of each key.")
]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Stop after this many records.")]
Format = Annotated[str | None, typer.Option("--format", help="Decode with this format of the pipeline.")]


def command(
    topic: Annotated[str, typer.Argument(help="The topic.", autocompletion=complete.topics)],
    *,
    begin: Begin = None,
    end: End = None,
    snapshot: Snapshot = False,
    limit: Limit = None,
    format: Format = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Print the records of a topic, optionally of a time range.

    Examples: gauss query quotes.raw --from -5m · gauss query quotes.raw --from 2026-01-31T12:00Z --to -1h --json
    """
    query = {"from": begin, "to": end, "limit": limit, "format": format}
    query["snapshot"] = "true" if snapshot else None
    for line in RunClient(data_dir).lines("topics", topic, "query", **query):
        sys.stdout.write(visible_json(line.decode()) if json else for_people(line))
    sys.stdout.flush()


def for_people(line: bytes) -> str:
    """Formats a record as one line: `offset  time  data`."""
    record = jsonlib.loads(line)
    offset, ts_ms, data = record["offset"], record["ts_ms"], record["data"]
    text = data if isinstance(data, str) else jsonlib.dumps(data, ensure_ascii=False)
    time = "-"
    if ts_ms is not None:  # rows of an external table may have neither offset nor time
        moment = datetime.datetime.fromtimestamp(ts_ms / 1000, datetime.UTC)
        time = f"{moment:%Y-%m-%d %H:%M:%S}.{ts_ms % 1000:03d}"
    return f"{'-' if offset is None else offset:>10}  {time:<23}  {visible(text)}\n"
