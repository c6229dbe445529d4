"""Specs of processors: sources, transforms and sinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from gauss.contracts.plugin import PluginConfig, PluginSpec


class Role(StrEnum):
    SOURCE = "source"
    TRANSFORM = "transform"
    SINK = "sink"


class Where(StrEnum):
    ENGINE = "engine"
    SPARK = "spark"
    EITHER = "either"  # Spark if it reads the rows of a table, else the engine


class Partials(StrEnum):
    """How readers pre-aggregate records before Spark gets them."""

    NONE = "none"  # readers pass records unchanged
    RECORDS = "records"  # one row per record, or per first of equal records
    GROUPS = "groups"  # one row per group


@dataclass(frozen=True, kw_only=True)
class ProcessorSpec(PluginSpec):
    """A source or sink: `implementation(context)` returns an `Edge`. A transform: `implementation(config)` returns
    an `ArrowTransform` (`hosted`), a `Transform` (other transforms on Spark) or an `EngineTransform`."""

    KIND: ClassVar[str] = "processor"

    role: Role
    where: Where
    active: bool
    """Changes the number of records."""
    passive_when: tuple[str, Callable[[PluginConfig], bool]] | None = None
    """For an active processor: the configs with which it writes one record per input record, as text and as a test."""
    stateful: bool | None = False
    """`None`: unknown until Spark has planned its query."""
    state_layout: int = 1
    """Incremented when the layout of its state in Spark changes, so that older checkpoints are not reused."""
    keeps_order: bool = True
    hosted: bool = False
    """Whether its transform is an `ArrowTransform`, which runs in a standing task, without the JVM."""
    partials: Partials = Partials.NONE
    """Unless NONE, its transform is a `PartialTransform`."""
    passes_bytes: bool = False
    """Whether a hosted transform passes records on unchanged where its result has `_data`: in order, each at most once,
    with their `_row`."""
    engine_implementation: str = ""
    """For a transform with `where = EITHER`: its `EngineTransform`; `implementation` is the transform on Spark."""
    reads: frozenset[str] = frozenset({"offset"})
    """Supported read modes, as values of ReadMode."""
    framed: str = ""
    """`input` or `output`: the side that is a byte stream and must name a framing."""
    raw_implementation: str = ""
    """Used instead of `implementation` with `mode = "passthrough"`: called with a `RawContext`, it moves bytes
    unchanged, so no framing is named and a source needs no target."""
    same_bytes: bool = False
    """Records are written unchanged, so the target's records have the source's format."""
    conversion: str = ""
    """For a sink: converts records if its `output.format` is not the topic's; called with the two formats."""
    own_side: str = ""
    """`source` or `target`: the side whose topics its config names; the processor then has no key of that name."""
    topics: Callable[[PluginConfig], list[tuple[tuple[str | int, ...], str]]] | None = None
    """The topics of `own_side`, each with its place in the config. Sources are read by `offset`."""
    beside: Callable[[PluginConfig], list[tuple[tuple[str | int, ...], str]]] | None = None
    """Topics that it reads by `offset` beside its `source`, each with its place in the config; its transform is then a
    `TwoSided`."""
    blocks_ms: Callable[[PluginConfig], int] | None = None
    """For a `TwoSided` transform: the time slot of the blocks with its pairs; 0: Spark joins single records."""
    tables: Callable[[PluginConfig], list[tuple[tuple[str | int, ...], str]]] | None = None
    """Tables in which it looks rows up, each with its place in the config. The version of each is part of a batch's
    offsets; its transform is then a `TableTransform`."""
    state: Callable[[PluginConfig], str | None] | None = None
    """The topic that also holds its state, if its config names one; its transform is then a `KeptTransform`."""
    codecs: Callable[[PluginConfig], dict[str, tuple[str, dict[str, Any]]]] | None = None
    """Formats used if its config names none: `input` or `output` → a format plugin and its config."""
    example: str = ""
    """Its `[[processors]]` entry as TOML, for the reference; the tests check it."""
    lint: Callable[[PluginConfig, LintContext], list[str]] | None = None
    """Processor-specific checks of the config, run by `gauss check`."""

    def is_active(self, config: PluginConfig) -> bool:
        """Whether it changes the number of records with this config."""
        return self.active and not (self.passive_when is not None and self.passive_when[1](config))

    def block_slot_ms(self, config: PluginConfig) -> int:
        """The time slot of its blocks with this config; 0: it has no blocks."""
        return self.blocks_ms(config) if self.blocks_ms is not None else 0

    def is_raw(self, config: Mapping[str, Any]) -> bool:
        """Whether it moves bytes unchanged with this config, given as written."""
        return bool(self.raw_implementation) and config.get("mode") == "passthrough"


@dataclass(frozen=True)
class LintContext:
    """Arguments of a processor's `lint`."""

    input_fields: tuple[str, ...] | None
    """Fields of the input format. `None` if it has no schema."""
    read: str = ""
    """The read mode of its source."""
    start: str | int | None = None
    """`source.start`, if it is set."""
    target_storage: str = ""
    """The storage of the topic it writes."""
    target_config: Mapping[str, Any] = field(default_factory=dict)
    """The config of that storage, as written."""
    has_target: bool = False
    """Whether it names a target, even if that topic does not exist."""
