"""Shell completion of pipelines, topics and processors. Errors are ignored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer

from gauss.model.names import is_internal

ANSWER_SECONDS = 1.0


def files(incomplete: str) -> list[str]:
    """Pipelines and folders that start with a prefix."""
    folder = Path(incomplete).parent if not incomplete.endswith("/") else Path(incomplete)
    try:
        found = [f"{path}/" if path.is_dir() else str(path) for path in sorted(folder.iterdir())]
    except OSError:
        return []
    hidden = Path(incomplete).name.startswith(".") and not incomplete.endswith("/")
    return [
        path
        for path in found
        if path.startswith(incomplete) and path.endswith(("/", ".toml")) and (hidden or Path(path).name[:1] != ".")
    ]


def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics of the pipeline on the command line, of the run, or of the pipeline in the current folder."""
    return _names(ctx, "topics", incomplete)


def processors(ctx: typer.Context, incomplete: str) -> list[str]:
    """Processors of the same pipeline."""
    return _names(ctx, "processors", incomplete)


def _names(ctx: typer.Context, section: str, incomplete: str) -> list[str]:
    file, data_dir = ctx.params.get("file"), ctx.params.get("data_dir")
    try:
        if isinstance(file, Path):
            found = _in_config(file, section)
        else:
            place = Path(data_dir or os.environ.get("GAUSS_DATA_DIR", ".gauss"))
            found = _in_run(place, section) or _in_config(Path(), section)
    except Exception:  # the command itself reports the error
        return []
    return [name for name in found if name.startswith(incomplete)]


def _in_run(data_dir: Path, section: str) -> list[str]:
    from gauss.cli.client import RunClient
    from gauss.model.errors import GaussError

    try:
        rows: list[dict[str, Any]] = RunClient(data_dir, timeout=ANSWER_SECONDS).get(section)[section]
    except GaussError:
        return []
    return [row["name"] for row in rows if not is_internal(row["name"])]


def _in_config(given: Path, section: str) -> list[str]:
    from gauss.config.load import find_file, load

    entries = load(find_file(given)).data.get(section, [])
    return [str(entry["name"]) for entry in entries if isinstance(entry, dict) and "name" in entry]
