"""Faults that several processors find in the same way; light enough for `gauss check`."""

from __future__ import annotations

from collections.abc import Iterable

from gauss.contracts.io import RecordIO
from gauss.contracts.processor import LintContext


def needs_format(plugin: str, given: RecordIO) -> list[str]:
    """A processor that looks inside records must know their format."""
    if given.format is not None:
        return []
    return [f'input: {plugin} decodes records, so it needs a format, e.g. input = {{ format = "json" }}']


def unknown_fields(key: str, names: Iterable[str], context: LintContext) -> list[str]:
    """Fields that the input format does not have, if it says which it has."""
    if context.input_fields is None:
        return []
    known = {name.removeprefix("$.") for name in context.input_fields}
    return [
        f'{key}: the input format has no field "{name}" (it has: {", ".join(sorted(known))})'
        for name in names
        if name.removeprefix("$.") not in known
    ]
