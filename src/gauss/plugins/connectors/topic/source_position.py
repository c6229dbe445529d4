"""Positions of a sync in a topic: where a read begins, and what is no longer there."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from gauss.contracts.connector.cursor import CursorInfo, CursorValue, JsonCursor, NullCursor
from gauss.contracts.connector.errors import ConnectorError
from gauss.plugins.connectors.topic.run_client import TopicState


class TopicCursor(msgspec.Struct, frozen=True):
    """The offset behind the last record that was read, in one incarnation of the topic."""

    inc: int
    offset: int

    @classmethod
    def of(cls, info: CursorInfo | None) -> TopicCursor | None:
        """The cursor of the last run; None before the first. Raises ConnectorError."""
        last = info.last_value if info is not None else None
        if last is None or isinstance(last, NullCursor):
            return None
        try:
            return msgspec.convert(last.value if isinstance(last, JsonCursor) else None, cls)
        except msgspec.ValidationError as error:
            raise ConnectorError.config(
                "BAD_CURSOR",
                f'the stored cursor is not one of a topic, expected {{"inc": …, "offset": …}}: {error}',
                hint="reset it: gauss syncs state reset",
            ) from None

    def value(self) -> CursorValue:
        return JsonCursor(msgspec.to_builtins(self))


class Beginning(NamedTuple):
    """Where a read begins."""

    offset: int
    missed: int = 0
    """Number of records behind the cursor that are gone, as far as it is known."""
    why: str = ""
    """What is gone, and why; empty: nothing."""


def beginning(topic: TopicState, cursor: TopicCursor | None) -> Beginning:
    """Where to go on; raises ConnectorError if the cursor is behind the end."""
    if cursor is None:
        return Beginning(topic.floor)
    if cursor.inc != topic.inc:
        why = (
            f'topic "{topic.name}" was made anew since the last run (incarnation {topic.inc}, the cursor has'
            f" {cursor.inc}): an unknown number of unread records is lost; reading from offset {topic.floor}"
        )
        return Beginning(topic.floor, why=why)
    if cursor.offset > topic.end:
        raise ConnectorError.config(
            "BAD_CURSOR",
            f'the cursor is at offset {cursor.offset}, but topic "{topic.name}" ends at {topic.end}',
            hint="set or reset it: gauss syncs state",
        )
    if cursor.offset < topic.floor:
        missed = topic.floor - cursor.offset
        return Beginning(topic.floor, missed, removed(topic.name, cursor.offset, topic.floor))
    return Beginning(cursor.offset)


def removed(topic: str, start: int, stop: int) -> str:
    """The message about records that retention has removed."""
    return f'topic "{topic}": records {start} to {stop - 1} were removed by retention before they were read'
