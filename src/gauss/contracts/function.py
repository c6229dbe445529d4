"""Processors from user functions, on Arrow batches or on streaming DataFrames."""

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
from gauss.contracts.transform import Schemas, Traits
from gauss.model.errors import ConfigError
from gauss.model.names import DATA_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class FunctionConfig(PluginConfig):
    """Config of a function processor."""

    input: RecordIO = Field(default_factory=RecordIO)
    """Format of the input records. Default: the function gets their bytes, as `_data`."""
    output: RecordIO | None = None
    """The format of the results. Default: the input format."""
    fields: list[str] | None = None
    """Fields to decode. Default: all fields of the input format's schema."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the function."""


@dataclass(frozen=True, kw_only=True)
class FunctionSpec(ProcessorSpec):
    """Spec of a function processor. Its `implementation` is the module attribute that holds this spec."""

    function: Callable[..., Any]

    def __call__(self, config: FunctionConfig) -> ArrowFunction | DataFrameFunction:
        made = ArrowFunction if self.hosted else DataFrameFunction
        return made(self.function, config)


class FunctionTransform:
    """Base of both kinds of functions. They get their fields and `_ts_ms` (the record's time), which the result may
    contain."""

    def __init__(self, function: Callable[..., Any], config: FunctionConfig) -> None:
        self._function = function
        self._config = config
        self._hidden: list[str] = []

    def bind(self, schemas: Schemas) -> Traits:
        """The fields of the config, or all of the schema."""
        fields = self._fields(schemas.input)
        self._hidden = [DATA_COLUMN] if fields else []
        self._hidden += ["ts_ms"] if all(field.name != "ts_ms" for field in fields) else []
        return Traits(fields)

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


class DataFrameFunction(FunctionTransform):
    """A function of a streaming DataFrame as a `Transform`."""

    def apply(self, records: DataFrame) -> DataFrame:
        """The function's result."""
        made: DataFrame = self._function(records.drop(*self._hidden), **self._config.options)
        return made


class ArrowFunction(FunctionTransform):
    """A function of an Arrow batch as an `ArrowTransform`."""

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The function's result."""
        given = records.drop_columns([name for name in self._hidden if name in records.schema.names])
        made: pa.RecordBatch = self._function(given, **self._config.options)
        return made


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """Reports fields that the input format lacks."""
    assert isinstance(config, FunctionConfig)
    known = None if context.input_fields is None else {name.removeprefix("$.") for name in context.input_fields}
    return [
        f'fields: the input format has no field "{name}" (it has: {", ".join(sorted(known))})'
        for name in config.fields or []
        if known is not None and name.removeprefix("$.") not in known
    ]


def option_faults(function: Callable[..., Any], options: dict[str, Any]) -> list[str]:
    """Reports options that are unknown, missing, or not of the type in the function's signature."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except (TypeError, ValueError, NameError):  # a type imported under TYPE_CHECKING is not available
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
    """Makes a processor from a function on Arrow batches. It runs in hosted tasks, without the JVM. The result for a
    record must not depend on other records, since batches are cut anywhere."""
    return lambda function: _spec(function, active=active, hosted=True)


def dataframe_function(*, active: bool = True) -> Callable[[Callable[..., Any]], FunctionSpec]:
    """Makes a processor from a function on streaming DataFrames."""
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
