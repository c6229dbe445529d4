"""`gauss examples`: example pipelines."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from gauss.cli.output import CommandOutput, JsonOption
from gauss.cli.shared_files import folder, summary
from gauss.model.errors import ConfigError

LEFT_OUT = shutil.ignore_patterns("__pycache__", ".gauss", "*.pyc")


def command(
    to: Annotated[Path | None, typer.Option("--to", help="Copy all examples into this new folder.")] = None,
    json: JsonOption = False,
) -> None:
    """List the example pipelines, or copy them.

    Examples: gauss examples · gauss examples --to examples
    """
    output = CommandOutput(json=json)
    root = folder("examples")
    found = {file.parent.name: summary(file)[1] for file in sorted(root.glob("*/README.md"))}
    if to is None:
        output.data({"folder": str(root), "examples": found})
        output.table(["example"], [[name] for name in found], remarks=list(found.values()))
        output.note("copy them with gauss examples --to examples, then gauss run examples/01-passthrough")
        return
    try:
        shutil.copytree(root, to, ignore=LEFT_OUT)
    except FileExistsError as error:
        raise ConfigError(f"{to} already exists", hint="choose a new folder") from error
    except OSError as error:
        raise ConfigError(f"can't write {to}: {error.strerror or error}", hint="choose another location") from error
    output.data({"folder": str(to), "examples": list(found)})
    output.line(f"copied {len(found)} examples; next: gauss run {to}/01-passthrough")
