"""sql: Spark SQL over the view `input`, which holds the decoded fields and `ts_ms`."""

from __future__ import annotations

import re

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where

_STAR = re.compile(r"\bselect\s+(all\s+|distinct\s+)?(\w+\.)?\*", re.IGNORECASE)
_FROM_INPUT = re.compile(r"\bfrom\s+`?input`?\b", re.IGNORECASE)
_LITERALS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)


class SqlConfig(PluginConfig):
    """A query of one's own."""

    input: RecordIO
    """The format of the input records."""
    output: RecordIO | None = None
    """The format of the results. Default: the input format."""
    query: str
    """Spark SQL over the view `input`, e.g. `SELECT symbol, bid * 2 AS double_bid FROM input WHERE bid > 100`.
    It may read only that view and call functions of values: no files, other tables, Java or commands."""


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """What can be seen without Spark's own parser."""
    assert isinstance(config, SqlConfig)
    faults = []
    text = _LITERALS.sub("''", config.query)
    if config.input.format is None:
        faults.append('input: sql decodes records, so it needs a format, e.g. input = { format = "json" }')
    if not _FROM_INPUT.search(text):
        faults.append("query: expected a SELECT over the view `input` (found no FROM input)")
    if context.input_fields is None and _STAR.search(text):
        faults.append(
            "query: SELECT * needs to know the fields: name them in the query, or give the input format `fields`"
        )
    return faults


EXAMPLE = """
[[processors]]
name = "sql"
plugin = "sql"
source = { topic = "quotes", read = "offset" }
target = { topic = "twice" }
config = { input = { format = "json" }, query = "SELECT symbol, bid * 2 AS twice FROM input WHERE bid > 100" }
"""

SPEC = ProcessorSpec(
    name="sql",
    summary="Spark SQL over the view `input`",
    config=SqlConfig,
    implementation="gauss.plugins.processors.sql.transform:Sql",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    reads=frozenset({"offset", "latest", "query"}),
    active=True,
    stateful=None,
    lint=lint,
    example=EXAMPLE,
)
