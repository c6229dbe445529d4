"""One way to speak: for people through rich, with `--json` as a contract.

With `--json`, stdout holds one JSON document per command (`data`) or one JSON object per line for streams
(`event`), nothing else; an error is `{"error": {"code", "message", "hint", "retryable"}}`. What is said to people
only (`line`, `note`, `table`) is then left out. Warnings and errors for people go to stderr.

Control characters that come with data are always shown as escapes: a record must not be able to command the terminal
of whoever looks at it.
"""

from __future__ import annotations

import json as jsonlib
import re
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

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Marks that make a terminal show text in another order than it has."""
_CONTROLS = re.compile(rf"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_BIDI}]")
"""C0, DEL and C1, separators of lines, lone surrogates (which can't be written) and marks of direction."""


def visible(text: str, *, keep: str = "") -> str:
    """Text with its control characters as escapes, `\\x1b`; those in `keep` stay as they are."""
    if text.isprintable():
        return text
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keep else repr(found[0])[1:-1], text)


def visible_json(text: str) -> str:
    """JSON with the control characters that JSON allows in strings (DEL, C1, marks of direction) as escapes."""
    return _CONTROLS.sub(lambda found: found[0] if found[0] in "\n\t\r" else f"\\u{ord(found[0]):04x}", text)


def as_json(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON that a terminal can show."""
    return visible_json(jsonlib.dumps(value, indent=indent, ensure_ascii=False, default=str))


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
            sys.stdout.write(as_json(shown, indent=2) + "\n")

    def event(self, value: Any) -> None:
        """One line of a stream, with `--json` only; flushed, since somebody waits for it."""
        if self.json:
            shown = self.redactor.redact_data(value) if self.redactor else value
            sys.stdout.write(as_json(shown) + "\n")
            sys.stdout.flush()

    def line(self, text: str = "", *, style: str = "") -> None:
        """A line for people. Text is never read as rich markup: names may hold brackets."""
        if not self.json:
            self._print(text, style, sys.stdout)

    def note(self, text: str, *, style: str = "dim") -> None:
        """A remark beside the result, for people, on stderr."""
        if not self.json:
            self._print(text, style, sys.stderr)

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        spare: Sequence[str] = (),
        remarks: Sequence[str] | None = None,
    ) -> None:
        """A table for people; columns whose cells are all numbers stand to the right. Where the terminal is too narrow,
        the columns in `spare` are left out, the first of them first."""
        if self.json:
            return
        from rich.text import Text

        from gauss.cli.columns import Column, Columns

        hide = self.redactor.redact_data if self.redactor else list
        cells = [list(hide(row)) for row in rows]
        numeric = [
            bool(cells) and all(isinstance(row[index], int | float) for row in cells) for index in range(len(columns))
        ]
        kinds = [
            Column(title, right=right, spare=len(spare) - spare.index(title) if title in spare else 0)
            for title, right in zip(columns, numeric, strict=True)
        ]
        texts = [[Text(f"{cell:,}" if isinstance(cell, int) else visible(str(cell))) for cell in row] for row in cells]
        notes = None if remarks is None else [Text(visible(str(each)), style="dim") for each in hide(remarks)]
        self.console().print(Columns(kinds, texts, notes))

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
        text = visible(self.redactor.redact(text) if self.redactor else text, keep="\n\t")
        # A file or pipe gets plain text at its own width, and the command stays free of rich's import.
        if not stream.isatty():
            stream.write(text + "\n")
            return
        from rich.text import Text

        self.console(stderr=stream is sys.stderr).print(Text(text, style=style), soft_wrap=True)
