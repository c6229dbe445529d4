from __future__ import annotations

import fnmatch
import json as jsonlib
import queue
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR, Client, DataDirOption
from gauss.cli.output import JsonOption, Output, as_json, visible
from gauss.model.errors import ConfigError, GaussError, NotFound, Unavailable
from gauss.model.units import duration_ms

RECONNECT_SECONDS = 0.5

Lines = queue.Queue[tuple[str, bytes | GaussError | None]]


def command(
    topics: Annotated[
        list[str], typer.Argument(help="Topics, or globs such as 'quotes.*'.", autocompletion=complete.topics)
    ],
    *,
    where: Annotated[
        str | None, typer.Option(help="Only records for which this is true, decided in the engine: '.bid > 100'.")
    ] = None,
    meta: Annotated[bool, typer.Option("--meta", help="With topic, offset and ts_ms around each record.")] = False,
    for_: Annotated[str | None, typer.Option("--for", help="Stop after this long, such as 10s.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Stop after this many records.")] = None,
    start: Annotated[str, typer.Option(help="earliest, end, an offset, or -N for the last N records first.")] = "end",
    format: Annotated[str | None, typer.Option(help="Decode with this format of the pipeline.")] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Prints records as they come; goes on when the run restarts. With --json, as --meta: one JSON object per line.

    Examples: gauss tap quotes.raw · gauss tap 'quotes.*' --meta --where '.bid > 100' --for 10s
    """
    deadline = time.monotonic() + _seconds(for_) if for_ is not None else None
    chosen = _expand(topics, Client(data_dir))
    output = Output(json=json)
    output.note(f"tapping {', '.join(chosen)}; Ctrl-C ends it")
    lines: Lines = queue.Queue(1000)
    for topic in chosen:
        threading.Thread(
            target=_follow, args=(topic, data_dir, start, {"where": where, "format": format}, lines), daemon=True
        ).start()
    left = limit if limit is not None else sys.maxsize
    terminal = sys.stdout.isatty()
    while left > 0:
        try:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            topic, line = lines.get(timeout=wait)
        except queue.Empty:
            break
        except KeyboardInterrupt:
            break
        if isinstance(line, GaussError):
            raise line
        if line is None:
            output.note(f"{topic}: the run went away, waiting for it")
            continue
        record = jsonlib.loads(line)
        sys.stdout.write(_shown(topic, record, meta or json, terminal=terminal) + "\n")
        if lines.empty():
            sys.stdout.flush()
        left -= 1
    sys.stdout.flush()


def _shown(topic: str, record: dict[str, Any], meta: bool, *, terminal: bool) -> str:
    """A line; text that goes to a file or a pipe stays as it is."""
    if meta:
        return as_json({"topic": topic, **record})
    data = record["data"]
    if not isinstance(data, str):
        return as_json(data)
    return visible(data, keep="\n\t") if terminal else data


def _seconds(text: str) -> float:
    try:
        return duration_ms(text) / 1000
    except ValueError as error:
        raise ConfigError(f"--for: {error} (got {text!r})") from None


def _expand(patterns: list[str], client: Client) -> list[str]:
    """Topics by name or glob, each once; hidden ones only by their whole name."""
    known = {topic["name"]: bool(topic["hidden"]) for topic in client.get("topics")["topics"]}
    chosen: list[str] = []
    for pattern in patterns:
        if pattern in known:
            found = [pattern]
        else:
            found = [name for name, hidden in known.items() if not hidden and fnmatch.fnmatchcase(name, pattern)]
        if not found:
            shown = ", ".join(name for name, hidden in known.items() if not hidden) or "none"
            raise NotFound(f'no topic matches "{pattern}"', hint=f"there are: {shown}")
        chosen += [name for name in found if name not in chosen]
    return chosen


def _follow(topic: str, data_dir: Path, start: str, asked: dict[str, str | None], lines: Lines) -> None:
    """Puts a topic's lines into the queue; after a break it goes on behind the last one it saw."""
    waiting, inc = False, None
    while True:
        try:
            client = Client(data_dir, timeout=None)
            found = client.get("topics", topic)["inc"]
            if inc not in (None, found):
                start = "earliest"  # a memory topic begins anew when the engine does
            inc = found
            for line in client.lines("topics", topic, "tail", start=start, **asked):
                waiting = False
                start = str(jsonlib.loads(line)["offset"] + 1)
                lines.put((topic, line))
        except Unavailable:
            if not waiting:
                lines.put((topic, None))
            waiting = True
        except GaussError as error:
            lines.put((topic, error))
            return
        time.sleep(RECONNECT_SECONDS)
