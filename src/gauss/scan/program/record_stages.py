"""Programs that are applied to records one by one, as in processors and syncs: stages without a view."""

from __future__ import annotations

from gauss.contracts.cursor import Seq
from gauss.contracts.expression import Make, Path, Select, Stage
from gauss.model.errors import ConfigError
from gauss.scan.program.parse import parse_scan

Stages = tuple[Stage, ...]


def stages_of(text: str) -> Stages:
    """The stages of a program, which has no view: what is read is the source's affair."""
    program = parse_scan(text)
    if program.view != Seq():
        raise ConfigError("expected stages such as select(…) or { … }, found a view", hint="`source` says what is read")
    return program.stages


def copied(stages: Stages) -> dict[str, str]:
    """The columns that are fields of a record as they are, and which."""
    makes = [stage for stage in stages if not isinstance(stage, Select)]
    if len(makes) != 1 or not isinstance(makes[0], Make):
        return {}
    return {name: expr.name for name, expr in makes[0].columns if isinstance(expr, Path)}
