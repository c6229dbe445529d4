"""window: aggregates per key over tumbling, sliding or session windows."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, Partials, ProcessorSpec, Role, Where
from gauss.contracts.time import TimeConfig
from gauss.plugins.processors.aggregates import Aggregates
from gauss.plugins.processors.aggregator.spec import Stretch, lint_fields
from gauss.plugins.processors.lints import needs_format

USES = {"tumbling": ("size",), "sliding": ("size", "slide"), "session": ("gap",)}


class WindowConfig(TimeConfig):
    """The windows and their aggregates."""

    input: RecordIO
    """The format of the input records."""
    output: RecordIO | None = None
    """The format of the results. Default: the input format."""
    type: Literal["tumbling", "sliding", "session"]
    """`tumbling`: consecutive windows of `size`; `sliding`: windows of `size` that start every `slide`; `session`: a
    window lasts while records of a key follow each other within `gap`."""
    size: Stretch | None = None
    """Length of a tumbling or sliding window, e.g. `1m`; windows start at multiples since 1970."""
    slide: Stretch | None = None
    """Distance between the starts of sliding windows; at most `size`."""
    gap: Stretch | None = None
    """Maximum time between records of a session."""
    group_by: tuple[str, ...] = ()
    """Fields to group by; each group has its own windows. A missing field counts as null. Default: one group."""
    aggregates: Aggregates
    """Columns of the result, e.g. `{ high = "max(.bid)", quotes = "count()" }`; using count, sum, min, max, avg,
    first and last. All but first and last ignore null; the sum of no values is null. A result also has `window_start`
    and `window_end` in ms; a session ends `gap` after its last record."""

    @model_validator(mode="after")
    def _fits_its_type(self) -> WindowConfig:
        for key in ("size", "slide", "gap"):
            given, used = getattr(self, key) is not None, key in USES[self.type]
            if given != used:
                problem = f"needs `{key}`" if used else f"takes no `{key}`"
                raise PydanticCustomError("window_shape", f"a {self.type} window {problem}", {"key": key})
        if self.size and self.slide and not self.size // 1000 <= self.slide <= self.size:
            problem = "expected `slide` between a thousandth of `size` and all of it"
            raise PydanticCustomError("window_slide", problem, {"key": "slide"})
        return self


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """Fields that are not there, and columns that would be there twice."""
    assert isinstance(config, WindowConfig)
    return needs_format("window", config.input) + lint_fields(config, config.group_by, config.aggregates, context)


EXAMPLE = """
[[processors]]
name = "window"
plugin = "window"
source = { topic = "clicks", read = "offset" }
target = { topic = "visits" }

[processors.config]
input = { format = "json" }
type = "session"
gap = "30m"
group_by = ["user"]
aggregates = { clicks = "count()", entered = "first(.page)" }
"""

SPEC = ProcessorSpec(
    name="window",
    summary="aggregates per key over tumbling, sliding or session windows",
    config=WindowConfig,
    implementation="gauss.plugins.processors.window.transform:Windows",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    active=True,
    stateful=True,
    partials=Partials.GROUPS,
    lint=lint,
    example=EXAMPLE,
)
