"""aggregator on Spark: a tumbling window."""

from __future__ import annotations

from gauss.plugins.processors.aggregates import aggregates
from gauss.plugins.processors.aggregator.spec import AggregatorConfig
from gauss.plugins.processors.windowing import Window, Windowed


class Aggregator(Windowed):
    def __init__(self, config: AggregatorConfig) -> None:
        window = Window(config.interval)
        time = config.event_time(window.span_ms, window.step_ms)
        super().__init__(config.group_by, aggregates(config.aggregates), window, time)
