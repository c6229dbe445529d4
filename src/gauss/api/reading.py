"""From what a request says to the program that is scanned, and to the format that shows records."""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic import ValidationError

from gauss import registry
from gauss.api.records import Decode, decoding, whole_number
from gauss.contracts.cursor import Mode, Program, Seq
from gauss.contracts.format import FormatSpec
from gauss.contracts.format_batch import batched
from gauss.model.closing import Closing, hold, scope
from gauss.model.errors import ConfigError, NotFound, PluginError
from gauss.scan.program.ir import Select
from gauss.scan.program.parse import parse, parse_scan
from gauss.stream.control.run import Running
from gauss.stream.formats import topic_format


class Reading:
    """What the routes that read topics share."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._kept: dict[str, Decode] = {}
        """Formats that must be closed: one for all requests, closed with the process."""

    def known(self, topic: str) -> dict[str, Any]:
        """What the engine says of a topic; raises before a stream has begun to answer 200."""
        return self._running.command("topic", name=topic)

    def is_table(self, topic: str) -> bool:
        """Whether it holds a row per key in the engine, and every change of them."""
        return {"snapshot", "subscribe"} <= set(self.known(topic)["read_modes"])

    def decoder(self, name: str | None) -> Decode | None:
        """A format of the pipeline, or a plugin that needs no settings; None: bytes are shown as text."""
        if name is None or name in self._kept:
            return None if name is None else self._kept[name]
        found, held = self._running.pipeline.format(name), Closing()
        try:
            spec = registry.installed(FormatSpec, name) if found is None else registry.spec(FormatSpec, found.plugin)
            config = spec.validate({} if found is None else found.config)
            with scope(held):
                made = decoding(batched(registry.build(spec, config)).decode)
        except (PluginError, ValidationError):
            if found is not None:
                raise
            known = ", ".join(entry.name for entry in self._running.pipeline.formats) or "none"
            raise NotFound(f'the pipeline has no format "{name}"', hint=f"it has: {known}") from None
        if len(held):
            hold(held)
            self._kept[name] = made
        return made

    def rows_of(self, topic: str, format_name: str | None) -> Decode | None:
        """How rows of a table are shown: by the named format, else the topic's own."""
        if format_name is None and (found := topic_format(self._running.pipeline, topic)) is not None:
            format_name = found.name
        return self.decoder(format_name)

    def table(self, topic: str, mode: str = "snapshot") -> None:
        """Raises unless the topic has a row per key."""
        modes = self._running.command("topic", name=topic)["read_modes"]
        if "snapshot" in modes and mode not in modes:
            raise ConfigError(
                f'topic "{topic}" is a table elsewhere, which tells nobody that it has changed',
                hint="read its snapshot, or subscribe to the topic that is written to it",
            )
        if "snapshot" not in modes:
            raise ConfigError(
                f'topic "{topic}" has no snapshot: it keeps records in order, not a row per key',
                hint="use scan, query or tail, or subscribe with mode=changes",
            )

    def program(self, text: str, *, live: bool = False, format_name: str | None = None) -> Program:
        """A program by its text; a format that the text itself names counts more than the other."""
        program = parse_scan(text, live=live)
        return program if program.format or not format_name else dataclasses.replace(program, format=format_name)

    def tail(
        self, topic: str, start: str | None, *, where: str | None = None, format_name: str | None = None
    ) -> Program:
        """The live scan of a tail; `where` is decided in the engine, by JSON if nothing says otherwise."""
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
