"""The `gauss` command. Subcommands are imported lazily, so `gauss check` does not import what only `gauss run` needs.

Convention: the command `NAME` lives in the module `gauss.cli.NAME` (`-` becomes `_`), which has either
- `app`: a `typer.Typer` with subcommands (`gauss readers ls|seek|drop`), or
- `command`: a plain function with Typer annotations (`gauss check FILE`).
The module is imported only when its command (or its own help) is asked for. Output goes through
`gauss.cli.output`, failures are raised as `GaussError`; any other exit code is `raise typer.Exit(code)`.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gauss.model.errors import ConfigError, GaussError, Unavailable

COMMANDS = {
    "new": "Write a commented starter pipeline.",
    "check": "Check a pipeline without starting it.",
    "graph": "Draw a pipeline as text, mermaid or SVG.",
    "explain": "Explain how each processor runs, and why.",
    "schema": "Show how fields map to the columns of a table.",
    "test": "Run the test cases of a pipeline.",
    "run": "Run a pipeline.",
    "open": "Open the pages of a run in the browser.",
    "top": "Watch a running pipeline.",
    "topics": "List topics with their size and readers.",
    "readers": "List, move or drop the readers of a topic.",
    "processors": "List processors; retry or skip failed ones.",
    "tap": "Print records as they arrive.",
    "query": "Print records of a time range.",
    "scan": "Filter, project and aggregate a topic.",
    "send": "Send records to a topic or a socket.",
    "sync": "Move streams between systems by connectors.",
    "connectors": "List connectors; check and discover what they connect to.",
    "serve": "Serve the API of a fleet of pipelines.",
    "worker": "Run pipelines of a fleet.",
    "syncs": "List runs of syncs; show or set their cursors.",
    "dlq": "List, show, replay and discard dead letters.",
    "verify": "Verify a data directory that no run is using.",
    "repair": "Show damage in a data directory, and repair it.",
    "db": "Prepare databases by scripts and clone them; connect to the embedded servers.",
    "dev": "Start a local Postgres, ClickHouse or Kafka.",
    "docs": "Print a page of the documentation.",
    "examples": "List or copy the example pipelines.",
}

EXIT_CODES = (
    "Exit codes: 0 success · 1 config error · 2 usage error · 3 runtime failure · 4 no run found · "
    "5 refused by a rule · 130 interrupted"
)


def exit_code(error: GaussError) -> int:
    """The process's exit code for an error."""
    if isinstance(error, ConfigError):
        return 1
    if error.code == "blocked":
        return 5
    return 4 if isinstance(error, Unavailable) else 3


class LazyGroup(TyperGroup):
    """Lists commands with their one-line help; imports a module only to run its command."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name, summary in COMMANDS.items():
            self.commands[name] = TyperCommand(name=name, help=summary, callback=None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else command, rest


def load_command(name: str) -> Any:
    """The real command behind a name."""
    module = importlib.import_module(f"gauss.cli.{name.replace('-', '_')}")
    found = getattr(module, "app", None)
    if found is None:
        found = typer.Typer(add_completion=False)
        found.command(name, help=_paragraphs(module.command.__doc__ or COMMANDS[name]))(module.command)
    command = typer.main.get_command(found)
    command.name = name
    return command


def _paragraphs(doc: str) -> str:
    """A docstring with each paragraph on one line, so that the help is wrapped to the terminal."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(doc).split("\n\n"))


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, epilog=EXIT_CODES, pretty_exceptions_enable=False)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"gauss {version('gauss')}")
        raise typer.Exit()


@app.callback(help="Stream processing from one TOML file: sources, topics, transforms, sinks and tables, exactly once.")
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version  # handled by its callback


def main(args: list[str] | None = None) -> None:
    """Runs the command line. Errors are printed as a message and a hint, never as a traceback."""
    from gauss.cli.output import CommandOutput

    given = sys.argv[1:] if args is None else args
    try:
        typer.main.get_command(app).main(args=given, prog_name="gauss")
    except GaussError as error:
        CommandOutput(json="--json" in given).error(error)
        sys.exit(exit_code(error))
    except Exception as error:
        # A bug. The traceback is printed only on request.
        if os.environ.get("GAUSS_DEBUG"):
            raise
        hint = "this is a bug in Gauss or a plugin; set GAUSS_DEBUG=1 to print the traceback"
        CommandOutput(json="--json" in given).error(
            GaussError(f"unexpected {type(error).__name__}: {error}", hint=hint)
        )
        sys.exit(3)


if __name__ == "__main__":
    main()
