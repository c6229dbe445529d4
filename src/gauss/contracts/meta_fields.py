"""Fields of a record that its topic has beside the data: the key, headers, partition and offset of a Kafka record."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import Any

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.model.errors import ConfigError

META = {
    "@key": FieldType("string"),
    "@headers": FieldType("json"),
    "@partition": FieldType("int64"),
    "@offset": FieldType("int64"),
}
"""By name; a program reads one as `.["@key"]`, SQL as `` `@key` ``. A single header is `.["@headers"].trace`."""
HEADER = "@headers."
"""Before the name of a single header, which is text."""

_NAMED = re.compile(r"(?<!\w)@(?:key|headers|partition|offset)\b")
_ONE_HEADER = re.compile(r"""["'`]?\]?(?:\.|\[)(?:["'`]([^"'`\]]+)|([\w-]+(?:\.[\w-]+)*))""")
"""What follows `@headers` if one header is meant."""


def meta_type(name: str) -> FieldType:
    """The type of such a field."""
    return FieldType("string") if name.startswith(HEADER) else META[name]


def named_in(config: dict[str, Any]) -> list[str]:
    """The fields that a processor's config names: others are not read."""
    found: dict[str, None] = {}
    for text in _texts(config):
        for match in _NAMED.finditer(text):
            name = match[0]
            if name == "@headers" and (one := _ONE_HEADER.match(text, match.end())):
                name = f"{HEADER}{one[1] or one[2]}"
            found[name] = None
    return list(found)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def with_meta(schema: SourceSchema | None, names: Iterable[str]) -> SourceSchema | None:
    """A format's schema with some of these fields; a format without a schema has any field. A field of the format
    itself takes precedence."""
    if schema is None:
        return None
    known = {field.name.removeprefix("$.") for field in schema.fields}
    more = [SourceField(_path(name), meta_type(name), beside=True) for name in names if name not in known]
    return dataclasses.replace(schema, fields=(*schema.fields, *more))


def marked(fields: Iterable[SourceField], names: Iterable[str], schema: SourceSchema | None) -> list[SourceField]:
    """The fields that a transform reads, with those beside the data marked. Without a schema the transform has given
    them types by their use: raises ConfigError for one that does not fit."""
    if schema is not None:
        return list(fields)
    wanted = set(names)
    return [_marked(field) if field.name.removeprefix("$.") in wanted else field for field in fields]


def _marked(field: SourceField) -> SourceField:
    name = field.name.removeprefix("$.")
    return SourceField(field.name, _used_as(name, field.field_type), beside=True)


def _used_as(name: str, kind: FieldType) -> FieldType:
    own = meta_type(name)
    if kind.name == "auto":
        return own
    is_text = kind.name in ("string", "json")
    if is_text or (own.name == "int64" and kind.name in ("int64", "double")):
        return kind
    raise ConfigError(
        f"{name} is {'text' if own.name != 'int64' else 'a whole number'}, found it used as {kind.name}",
        hint="compare it with a value of its type",
    )


def _path(name: str) -> str:
    return f"$.{name}" if "." in name else name
