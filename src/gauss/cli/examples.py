"""`gauss examples`: pipelines to run and to begin with."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from gauss.cli.output import JsonOption, Output
from gauss.cli.shared_files import folder, summary
from gauss.model.errors import ConfigError

LEFT_OUT = shutil.ignore_patterns("__pycache__", ".gauss", "*.pyc")


def command(
    to: Annotated[Path | None, typer.Option("--to", help="Copy all of them into this new folder.")] = None,
    json: JsonOption = False,
) -> None:
    """Lists the example pipelines, or copies them.

    Examples: gauss examples · gauss examples --to examples
    """
    output = Output(json=json)
    root = folder("examples")
    found = {file.parent.name: summary(file)[1] for file in sorted(root.glob("*/README.md"))}
    if to is None:
        output.data({"folder": str(root), "examples": found})
        output.table(["example"], [[name] for name in found], remarks=list(found.values()))
        output.note("gauss examples --to examples copies them; then gauss run examples/01-passthrough")
        return
    try:
        shutil.copytree(root, to, ignore=LEFT_OUT)
    except FileExistsError as error:
        raise ConfigError(f"{to} exists already", hint="choose a new folder") from error
    except OSError as error:
        raise ConfigError(f"can't write {to}: {error.strerror or error}", hint="choose another place") from error
    output.data({"folder": str(to), "examples": list(found)})
    output.line(f"copied {len(found)} examples; next: gauss run {to}/01-passthrough")
