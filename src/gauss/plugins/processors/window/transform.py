"""window on Spark."""

from __future__ import annotations

from gauss.plugins.processors.aggregates import aggregates
from gauss.plugins.processors.window.spec import WindowConfig
from gauss.plugins.processors.windowing import Window, Windowed


class Windows(Windowed):
    def __init__(self, config: WindowConfig) -> None:
        window = Window(config.size or 0, config.slide or 0, config.gap or 0)
        time = config.event_time(window.span_ms, window.step_ms)
        super().__init__(config.group_by, aggregates(config.aggregates), window, time)
