"""Differences between two versions of a pipeline's config, without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gauss.fleet.store.configs import Config, Kind

MASK = "********"
"""Shown in place of a secret."""


class ConfigDifference(NamedTuple):
    """One value that differs; None where a version has none."""

    path: str
    before: Any
    after: Any


def differences(before: Mapping[Kind, Config], after: Mapping[Kind, Config]) -> list[ConfigDifference]:
    """The values that differ, by path. Of secrets only that they differ."""
    old, new = dict(_values(before)), dict(_values(after))
    found = []
    for path in sorted({*old, *new}):
        secret, was = old.get(path, (False, None))
        is_secret, now = new.get(path, (False, None))
        if was != now:
            found.append(ConfigDifference(path, _shown(was, secret), _shown(now, is_secret)))
    return found


def _shown(value: Any, secret: bool) -> Any:
    return MASK if secret and value is not None else value


def _values(configs: Mapping[Kind, Config]) -> Iterator[tuple[str, tuple[bool, Any]]]:
    for kind, config in configs.items():
        for path, value in _leaves(config.document, str(kind)):
            yield path, (False, value)
        for name, secret in config.secrets.items():
            yield f"{kind}.{name}", (True, secret)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            name = inner.get("column", index) if isinstance(inner, dict) else index
            yield from _leaves(inner, f"{path}[{name}]")
    else:
        yield path, value
