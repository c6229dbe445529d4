"""The output of all commands: text through rich, or JSON with `--json`.

With `--json`, stdout holds one JSON document per command (`data`) or one JSON object per line for streams
(`event`), nothing else; an error is `{"error": {"code", "message", "hint", "retryable"}}`. Text for people
(`line`, `note`, `table`) is then suppressed. Warnings and errors as text go to stderr.

Control characters in data are always escaped, so that a record cannot send commands to a terminal.
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

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
"""The `--json` option of every command."""


UNFOLDED = 10_000

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Unicode bidirectional control characters, which reorder text on a terminal."""
_CONTROLS = re.compile(rf"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_BIDI}]")
"""C0, DEL and C1 controls, line separators, lone surrogates and bidirectional controls."""


def visible(text: str, *, keep: str = "") -> str:
    """Text with its control characters escaped as `\\x1b`, except those in `keep`."""
    if text.isprintable():
        return text
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keep else repr(found[0])[1:-1], text)


def visible_json(text: str) -> str:
    """JSON with the control characters that JSON permits in strings (DEL, C1, bidirectional) escaped."""
    return _CONTROLS.sub(lambda found: found[0] if found[0] in "\n\t\r" else f"\\u{ord(found[0]):04x}", text)


def as_json(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON that is safe to print on a terminal."""
    return visible_json(jsonlib.dumps(value, indent=indent, ensure_ascii=False, default=str))


class CommandOutput:
    """Output of a command. Rich is imported only if text is printed."""

    def __init__(self, *, json: bool = False) -> None:
        self.json = json
        self.redactor: Redactor | None = None
        """Set when a config is loaded: its secrets are redacted in everything that is printed."""

    def data(self, value: Any) -> None:
        """Prints the result of a command, with `--json` only."""
        if self.json:
            shown = self.redactor.redact_data(value) if self.redactor else value
            sys.stdout.write(as_json(shown, indent=2) + "\n")

    def event(self, value: Any) -> None:
        """Prints and flushes one line of a stream, with `--json` only."""
        if self.json:
            shown = self.redactor.redact_data(value) if self.redactor else value
            sys.stdout.write(as_json(shown) + "\n")
            sys.stdout.flush()

    def line(self, text: str = "", *, style: str = "") -> None:
        """Prints a line of text. Rich markup is off: names may contain brackets."""
        if not self.json:
            self._print(text, style, sys.stdout)

    def note(self, text: str, *, style: str = "dim") -> None:
        """Prints a remark on stderr."""
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
        """Prints a table; columns of numbers are right-aligned. On a narrow terminal columns in `spare` are dropped in
        order."""
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
        """The rich console, for live views."""
        from rich.console import Console

        stream = sys.stderr if stderr else sys.stdout
        # A file or pipe has no width, so cells are not folded.
        return Console(file=stream, highlight=False, width=None if stream.isatty() else UNFOLDED)

    def error(self, error: GaussError) -> None:
        """Prints an error and its hint."""
        if self.json:
            self.data({"error": error.to_dict()})
            return
        self._print(f"error: {error.message}", "bold red", sys.stderr)
        if error.hint:
            self._print(f"hint: {error.hint}", "", sys.stderr)

    def _print(self, text: str, style: str, stream: Any) -> None:
        text = visible(self.redactor.redact(text) if self.redactor else text, keep="\n\t")
        # A file or pipe gets plain text, without importing rich.
        if not stream.isatty():
            stream.write(text + "\n")
            return
        from rich.text import Text

        self.console(stderr=stream is sys.stderr).print(Text(text, style=style), soft_wrap=True)
