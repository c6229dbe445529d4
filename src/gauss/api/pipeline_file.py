"""The pipeline file of a run: its text, the faults that `gauss check` finds in it now, and where each part stands."""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter

from gauss.config.check import check
from gauss.config.positions import find_positions
from gauss.config.secrets import Redactor, remember_written
from gauss.model.errors import GaussError, NotFound
from gauss.stream.control.run import Running

KINDS = {
    "formats": "format",
    "schema_maps": "schema map",
    "topics": "topic",
    "processors": "processor",
    "syncs": "sync",
}
_WRITTEN = re.compile(
    r"""([\w."'-]+)\s*=\s*(?:\"{3}(.*?)(?:\"{3}|\Z)|'{3}(.*?)(?:'{3}|\Z)|"((?:[^"\\\n]|\\.)*)|'([^'\n]*)|([^\s,\[{}#"']+))""",
    re.DOTALL,
)
"""A key and its value, in a text that need not be TOML: the value may lack a quotation mark, or both."""


def routes(running: Running) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["run"])
    try:
        started_with = running.config.read_text(encoding="utf-8") if running is not None else ""
    except OSError:
        started_with = ""

    @router.get("/pipeline", summary="The pipeline file, with the faults of `gauss check` and the line of each entry")
    def pipeline() -> dict[str, Any]:
        try:
            text = running.config.read_text(encoding="utf-8")
            checked = check(running.config)
        except (OSError, GaussError) as error:
            raise NotFound(
                f"the file {running.config.name} cannot be read: {error}", hint="the run goes on with what it has read"
            ) from error
        if checked.pipeline is None:  # perhaps it was not parsed, so that its secrets are not known
            remember_secrets(text, checked.redactor)
        lines = {path: place.line for path, place in checked.positions.items() or find_positions(text).items()}
        entries = [
            {"kind": KINDS[str(path[0])], "name": name, "line": line}
            for path, line in lines.items()
            if len(path) == 2 and path[0] in KINDS and (name := _name(running, str(path[0]), int(path[1]))) is not None
        ]
        shown: dict[str, Any] = running.redactor.redact_data(
            {
                "file": running.config.name,
                "text": checked.redactor.redact(text),
                "changed": text != started_with,
                "faults": checked.redactor.redact_data([fault.to_dict() for fault in checked.faults]),
                "entries": entries,
            }
        )
        return shown

    return router


def remember_secrets(text: str, redactor: Redactor) -> None:
    """Finds the secrets of a file that can't be parsed."""
    for key, *values in _WRITTEN.findall(text):
        remember_written({key: "".join(values)}, redactor)


def _name(running: Running, kind: str, index: int) -> str | None:
    """The name of an entry, as the run knows it."""
    found = getattr(running.pipeline, kind)
    return found[index].name if index < len(found) else None
