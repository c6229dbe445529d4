"""What the pages of a process are: those of `gauss run`, or those of `gauss serve`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Site:
    """The pages of one process."""

    title: str
    component: str
    """The name of the Vue component in `PageHost`."""
    paths: tuple[str, ...]
    """The paths of pages; no other path begins with the first word of one."""
    rows: tuple[str, ...]
    """The parts of a reading that are rows by id: of these only changed rows are sent."""
    read: Callable[[], dict[str, Any]]
    """The figures that pages show live."""
    styles: tuple[str, ...] = ("tokens.css", "pages.css", "db/db.css")


DATABASE_PATHS = ("/db", "/db/states/{id}", "/db/jobs/{id}")
RUN_PATHS = (
    "/",
    "/topics",
    "/topics/{name}",
    "/processors/{name}",
    "/dead",
    "/syncs",
    "/syncs/{name}",
    "/pipeline",
    "/health",
    *DATABASE_PATHS,
)
FLEET_PATHS = (
    "/",
    "/pipelines/{id}",
    "/pipelines/{id}/{part}",
    "/new",
    "/new/{step}",
    "/workers",
    "/audit",
    *DATABASE_PATHS,
)


def run_site(title: str, read: Callable[[], dict[str, Any]]) -> Site:
    """The pages of a run."""
    return Site(title, "run", RUN_PATHS, ("topics", "processors"), read)


def fleet_site(read: Callable[[], dict[str, Any]]) -> Site:
    """The pages of a fleet."""
    return Site(
        "fleet", "fleet", FLEET_PATHS, ("pipelines",), read, ("tokens.css", "pages.css", "fleet/fleet.css", "db/db.css")
    )
