"""`NAME.test.toml` beside `NAME.toml`: what a test file may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from gauss.config.spec import Moment, Section
from gauss.contracts.plugin import Millis

SUFFIX = ".test.toml"
FIRST_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z, where the clock of a case stands unless it says otherwise."""

Record = str | dict[str, Any]
"""Text as it is, or a table that the topic's format encodes and decodes; a cell `{ null = true }` is a null."""


class Step(Section):
    """One thing that happens: `send`, `advance` or `restart`."""

    send: str | None = None
    """A topic, or a source of the pipeline: then its target, and `file` is cut by the source's framing."""
    records: list[Record] | None = None
    """With `send`: text, or tables."""
    base64: list[str] | None = None
    """With `send`: any bytes."""
    file: Path | None = None
    """With `send`: records from a file, one per line, or as the source that `send` names cuts them."""
    format: str | None = None
    """With `send`: what encodes tables; left out: the topic's format, or that of the processors beside it."""
    ts_ms: int | list[int] | None = None
    """With `send`: when they arrive, one time or one for each; left out: now, by the clock of the case. The clock
    moves on to the newest."""
    wait: bool = True
    """With `send`: the next step waits until the flow has done with these records, so that each `send` is a batch;
    `false` goes on at once."""
    advance: Annotated[Millis, Field(gt=0)] | None = None
    """Moves the clock on by so much."""
    restart: Literal["driver", "engine"] | None = None
    """Kills that process as `kill -9` does, and waits until it is there again."""


class Expect(Section):
    """What a topic, or a table, must hold when all steps are done."""

    topic: str
    """A topic of the pipeline; of a table topic, its rows."""
    records: list[Record] | None = None
    """Text is compared as it is, tables cell by cell."""
    base64: list[str] | None = None
    """Any bytes."""
    count: Annotated[int, Field(ge=0)] | None = None
    """Only how many."""
    format: str | None = None
    """What decodes the records; left out: the topic's format, or that of the processors beside it."""
    ordered: bool = False
    """In this order; else in any."""
    exact: bool = False
    """A row has these columns and no others; else columns that are not named may hold anything."""


class DeadLetters(Section):
    """Dead letters that must be there; all others fail the case."""

    count: Annotated[int, Field(gt=0)] = 1
    """How many."""
    reason: str | None = None
    """Their reason code, as `gauss dlq ls` shows it."""
    processor: str | None = None
    """Whose they are."""


class Case(Section):
    """One test: its steps, then what must have come of them."""

    name: str
    """How output and `--case` call it."""
    clock: Moment = FIRST_MS
    """Where the clock stands at first, as ISO time or unix ms."""
    steps: tuple[Step, ...] = ()
    """One after the other."""
    expect: tuple[Expect, ...] = ()
    """All of it must hold."""
    dead_letters: tuple[DeadLetters, ...] = ()
    """Expected dead letters; left out: there must be none."""
    timeout: Annotated[Millis, Field(gt=0)] = 60_000
    """How long the flow may take to become quiet."""

    @field_validator("clock")
    @classmethod
    def _fixed(cls, value: int | str) -> int | str:
        if isinstance(value, str):
            raise ValueError("expected a fixed time, as ISO text or unix ms")
        return value

    @property
    def clock_ms(self) -> int:
        return int(self.clock)
