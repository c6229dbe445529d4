"""The fields that a join adds to a record, from a row of a table or a record of another topic."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field

from gauss.contracts.format import FILL, RAW, FieldType, SourceField, SourceSchema
from gauss.contracts.plugin import PluginConfig
from gauss.model.errors import ConfigError
from gauss.plugins.processors.fields import path, plain
from gauss.plugins.processors.keys import ANY


class JoinedConfig(PluginConfig):
    """Config keys of all joins."""

    join_topic: str
    join_key: str
    join_fields: Annotated[list[str], Field(min_length=1)] | None = None
    join_prefix: Annotated[str, Field(min_length=1)] | None = None


class Added(NamedTuple):
    """A field of the other side, by plain names."""

    name: str
    given: str
    """Its name in the result."""
    field: SourceField
    of_both: bool
    """The record may have a field of that name, and then keeps its own value."""

    def put(self) -> str:
        """Its column if it is merged into the record: set where the record has no such field."""
        return FILL + (RAW if self.field.field_type == ANY else "") + path(self.given)


class Adding:
    """Finds the added fields from a join's config and the schemas of both sides and the output."""

    def __init__(self, config: JoinedConfig, key: str, other: SourceSchema | None) -> None:
        """`key`: that of the other side, `other`: its schema."""
        self._topic, self._names, self._prefix = config.join_topic, config.join_fields, config.join_prefix or ""
        self._key = plain(key)
        self._known = {plain(field.name): field for field in other.fields} if other else {}

    def fields(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[Added] | None:
        """The added fields; None: all that the other side has. Raises ConfigError."""
        carries = schema is None and output is None
        own = {plain(field.name) for field in schema.fields if not field.beside} if schema else set()
        wanted = {plain(field.name): field.field_type for field in output.fields} if output else {}
        names = [plain(name) for name in self._names or ()] or [
            name for name, field in self._known.items() if name != self._key and not field.beside
        ]
        if not names:
            if carries:
                return None
            if schema is None or output is None:
                raise ConfigError(
                    f'which fields of topic "{self._topic}" are added is not known: it has no schema',
                    hint="name them in join_fields, or give its format `fields`",
                )
            names = [name.removeprefix(self._prefix) for name in wanted if name not in own]
        if self._known and (missing := [name for name in names if name not in self._known]):
            raise ConfigError(
                f'join_fields: the format of topic "{self._topic}" has no field {", ".join(missing)}',
                hint=f"it has: {', '.join(self._known)}",
            )
        added = [self._one(name, wanted, carries=carries) for name in names]
        if schema is not None:
            added = [each._replace(of_both=False) for each in added if each.given not in own]
        if output is not None and not self._names:
            added = [each for each in added if each.given in wanted]  # the output says what it takes
        return added

    def _one(self, name: str, wanted: dict[str, FieldType], *, carries: bool) -> Added:
        known, given = self._known.get(name), self._prefix + name
        kind = known.field_type if known is not None else wanted.get(given, ANY)
        if kind == ANY and known is None and not carries:
            raise ConfigError(
                f'of what type "{name}" of topic "{self._topic}" is, is not known',
                hint="give its format or the output's format `fields`",
            )
        return Added(name, given, known or SourceField(path(name), kind), of_both=not self._prefix)
