"""The mapping of a pipeline: which field of a record fills which column."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from gauss.clients.clickhouse.known import is_type
from gauss.clients.clickhouse.types import parse_type, render_type
from gauss.contracts.format import FieldType
from gauss.contracts.target import as_field_type
from gauss.model.errors import ConfigError
from gauss.model.names import is_internal

Encoding = Literal["iso", "s", "ms", "us", "ns", "json"]
MOST_COLUMNS = 5_000


def _clickhouse_type(text: str) -> str:
    try:
        check_type(parse_type(text))
    except (ConfigError, ValueError, KeyError) as error:
        message = error.message if isinstance(error, ConfigError) else str(error)
        raise ValueError(f"{text!r} is not a ClickHouse type: {message}") from None
    return text


def check_type(kind: FieldType) -> None:
    """Raises ConfigError for a type that ClickHouse does not have, also inside of another."""
    if not is_type(kind.name):
        raise ConfigError(f'there is no type "{kind.name}"')
    render_type(kind)
    for word in ("inner", "element", "key", "value"):
        if word in kind.attrs:
            check_type(as_field_type(kind.attrs[word]))


class MappingColumn(BaseModel):
    """A column of the table and the field that fills it."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    field_path: Annotated[str, Field(min_length=1, max_length=1_000)]
    """The field: a name, or names joined by dots; `items[*].sku` for a member of every element of an array."""
    column: Annotated[str, Field(min_length=1, max_length=200)]
    """The column."""
    type: Annotated[str, Field(max_length=1_000), AfterValidator(_clickhouse_type)]
    """The type of the column in ClickHouse, without `Nullable`."""
    nullable: bool = False
    """Whether the column takes null, which a missing field is too. Otherwise such a record is a dead letter."""
    encoding: Encoding | None = None
    """How the field has its value: a time as ISO text or as a number of seconds to nanoseconds since 1970, or any value
    as JSON text. Default: `iso` for times, else the value as it is."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if is_internal(self.column):
            raise PydanticCustomError("column", "column names that begin with _ and are reserved can't be used")
        name = parse_type(self.type).name
        if self.nullable and name in ("Nullable", "LowCardinality") and "Nullable" in self.type:
            raise PydanticCustomError("nullable", "write the type without Nullable, and nullable = true")
        if self.encoding in ("s", "ms", "us", "ns", "iso") and not name.startswith("DateTime"):
            raise PydanticCustomError("encoding", "an encoding of times needs the type DateTime or DateTime64")
        return self

    @property
    def column_type(self) -> FieldType:
        """The type of the column, with its nulls. ClickHouse has no nullable arrays: a missing one is empty."""
        kind = parse_type(self.type)
        if not self.nullable or kind.name in ("Array", "Map", "Tuple", "Nullable", "Variant", "Dynamic", "JSON"):
            return kind
        if kind.name == "LowCardinality":
            return FieldType("LowCardinality", {"inner": FieldType("Nullable", {"inner": kind.attrs["inner"]})})
        return FieldType("Nullable", {"inner": kind})


class Mapping(BaseModel):
    """The columns of a table, and how it is made if it is missing."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    columns: Annotated[list[MappingColumn], Field(max_length=MOST_COLUMNS)]
    """The columns, in the order of the table."""
    engine: Annotated[str, Field(max_length=1_000)] = "MergeTree"
    """The engine of a table that is made."""
    order_by: Annotated[list[str], Field(max_length=100)] = []
    """The sorting key of a table that is made. Default: none."""
    partition_by: Annotated[str, Field(max_length=1_000)] | None = None
    """The partition key of a table that is made."""
    ttl: Annotated[str, Field(max_length=1_000)] | None = None
    """When rows of a table that is made are deleted, such as `created + INTERVAL 90 DAY`. Default: never."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        seen: set[str] = set()
        for each in self.columns:
            if each.column in seen:
                raise PydanticCustomError("column", "two fields fill the column {name}", {"name": repr(each.column)})
            seen.add(each.column)
        return self
