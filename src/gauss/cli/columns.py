"""Tables that fit the terminal: optional columns are dropped, and remarks move below their row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

GAP = 2
NARROWEST = 8
"""The narrowest width to which a column is folded."""
INDENT = 4


@dataclass(frozen=True)
class Column:
    """A column's title, and its priority on a narrow terminal."""

    title: str
    right: bool = False
    spare: int = 0
    """0: always shown. The column with the highest number is dropped first."""


class Columns:
    """Renders rows under their titles. A row's `remarks` follow it, or go below it if they do not fit."""

    def __init__(
        self, columns: Sequence[Column], rows: Iterable[Sequence[Text]], remarks: Sequence[Text] | None = None
    ) -> None:
        self._columns = list(columns)
        self._rows = [list(row) for row in rows]
        self._remarks = list(remarks) if remarks is not None else [Text()] * len(self._rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = options.max_width
        kept, widths = self._fitting(width)
        longest = max((cell_len(remark.plain) for remark in self._remarks), default=0)
        beside = sum(widths) + GAP * len(widths) + longest <= width
        titles = [Text(self._columns[index].title, style="bold") for index in kept]
        yield from _stripped(self._lines(console, titles, kept, widths))
        for row, remark in zip(self._rows, self._remarks, strict=True):
            lines = self._lines(console, [row[index] for index in kept], kept, widths)
            if remark and beside:
                lines[-1] = Text.assemble(lines[-1], " " * GAP, remark)
            yield from _stripped(lines)
            if remark and not beside:
                yield from _below(console, remark, width)

    def _fitting(self, width: int) -> tuple[list[int], list[int]]:
        """The columns to show, with their widths."""
        natural = [
            max([cell_len(column.title), *(cell_len(row[index].plain) for row in self._rows)])
            for index, column in enumerate(self._columns)
        ]
        kept = list(range(len(self._columns)))
        while sum(natural[index] + GAP for index in kept) - GAP > width:
            spare = max(kept, key=lambda index: self._columns[index].spare)
            if not self._columns[spare].spare:
                break
            kept.remove(spare)
        widths = [natural[index] for index in kept]
        while (over := sum(widths) + GAP * (len(widths) - 1) - width) > 0 and max(widths) > NARROWEST:
            widest = widths.index(max(widths))
            widths[widest] = max(NARROWEST, widths[widest] - over)
        return kept, widths

    def _lines(self, console: Console, cells: list[Text], kept: list[int], widths: list[int]) -> list[Text]:
        """The lines of a row: several if a cell is folded."""
        folded = [list(cell.wrap(console, width, overflow="fold")) for cell, width in zip(cells, widths, strict=True)]
        lines = []
        for number in range(max(map(len, folded))):
            line = Text(no_wrap=True, overflow="ignore")
            for index, parts, width in zip(kept, folded, widths, strict=True):
                part = parts[number].copy() if number < len(parts) else Text()
                part.rstrip()
                part.align("right" if self._columns[index].right else "left", width)
                line.append_text(Text(" " * GAP) if line else Text())
                line.append_text(part)
            lines.append(line)
        return lines


def _stripped(lines: list[Text]) -> Iterator[Text]:
    for line in lines:
        line.rstrip()
        yield line


def _below(console: Console, remark: Text, width: int) -> Iterator[Text]:
    if remark.no_wrap:
        cut = remark.copy()
        cut.truncate(width - INDENT, overflow="ellipsis")
        yield Text.assemble(" " * INDENT, cut)
        return
    for line in remark.wrap(console, width - INDENT):
        yield Text.assemble(" " * INDENT, line)
