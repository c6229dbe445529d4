"""Programs of an expression: what they read of a record and what they make of it."""

from __future__ import annotations

from gauss.contracts.expression import VALUE, Expr, Make, Path, Select, Stage, Value, expressions, walk
from gauss.model.errors import ConfigError
from gauss.scan.program.record_stages import Stages, stages_of


def added(text: str) -> Expr:
    """The one expression that a field to add is."""
    stages = stages_of(text)
    if len(stages) == 1 and isinstance(stages[0], Value):
        return stages[0].expr
    # Outside of parentheses a bar ends a stage, which who knows jq does not expect of a function.
    only_values = len(stages) > 1 and all(isinstance(stage, Value) for stage in stages)
    hint = f"put it in parentheses: ({text})" if only_values else "select(…) and { … } belong into `program`"
    raise ConfigError(f'expected one expression, found "{text}"', hint=hint)


def made_by(stages: Stages) -> list[str] | None:
    """The columns that come out; None: records stay as they are."""
    for stage in reversed(stages):
        if isinstance(stage, Make):
            return [name for name, _ in stage.columns]
        if not isinstance(stage, Select):
            return [VALUE]
    return None


def read_by(stages: Stages) -> list[str]:
    """The fields of a record that are read; behind the first stage that makes rows, names are columns of those."""
    found: list[str] = []
    for stage in stages:
        found += _paths(stage)
        if not isinstance(stage, Select):
            break
    return list(dict.fromkeys(found))


def only_passed_on(stages: Stages, field: str) -> bool:
    """Whether a field becomes a column as it is, and nothing else is asked of it."""
    makes = [place for place, stage in enumerate(stages) if not isinstance(stage, Select)]
    if len(makes) != 1 or not isinstance(made := stages[makes[0]], Make):
        return False
    copies = [name for name, expr in made.columns if isinstance(expr, Path) and expr.name == field]
    before = [name for stage in stages[: makes[0] + 1] for name in _paths(stage)]
    behind = [name for stage in stages[makes[0] + 1 :] for name in _paths(stage)]
    return before.count(field) == len(copies) and not set(copies) & set(behind)


def _paths(stage: Stage) -> list[str]:
    return [node.name for expr in expressions(stage) for node in walk(expr) if isinstance(node, Path)]
