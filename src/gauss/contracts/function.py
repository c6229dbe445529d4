"""Processors from a function of one's own: a DataFrame in and out, or an Arrow batch in and out."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.model.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class FunctionConfig(PluginConfig):
    """What a function is given."""

    input: RecordIO = Field(default_factory=RecordIO)
    """The format in which records are decoded; left out: the function gets their bytes, as `_data`."""
    output: RecordIO | None = None
    """The format in which the result is written; left out: the input's."""
    fields: list[str] | None = None
    """The fields to decode; left out: all that the input format's schema has."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Passed to the function by name."""


@dataclass(frozen=True, kw_only=True)
class FunctionSpec(ProcessorSpec):
    """A function as a processor; its `implementation` is the name under which the module holds it, this very spec."""

    function: Callable[..., Any]

    def __call__(self, config: FunctionConfig) -> FunctionTransform:
        return FunctionTransform(self.function, config)


class FunctionTransform:
    """Gives the function its fields and `_ts_ms`, the record's time, which rows of the result may keep."""

    def __init__(self, function: Callable[..., Any], config: FunctionConfig) -> None:
        self._function = function
        self._config = config
        self._hidden: list[str] = []

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:  # noqa: ARG002
        """The fields that the config names, or all of the schema's."""
        fields = self._fields(schema)
        self._hidden = ["_data"] if fields else []
        self._hidden += ["ts_ms"] if all(field.name != "ts_ms" for field in fields) else []
        return fields

    def _fields(self, schema: SourceSchema | None) -> list[SourceField]:
        if self._config.input.format is None:
            return []
        if schema is None and self._config.fields is None:
            raise ConfigError(
                f'"{self._function.__name__}" needs to know the fields that it gets',
                hint="name them in `fields`, or give the input format a schema",
            )
        if self._config.fields is None:
            return list(schema.fields) if schema is not None else []
        paths = [f"$.{name}" if "." in name and name[:2] != "$." else name for name in self._config.fields]
        if schema is None:
            return [SourceField(path, FieldType("auto")) for path in paths]
        known = {field.name.removeprefix("$."): field for field in schema.fields}
        if missing := [path for path in paths if path.removeprefix("$.") not in known]:
            raise ConfigError(f"the input format has no field {', '.join(missing)}", hint=f"it has: {', '.join(known)}")
        return [known[path.removeprefix("$.")] for path in paths]

    def apply(self, records: DataFrame) -> DataFrame:
        """What a DataFrame function makes."""
        made: DataFrame = self._function(records.drop(*self._hidden), **self._config.options)
        return made

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """What an Arrow function makes."""
        given = records.drop_columns([name for name in self._hidden if name in records.schema.names])
        made: pa.RecordBatch = self._function(given, **self._config.options)
        return made


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """Fields that the input format does not have."""
    assert isinstance(config, FunctionConfig)
    known = None if context.input_fields is None else {name.removeprefix("$.") for name in context.input_fields}
    return [
        f'fields: the input format has no field "{name}" (it has: {", ".join(sorted(known))})'
        for name in config.fields or []
        if known is not None and name.removeprefix("$.") not in known
    ]


def option_faults(function: Callable[..., Any], options: dict[str, Any]) -> list[str]:
    """Options that the function does not take, that it needs and lacks, or that are of another type than it says."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except (TypeError, ValueError, NameError):  # a type that is imported for the type checker alone has no value
        signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    named = {each.name: each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    takes = ", ".join(named) or "none"
    faults = []
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        for option in (option for option in options if option not in named):
            near = difflib.get_close_matches(option, named, 1)
            meant = f'; did you mean "{near[0]}"?' if near else ""
            faults.append(f'options: "{function.__name__}" takes no option "{option}" (it takes: {takes}){meant}')
    for name, each in named.items():
        if name not in options:
            if each.default is each.empty:
                faults.append(f'options: "{function.__name__}" needs the option "{name}"')
        elif each.annotation in _WORDS and not _is(options[name], each.annotation):
            faults.append(f'options: expected {_WORDS[each.annotation]} for "{name}", found {options[name]!r}')
    return faults


_WORDS: dict[Any, str] = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def _is(value: object, wanted: type) -> bool:
    return type(value) is wanted or (wanted is float and type(value) is int)


def arrow_function(*, active: bool = False) -> Callable[[Callable[..., Any]], FunctionSpec]:
    """For a function of an Arrow batch, which may be cut anywhere: records must not depend on each other. It runs in
    hosted tasks, and no record passes the JVM."""
    return lambda function: _spec(function, active=active, hosted=True)


def dataframe_function(*, active: bool = True) -> Callable[[Callable[..., Any]], FunctionSpec]:
    """For a function of a streaming DataFrame."""
    return lambda function: _spec(function, active=active, hosted=False)


def _spec(function: Callable[..., Any], *, active: bool, hosted: bool) -> FunctionSpec:
    def lint_all(config: PluginConfig, context: LintContext) -> list[str]:
        assert isinstance(config, FunctionConfig)
        return [*lint(config, context), *option_faults(function, config.options)]

    return FunctionSpec(
        name=function.__name__,
        summary=(function.__doc__ or "a function of one's own").partition("\n")[0],
        config=FunctionConfig,
        implementation=f"{function.__module__}:{function.__name__}",
        role=Role.TRANSFORM,
        where=Where.SPARK,
        reads=frozenset({"offset", "latest", "query"}),
        active=active,
        stateful=False if hosted else None,
        hosted=hosted,
        lint=lint_all,
        function=function,
    )
