"""expression: computes fields of each record, by a program or by a table of fields to add."""

from __future__ import annotations

from typing import cast

from pydantic import model_validator

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.model.errors import ConfigError
from gauss.model.names import DATA_COLUMN, TS_MS_COLUMN

HIDDEN = (TS_MS_COLUMN, DATA_COLUMN)


class ExpressionConfig(PluginConfig):
    """Computes fields by either `program` or `add`."""

    input: RecordIO
    """The format of the input records."""
    output: RecordIO | None = None
    """The format of the results. Default: the input format."""
    program: str | None = None
    """Stages of the scan language, e.g. `select(.bid > 100) | {symbol, mid: (.bid + .ask) / 2}`; `.ts_ms` is the
    record's time. Arithmetic is in doubles; a decimal that is only copied stays exact. If no stage makes a row, records
    pass unchanged."""
    add: dict[str, str] | None = None
    """Fields to add or replace, e.g. `{ mid = "(.bid + .ask) / 2" }`; other fields are kept. Put a pipe in parentheses:
    `(.symbol | ascii_upcase)`."""

    @model_validator(mode="after")
    def _one_of_them(self) -> ExpressionConfig:
        if (self.program is None) == (not self.add):
            raise ValueError("expected either `program` or `add`")
        return self


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """Faults of the program itself, and fields that the input format does not have."""
    # The grammar's parser is loaded only for a pipeline that has an expression.
    from gauss.plugins.processors.expression.stages import added, made_by, read_by
    from gauss.scan.program.record_stages import stages_of

    assert isinstance(config, ExpressionConfig)
    if config.input.format is None:
        return ['input: expression decodes records, so it needs a format, e.g. input = { format = "json" }']
    faults: list[str] = []
    known = None if context.input_fields is None else {name.removeprefix("$.") for name in context.input_fields}
    for where, text in ({"program": config.program} if config.program else config.add or {}).items():
        place = where if config.program else f"add: {where}"
        try:
            stages = stages_of(text)
            if not config.program:
                added(text)
        except ConfigError as error:
            hint = f"; {error.hint}" if error.hint else ""
            faults.append(f"{place}: {error.message}{hint}")
            continue
        made = made_by(stages)
        if made is None and config.output is not None:
            faults.append(f"{place}: makes no row to write as `output` says: end it with {{ … }}, or use filter")
        faults += [f'{place}: the name "{name}" is taken' for name in made or () if name in HIDDEN]
        faults += [
            f'{place}: the input format has no field "{name}" (it has: {", ".join(sorted(known))})'
            for name in read_by(stages)
            if known is not None and name not in known and name != "ts_ms"
        ]
    return faults


EXAMPLE = """
[[processors]]
name = "expression"
plugin = "expression"
source = { topic = "quotes", read = "offset" }
target = { topic = "mids" }
config = { input = { format = "json" }, program = "select(.bid > 100) | {symbol, mid: (.bid + .ask) / 2}" }
"""

SPEC = ProcessorSpec(
    name="expression",
    summary="computes fields of each record: selects, derives, renames",
    config=ExpressionConfig,
    implementation="gauss.plugins.processors.expression.transform:Expression",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    reads=frozenset({"offset", "latest", "query"}),
    active=True,
    passive_when=("with `add`", lambda config: bool(cast(ExpressionConfig, config).add)),
    hosted=True,
    passes_bytes=True,
    lint=lint,
    example=EXAMPLE,
)
