"""One way to speak: for people through rich, with `--json` as a contract.

With `--json`, stdout holds one JSON document per command (`data`) or one JSON object per line for streams
(`event`), nothing else; an error is `{"error": {"code", "message", "hint", "retryable"}}`. What is said to people
only (`line`, `note`, `table`) is then left out. Warnings and errors for people go to stderr.
"""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauss.model.errors import GaussError

if TYPE_CHECKING:
    from rich.console import Console

    from gauss.config.secrets import Redactor

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
"""Every command takes this as `json`."""


UNFOLDED = 10_000


class Output:
    """What a command prints through; rich is imported only when something is printed for people."""

    def __init__(self, *, json: bool = False) -> None:
        self.json = json
        self.redactor: Redactor | None = None
        """Set once a config is read: from then on its secrets are hidden in whatever is printed."""

    def data(self, value: Any) -> None:
        """The command's result, with `--json` only."""
        if self.json:
            shown = self.redactor.redact_data(value) if self.redactor else value
            sys.stdout.write(jsonlib.dumps(shown, indent=2, ensure_ascii=False, default=str) + "\n")

    def event(self, value: Any) -> None:
        """One line of a stream, with `--json` only; flushed, since somebody waits for it."""
        if self.json:
            shown = self.redactor.redact_data(value) if self.redactor else value
            sys.stdout.write(jsonlib.dumps(shown, ensure_ascii=False, default=str) + "\n")
            sys.stdout.flush()

    def line(self, text: str = "", *, style: str = "") -> None:
        """A line for people. Text is never read as rich markup: names may hold brackets."""
        if not self.json:
            self._print(text, style, sys.stdout)

    def note(self, text: str, *, style: str = "dim") -> None:
        """A remark beside the result, for people, on stderr."""
        if not self.json:
            self._print(text, style, sys.stderr)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
        """A table for people; columns whose cells are all numbers stand to the right."""
        if self.json:
            return
        from rich.table import Table
        from rich.text import Text

        cells = [list(self.redactor.redact_data(row) if self.redactor else row) for row in rows]
        table = Table(title=title or None, box=None, pad_edge=False, header_style="bold", title_justify="left")
        for index, column in enumerate(columns):
            numeric = bool(cells) and all(isinstance(row[index], int | float) for row in cells)
            table.add_column(column, justify="right" if numeric else "left", overflow="fold")
        for row in cells:
            table.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else str(cell)) for cell in row))
        self.console().print(table)

    def console(self, *, stderr: bool = False) -> Console:
        """Rich's console, for live views."""
        from rich.console import Console

        stream = sys.stderr if stderr else sys.stdout
        # A file or pipe has no width at which cells would have to be folded.
        return Console(file=stream, highlight=False, width=None if stream.isatty() else UNFOLDED)

    def error(self, error: GaussError) -> None:
        """An error as a sentence and a hint."""
        if self.json:
            self.data({"error": error.to_dict()})
            return
        self._print(f"error: {error.message}", "bold red", sys.stderr)
        if error.hint:
            self._print(f"hint: {error.hint}", "", sys.stderr)

    def _print(self, text: str, style: str, stream: Any) -> None:
        text = self.redactor.redact(text) if self.redactor else text
        # A file or pipe gets plain text at its own width, and the command stays free of rich's import.
        if not stream.isatty():
            stream.write(text + "\n")
            return
        from rich.text import Text

        self.console(stderr=stream is sys.stderr).print(Text(text, style=style), soft_wrap=True)
