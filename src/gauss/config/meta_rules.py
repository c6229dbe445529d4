"""Rules about fields that records have beside their data, such as `@key`: only topics in Kafka have them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gauss.config.entries import Entries, Processor
from gauss.config.read_rules import parts_of
from gauss.config.topics import sources_of
from gauss.config.validate import did_you_mean
from gauss.contracts.meta_fields import META, named_in

_IN_PROGRAM = re.compile(r"""\.\[\s*"(@[\w.-]+)"\s*\]|`(@[\w.-]+)`|\(\s*\.?(@[\w.]+)\s*\)""")
"""`.["@key"]` of programs, `` `@key` `` of SQL, `first(.@key)` of aggregates."""
_FIELD_KEYS = re.compile(r"key|fields?|group_by|\w+_(key|field|fields)")
"""Keys of a config whose values are names of fields."""


def judged_meta(processor: Processor, entries: Entries, declared: tuple[str, ...]) -> list[str]:
    """Reports names that start with `@` and that the topic's records do not have. Returns all that were judged, which
    the plugin need not look for in its format. `declared`: the format's own fields."""
    source = processor.definition.source
    if source is None:
        return []
    others = [each.topic for _, each in sources_of(*parts_of(processor))][1:]
    named = named_in(processor.definition.config)
    judged = list(named) if _is_outside(source.topic, entries) else []
    for key, name in _names(processor.definition.config):
        topics = {"join_fields": others, "join_key": [source.topic, *others]}.get(key, [source.topic])
        base = name.partition(".")[0]
        if base in declared or not topics:
            continue
        if base in META:
            judged += [name, *(each for each in named if each.startswith(f"{base}."))]
            inside = [topic for topic in topics if topic in entries.names["topics"] and not _is_outside(topic, entries)]
            if inside:
                processor.scope.add(
                    ("config", key),
                    f'the records of topic "{inside[0]}" have no {base}: only topics in Kafka have it',
                    expected="a field of the format",
                    hint=f'let an expression on the Kafka topic put it into the records, as {{k: .["{base}"], …}}, or '
                    "declare it in the format's fields if it is one",
                )
        elif (near := did_you_mean(base.lower(), META)) and any(_is_outside(topic, entries) for topic in topics):
            judged.append(name)
            processor.scope.add(
                ("config", key),
                f'unknown field "{base}"',
                expected=f"one of {', '.join(META)}",
                hint=f"{near} If records have a field {base}, declare it in the format's fields",
            )
    return judged


def _is_outside(topic: str, entries: Entries) -> bool:
    """Whether the records of a topic have keys, headers and partitions."""
    found = (each.spec for each in entries.topics if each.definition.name == topic)
    return any(spec is not None and spec.task_implementation for spec in found)


def _names(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The names of fields that start with `@`, each once with its key of the config."""
    found = {(key, name): None for key, value in config.items() for name in _inside(key, value)}
    return iter(found)


def _inside(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner, each in value.items():
            yield from _inside(inner, each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _inside(key, each)
    elif isinstance(value, str):
        plain = value.removeprefix("$").removeprefix(".")
        if _FIELD_KEYS.fullmatch(key) and re.fullmatch(r"@[\w.-]+", plain):
            yield plain
        for match in _IN_PROGRAM.finditer(value):
            yield next(filter(None, match.groups()))
