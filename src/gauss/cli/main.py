"""The `gauss` command: a lazy table of subcommands, so that `gauss check` never pays for what `gauss run` imports.

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
    "check": "Judge a pipeline whole, before anything starts.",
    "graph": "Draw a pipeline as text, mermaid or SVG.",
    "explain": "Say how processors run, and why.",
    "schema": "Show how a format's fields become a table's columns.",
    "test": "Run the cases beside a pipeline, on Spark.",
    "run": "Run a pipeline.",
    "top": "Watch a running pipeline.",
    "topics": "List topics and what they hold.",
    "readers": "List, move or drop the readers of topics.",
    "processors": "List processors; retry or skip what failed.",
    "tap": "Print a topic's records as they come.",
    "query": "Print a topic's records of a time range.",
    "scan": "Print the rows that a program makes of a topic.",
    "send": "Send records to a topic or a socket.",
    "dlq": "List, show and replay dead letters.",
    "verify": "Check a data directory that no run has open.",
    "repair": "Show what is damaged in a data directory, and mend it.",
    "db": "Reach the servers that come with Gauss.",
    "docs": "Print a page of the documentation.",
    "examples": "List or copy the example pipelines.",
}

EXIT_CODES = """Exit codes: 0 done · 1 the config has faults · 2 wrong command line · 3 failed while running ·
4 no running engine answers · 130 interrupted"""


def exit_code(error: GaussError) -> int:
    """The process's exit code for an error."""
    if isinstance(error, ConfigError):
        return 1
    return 4 if isinstance(error, Unavailable) else 3


class LazyGroup(TyperGroup):
    """Lists commands by their one-line help and imports a module only to run its command."""

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
    """A docstring with each paragraph on one line, so that the help wraps it to the terminal."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(doc).split("\n\n"))


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, epilog=EXIT_CODES, pretty_exceptions_enable=False)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"gauss {version('gauss')}")
        raise typer.Exit()


@app.callback(help="Records come in, live in topics, pass through Spark and go out. One TOML file, one command.")
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version  # handled by its callback


def main(args: list[str] | None = None) -> None:
    """Runs the command line; an error becomes a sentence and a hint, never a traceback."""
    from gauss.cli.output import Output

    given = sys.argv[1:] if args is None else args
    try:
        typer.main.get_command(app).main(args=given, prog_name="gauss")
    except GaussError as error:
        Output(json="--json" in given).error(error)
        sys.exit(exit_code(error))
    except Exception as error:
        # A bug: still a sentence, since a trace helps only those who asked for it.
        if os.environ.get("GAUSS_DEBUG"):
            raise
        hint = "this is a fault of Gauss or of a plugin; GAUSS_DEBUG=1 shows the trace"
        Output(json="--json" in given).error(GaussError(f"unexpected {type(error).__name__}: {error}", hint=hint))
        sys.exit(3)


if __name__ == "__main__":
    main()
