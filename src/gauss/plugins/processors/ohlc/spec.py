"""ohlc: candles (open, high, low, close, volume) per key, for several intervals at once."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
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
    """Which candles. Each is `{ts_ms, <key_field>, interval, open, high, low, close, volume}`; `ts_ms` is where its
    interval begins, and it is written once that is closed."""

    input: RecordIO
    """The format in which records are decoded."""
    output: RecordIO | None = None
    """The format in which candles are written; left out: the input's."""
    intervals: Annotated[tuple[Interval, ...], Field(min_length=1)]
    """How long candles are, e.g. `["1m", "5m", "1h"]`; intervals begin at multiples since 1970, and a candle has its
    own as it is written here."""
    key_field: str = "symbol"
    """The field by which candles are told apart. A record without it becomes a dead letter."""
    price_field: str = "bid"
    """The field with the price. A record without it becomes a dead letter."""
    volume_field: str | None = None
    """The field whose sum is the volume; left out: the number of records."""
    state_topic: str | None = None
    """A topic for the open candles, so that they outlive a lost checkpoint: a memory table by `window_key`, from which
    a closed candle is removed, or a file topic. It changes together with the target."""
    state_format: str | None = None
    """The format of its records; left out: json."""

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
    lint=lint,
    state=_state,
    example=EXAMPLE,
)
