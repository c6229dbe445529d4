"""Builds scan programs and formats from request parameters."""

from __future__ import annotations

import dataclasses
from typing import Any

from gauss.api.records import Decode, decoding, whole_number
from gauss.config.formats import requested_format
from gauss.contracts.cursor import Mode, Program, Seq
from gauss.contracts.expression import Select
from gauss.contracts.storage import TopicKind
from gauss.model.closing import Closing, hold, scope
from gauss.model.errors import ConfigError, NotFound
from gauss.scan.program.parse import parse, parse_scan
from gauss.stream.control.run import Running
from gauss.stream.formats import topic_format


class TopicReading:
    """Shared by the routes that read topics."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._kept: dict[str, Decode] = {}
        """Formats that must be closed: one per process, shared by all requests."""

    def known(self, topic: str) -> dict[str, Any]:
        """The status of a topic. Raises before a stream starts its response."""
        return self._running.command("topic", name=topic)

    def is_table(self, topic: str) -> bool:
        """Whether the topic is a table in the engine."""
        return bool(self.known(topic)["kind"] == TopicKind.TABLE)

    def decoder(self, name: str | None) -> Decode | None:
        """A format of the pipeline, or a plugin without required settings; `None` for plain text."""
        if name is None or name in self._kept:
            return None if name is None else self._kept[name]
        held, defined = Closing(), [entry.name for entry in self._running.pipeline.formats]
        try:
            with scope(held):
                made = decoding(requested_format(self._running.pipeline, name).decode)
        except ConfigError:
            if name in defined:
                raise
            known = ", ".join(defined) or "none"
            raise NotFound(f'the pipeline has no format "{name}"', hint=f"formats: {known}") from None
        if len(held):
            hold(held)
            self._kept[name] = made
        return made

    def rows_of(self, topic: str, format_name: str | None) -> Decode | None:
        """The format for rows of a table: the given one, else that of the topic."""
        if format_name is None and (found := topic_format(self._running.pipeline, topic)) is not None:
            format_name = found.name
        return self.decoder(format_name)

    def table(self, topic: str, mode: str = "snapshot") -> None:
        """Raises unless the topic is a table."""
        found = self._running.command("topic", name=topic)
        modes = found["read_modes"]
        if "snapshot" in modes and mode not in modes and found["kind"] == TopicKind.LOG:
            raise ConfigError(
                f'topic "{topic}" keeps records in order: it has snapshots, which report no changes',
                hint="read its snapshot again, or subscribe with mode=changes to get every record",
            )
        if "snapshot" in modes and mode not in modes:
            raise ConfigError(
                f'topic "{topic}" is an external table, which does not report changes',
                hint="read its snapshot, or subscribe to the topic from which it is written",
            )
        if "snapshot" not in modes:
            raise ConfigError(
                f'topic "{topic}" has no snapshot: it keeps records in order, not a row per key',
                hint="use scan, query or tail, or subscribe with mode=changes",
            )

    def program(self, text: str, *, live: bool = False, format_name: str | None = None) -> Program:
        """Parses a program. A format in the text overrides the given one."""
        program = parse_scan(text, live=live)
        return program if program.format or not format_name else dataclasses.replace(program, format=format_name)

    def tail(
        self, topic: str, start: str | None, *, where: str | None = None, format_name: str | None = None
    ) -> Program:
        """The live scan of a tail. `where` is evaluated in the engine; the default format is JSON."""
        row = self._running.command("topic", name=topic)
        stages: tuple[Select, ...] = ()
        if where is not None:
            stages = (Select(parse(where).root),)
            if format_name is None and topic_format(self._running.pipeline, topic) is None:
                format_name = "json"
        view = Seq(_offset(start or "end", row["floor"], row["end"]))
        return Program(view, Mode.LIVE, stages=stages, format=format_name or "" if stages else "", text=where or "")


def _offset(start: str, floor: int, end: int) -> int | None:
    if start == "earliest":
        return None
    if start == "end":
        return end
    try:
        offset = whole_number(start, "start", least=-(2**63))
    except ConfigError:
        raise ConfigError(f"start: expected earliest, end, an offset or -N (got {start[:40]!r})") from None
    return offset if offset >= 0 else max(floor, end + offset)
