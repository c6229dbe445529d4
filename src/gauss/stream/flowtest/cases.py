"""The config model of a test file, `NAME.test.toml` beside `NAME.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from gauss.config.section import Section
from gauss.config.spec import Moment
from gauss.contracts.plugin import Millis

SUFFIX = ".test.toml"
FIRST_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z, the default start of a case's clock."""

Record = str | dict[str, Any]
"""Text, or a table that the topic's format encodes and decodes; a cell `{ null = true }` is a null."""


class CaseStep(Section):
    """One action: `send`, `advance` or `restart`."""

    send: str | None = None
    """A topic, or a source of the pipeline, which stands for its target topic and framing."""
    records: list[Record] | None = None
    """With `send`: the records, as text or tables."""
    base64: list[str] | None = None
    """With `send`: the records as base64, for any bytes."""
    file: Path | None = None
    """With `send`: a file of records, one per line, or split by the framing of the source that `send` names."""
    format: str | None = None
    """With `send`: the format that encodes tables; default: the topic's format, or that of the processors next to it.
    """
    ts_ms: int | list[int] | None = None
    """With `send`: arrival time, one for all records or one per record; default: the clock of the case. The clock moves
    forward to the latest one."""
    wait: bool = True
    """With `send`: whether the next step waits until these records are processed, so that each `send` is a batch."""
    advance: Annotated[Millis, Field(gt=0)] | None = None
    """Moves the clock forward by this duration."""
    restart: Literal["driver", "engine"] | None = None
    """Kills the process with SIGKILL and waits until it is up again."""


class Expect(Section):
    """The expected content of a topic or table after all steps."""

    topic: str
    """A topic of the pipeline; for a table topic its rows are compared."""
    records: list[Record] | None = None
    """The expected records; text is compared exactly, tables cell by cell."""
    base64: list[str] | None = None
    """The expected records as base64."""
    count: Annotated[int, Field(ge=0)] | None = None
    """The expected number of records only."""
    format: str | None = None
    """The format that decodes the records; default: the topic's format, or that of the processors next to it."""
    ordered: bool = False
    """Whether the order is compared too."""
    exact: bool = False
    """Whether rows must have no other columns; by default other columns are ignored."""


class ExpectedLetters(Section):
    """Expected dead letters; any other dead letter fails the case."""

    count: Annotated[int, Field(gt=0)] = 1
    """Their number."""
    reason: str | None = None
    """Their reason code, as `gauss dlq ls` shows it."""
    processor: str | None = None
    """The processor that rejected the records."""


class Case(Section):
    """One test: its steps and the expected results."""

    name: str
    """The name in the output and for `--case`."""
    clock: Moment = FIRST_MS
    """The start of the clock, as ISO time or unix ms."""
    steps: tuple[CaseStep, ...] = ()
    """The actions, in order."""
    expect: tuple[Expect, ...] = ()
    """The expectations, all of which must be met."""
    dead_letters: tuple[ExpectedLetters, ...] = ()
    """Expected dead letters; default: none."""
    timeout: Annotated[Millis, Field(gt=0)] = 60_000
    """Maximum time until all records are processed."""

    @field_validator("clock")
    @classmethod
    def _fixed(cls, value: int | str) -> int | str:
        if isinstance(value, str):
            raise ValueError("expected a fixed time, as ISO text or unix ms")
        return value

    @property
    def clock_ms(self) -> int:
        return int(self.clock)
