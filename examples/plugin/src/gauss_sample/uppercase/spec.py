"""uppercase: a string field of each record in capital letters."""

from __future__ import annotations

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where


class UppercaseConfig(PluginConfig):
    input: RecordIO
    """The format in which records are decoded."""
    output: RecordIO
    """The format in which they are written anew."""
    field: str
    """The string field whose letters become capitals."""


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """What only this plugin can know of its config."""
    assert isinstance(config, UppercaseConfig)
    if context.input_fields is None or config.field in context.input_fields:
        return []
    known = ", ".join(context.input_fields)
    return [f'field: the input format has no field "{config.field}" (it has: {known})']


SPEC = ProcessorSpec(
    name="uppercase",
    summary="a string field of each record in capital letters",
    config=UppercaseConfig,
    implementation="gauss_sample.uppercase.transform:Uppercase",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    active=False,
    hosted=True,
    lint=lint,
)
