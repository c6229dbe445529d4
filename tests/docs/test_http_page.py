"""The commands of docs/http.md work with the pipeline that it shows, and the page lists all routes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.api import (
    cursors,
    front,
    latest,
    metrics,
    operate,
    pipeline_file,
    processes,
    scans,
    sessions,
    syncs,
    table_topics,
    topics,
    watch,
)
from gauss.api.databases import routes as databases
from helpers.run import Run, free_port

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/http.md").read_text(encoding="utf-8")
MODULES = (topics, latest, table_topics, scans, cursors, operate, watch, processes, pipeline_file, sessions, databases)
SH = re.compile(r"```sh\n(.*?)```", re.S)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    found = re.search(r"```toml\n(.*?)```", TEXT, re.S)
    assert found is not None
    started = Run(tmp_path, found[1].replace("8042", str(free_port()))).start()
    yield started
    started.end()


@pytest.mark.system
def test_every_command_of_the_page_gives_what_it_shows(run: Run) -> None:
    port = re.search(r"port = (\d+)", run.config.read_text())
    assert port is not None
    blocks = SH.findall(TEXT)
    assert len(blocks) >= 3
    for block in blocks:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.replace("8042", port[1])],
            capture_output=True,
            text=True,
            cwd=run.folder,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        for line in block.splitlines():
            if line.startswith("# "):
                assert line[2:] in done.stdout, done.stdout


def test_page_names_every_route() -> None:
    named = set(re.findall(r"#### `(\w+) (\S+)`", TEXT))
    assert set(_routes()) == named


def _routes() -> Iterator[tuple[str, str]]:
    """The paths of the routers themselves, not of the OpenAPI description. A WebSocket and a GET of the same path count
    once."""
    none: Any = None
    routers = [
        front.routes(none, none),
        *(module.routes(none) for module in MODULES),
        *(module.routes(none, none) for module in (metrics, syncs)),
    ]
    found: list[Any] = [route for router in routers for route in router.routes]
    plain = {(method, route.path_format) for route in found for method in getattr(route, "methods", None) or ()}
    yield from plain
    for route in found:
        if not getattr(route, "methods", None) and ("GET", route.path) not in plain:
            yield "WS", route.path
