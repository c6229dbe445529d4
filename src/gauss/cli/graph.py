"""`gauss graph`: draws topics, processors and the guarantee of each sink."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gauss.cli import complete
from gauss.cli.output import CommandOutput, JsonOption
from gauss.config.check import check_or_raise
from gauss.model.errors import ConfigError


class Drawing(StrEnum):
    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"


def command(
    file: Annotated[
        Path, typer.Argument(help="A pipeline, or a folder with a gauss.toml.", autocompletion=complete.files)
    ] = Path(),
    format: Annotated[Drawing, typer.Option("--format", "-f", help="The output format.")] = Drawing.TEXT,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file instead of stdout.")] = None,
    json: JsonOption = False,
) -> None:
    """Draw a pipeline as text, mermaid or SVG: topics with storage and read modes, and processors with their task or
    query."""
    from gauss.api.draw import DRAWINGS
    from gauss.config.files import with_absolute_files
    from gauss.stream.driver.planning.explain import planned
    from gauss.stream.graph import build_graph
    from gauss.stream.guarantee import guarantees

    out = CommandOutput(json=json)
    pipeline, checked = check_or_raise(file)
    out.redactor = checked.redactor
    graph = planned(with_absolute_files(pipeline, checked.base_dir), build_graph(pipeline))
    if json:
        out.data({**graph.to_dict(), "guarantees": [promise.to_dict() for promise in guarantees(graph)]})
        return
    drawn = checked.redactor.redact(DRAWINGS[format.value](graph))
    if output is None:
        out.line(drawn.rstrip("\n"))
        return
    try:
        output.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"can't write {output}: {error.strerror}", hint="choose another location with -o") from error
    out.note(f"wrote {output}")
