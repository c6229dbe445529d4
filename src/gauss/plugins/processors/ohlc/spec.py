"""ohlc: candles (open, high, low, close, volume) per key, for several intervals at once."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, Partials, ProcessorSpec, Role, Where
from gauss.contracts.time import TimeConfig
from gauss.model.units import duration_ms
from gauss.plugins.processors.aggregates import output_name
from gauss.plugins.processors.lints import needs_format, unknown_fields

CANDLE = ("ts_ms", "interval", "open", "high", "low", "close", "volume")


def _judged(text: str) -> str:
    if duration_ms(text) <= 0:
        raise ValueError("expected more than 0")
    return text


Interval = Annotated[str, AfterValidator(_judged)]


class OhlcConfig(TimeConfig):
    """Computes candles `{ts_ms, <key_field>, interval, open, high, low, close, volume}`. `ts_ms` is the start of the
    interval; a candle is emitted when the watermark reaches its end."""

    input: RecordIO
    """The format of the input records."""
    output: RecordIO | None = None
    """The format of the candles. Default: the input format."""
    intervals: Annotated[tuple[Interval, ...], Field(min_length=1)]
    """Lengths of the candles, e.g. `["1m", "5m", "1h"]`; intervals start at multiples since 1970. The field `interval`
    has the text given here."""
    key_field: str = "symbol"
    """The key of the candles. A record without it becomes a dead letter."""
    price_field: str = "bid"
    """The field with the price. A record without it becomes a dead letter."""
    volume_field: str | None = None
    """The field whose sum is the volume. Default: the number of records."""
    state_topic: str | None = None
    """A topic that stores the open candles, so that they survive a lost checkpoint: a memory table with the key
    `window_key`, or a file topic. It is published together with the target."""
    state_format: str | None = None
    """The format of `state_topic`. Default: json."""

    @model_validator(mode="after")
    def _each_once(self) -> OhlcConfig:
        lengths = [duration_ms(text) for text in self.intervals]
        if len(set(lengths)) < len(lengths):
            raise PydanticCustomError("ohlc", "expected each interval once", {"key": "intervals"})
        if self.state_format is not None and self.state_topic is None:
            problem = "`state_format` needs `state_topic`, whose records it describes"
            raise PydanticCustomError("ohlc", problem, {"key": "state_format"})
        return self


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """Fields that are not there, and a key that would be a candle's own column."""
    assert isinstance(config, OhlcConfig)
    faults = needs_format("ohlc", config.input)
    for key in ("key_field", "price_field", "volume_field", "event_time_field"):
        if (name := getattr(config, key)) is not None:
            faults += unknown_fields(key, [name.removeprefix(".")], context)
    if output_name(config.key_field) in CANDLE:
        faults.append(f'key_field: "{output_name(config.key_field)}" is a column that every candle has')
    return faults


def _state(config: PluginConfig) -> str | None:
    assert isinstance(config, OhlcConfig)
    return config.state_topic


EXAMPLE = """
[[processors]]
name = "ohlc"
plugin = "ohlc"
source = { topic = "quotes", read = "offset" }
target = { topic = "candles" }
config = { input = { format = "json" }, intervals = ["1m", "5m"], key_field = "symbol", price_field = "bid" }
"""

SPEC = ProcessorSpec(
    name="ohlc",
    summary="candles (open, high, low, close, volume) per key, for several intervals at once",
    config=OhlcConfig,
    implementation="gauss.plugins.processors.ohlc.transform:Ohlc",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    active=True,
    stateful=True,
    partials=Partials.GROUPS,
    lint=lint,
    state=_state,
    example=EXAMPLE,
)
