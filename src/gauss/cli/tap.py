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
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption, RunClient
from gauss.cli.output import CommandOutput, JsonOption, as_json, visible
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
        str | None, typer.Option(help="Only records that match this condition, evaluated in the engine: '.bid > 100'.")
    ] = None,
    meta: Annotated[bool, typer.Option("--meta", help="Print topic, offset and ts_ms with each record.")] = False,
    for_: Annotated[str | None, typer.Option("--for", help="Stop after this time, such as 10s.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Stop after this many records.")] = None,
    start: Annotated[str, typer.Option(help="earliest, end, an offset, or -N for the last N records.")] = "end",
    format: Annotated[str | None, typer.Option(help="Decode with this format of the pipeline.")] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Print records as they arrive; continues when the run restarts. --json implies --meta: one JSON object per line.

    Examples: gauss tap quotes.raw · gauss tap 'quotes.*' --meta --where '.bid > 100' --for 10s
    """
    deadline = time.monotonic() + _seconds(for_) if for_ is not None else None
    chosen = _expand(topics, RunClient(data_dir))
    output = CommandOutput(json=json)
    output.note(f"tapping {', '.join(chosen)}; press Ctrl-C to stop")
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
            output.note(f"{topic}: connection to the run lost, waiting for it")
            continue
        record = jsonlib.loads(line)
        sys.stdout.write(_shown(topic, record, meta or json, terminal=terminal) + "\n")
        if lines.empty():
            sys.stdout.flush()
        left -= 1
    sys.stdout.flush()


def _shown(topic: str, record: dict[str, Any], meta: bool, *, terminal: bool) -> str:
    """Prints a line. Text that goes to a file or pipe is not escaped."""
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


def _expand(patterns: list[str], client: RunClient) -> list[str]:
    """Topics that match names or globs, without duplicates. Hidden topics match only by their full name."""
    known = {topic["name"]: bool(topic["hidden"]) for topic in client.get("topics")["topics"]}
    chosen: list[str] = []
    for pattern in patterns:
        if pattern in known:
            found = [pattern]
        else:
            found = [name for name, hidden in known.items() if not hidden and fnmatch.fnmatchcase(name, pattern)]
        if not found:
            shown = ", ".join(name for name, hidden in known.items() if not hidden) or "none"
            raise NotFound(f'no topic matches "{pattern}"', hint=f"topics: {shown}")
        chosen += [name for name in found if name not in chosen]
    return chosen


def _follow(topic: str, data_dir: Path, start: str, asked: dict[str, str | None], lines: Lines) -> None:
    """Puts the lines of a topic into the queue. After a broken connection it continues behind the last one."""
    waiting, inc = False, None
    while True:
        try:
            client = RunClient(data_dir, timeout=None)
            found = client.get("topics", topic)["inc"]
            if inc not in (None, found):
                start = "earliest"  # a memory topic is emptied when the engine restarts
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
