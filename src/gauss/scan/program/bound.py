"""A program bound to a source: type-checked, within the limits and ready to run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from gauss.contracts.cursor import Agg, Capabilities, Output, Program
from gauss.contracts.expression import Kind, Kinds
from gauss.model.errors import ConfigError, Rejected
from gauss.scan.program import arrow
from gauss.scan.program.check import CheckedStages, check_stages
from gauss.scan.program.declared import check_declared
from gauss.scan.program.fault import bounded, fault
from gauss.scan.program.fuel import Cost, FuelCost, Lengths, cost_of


def bind(
    program: Program,
    schema: Kinds | None = None,
    capabilities: Capabilities | None = None,
    known: Kinds | None = None,
) -> Bound:
    """Checks a program against the fields of a source (`None`: kinds are inferred, except for those in `known`) and
    against its capabilities. Raises ConfigError with the position of the fault, Rejected if any row would exceed the
    fuel limits."""
    bounded(program.stages, program.text)
    if capabilities is not None:
        check_declared(program, capabilities)
    decoded, fields = _seen(program, schema)
    checked = check_stages(program.stages, program.text, fields, known)
    if program.output is Output.SCALAR and (checked.columns is None or len(checked.columns) != 1):
        found = "the whole row" if checked.columns is None else ", ".join(checked.columns)
        raise ConfigError(f"the output scalar takes one column, found {found}", hint="end with one: … | .bid")
    bound = Bound(program, checked, decoded if decoded is not None else checked.fields)
    if capabilities is not None:
        most = min(capabilities.max_fuel_item, capabilities.max_fuel_scan)
        if bound.static_cost > most:
            least = bound.static_cost
            raise Rejected(f"each row costs at least {least} fuel units, the limit is {most}", hint="do less per row")
    return bound


def _seen(program: Program, schema: Kinds | None) -> tuple[dict[str, Kind] | None, Kinds | None]:
    """The fields to decode if they differ from those that stages read, and the fields that stages see."""
    if not isinstance(program.view, Agg):
        return None, schema
    decoded: dict[str, Kind] = {}
    seen: dict[str, Kind] = {}
    for name, what, of in program.view.aggregates:
        if what == "count":
            seen[name] = Kind.INT
            continue
        if schema is not None and of not in schema:
            at = _field_at(program.text, of)
            raise fault(program.text, at, f'the source has no field "{of}"', f"it has: {', '.join(schema)}")
        kind = decoded[of] = Kind.NUMBER if schema is None else schema[of]
        able = (Kind.INT, Kind.NUMBER) if what in ("sum", "avg") else (Kind.INT, Kind.NUMBER, Kind.STRING)
        if kind not in able:
            at = _field_at(program.text, of, what)
            raise fault(program.text, at, f"{what} is not defined for .{of}, which is {kind}")
        seen[name] = Kind.NUMBER if what == "avg" else kind
    return decoded, seen


def _field_at(text: str, name: str, what: str = "") -> int:
    """Position of an aggregate's field in the text: unlike stages, views do not store positions."""
    found = re.search(rf"{what}\s*\(\s*(\.{re.escape(name)})\s*\)", text)
    return found.start(1) if found else len(text) - len(text.lstrip())


@dataclass(frozen=True)
class Bound:
    """A checked program with its cost and its compiled form."""

    program: Program
    checked: CheckedStages
    fields: dict[str, Kind]
    """Fields to decode, by dotted path (for `agg`: the aggregated fields). `kinds.DECODED` has their types."""

    @property
    def columns(self) -> dict[str, Kind] | None:
        """Columns of the result. `None` if no stage makes rows: candidates are returned unchanged."""
        return self.checked.columns

    @cached_property
    def cost(self) -> Cost:
        return cost_of(self.program.stages, self.checked.scopes, self.checked.fields)

    @property
    def static_cost(self) -> int:
        """Minimum cost of a candidate: all operations, over empty texts."""
        return self.cost.base

    def toll(self, batch: pa.RecordBatch, data_bytes: Lengths | None = None) -> FuelCost:
        """Fuel of a batch. Check it before `run`, which must not get rows above the limit."""
        return FuelCost(self.cost, batch, data_bytes)

    def run(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, arrow.Indexes | None]:
        """Returns the results for a batch of decoded fields, and the indexes of the kept rows (`None`: all). If
        `columns` is None, the result is the kept rows of the batch."""
        return self._over_columns(batch)

    @cached_property
    def _over_columns(self) -> Callable[[pa.RecordBatch], tuple[pa.RecordBatch, arrow.Indexes | None]]:
        return arrow.compile_stages(self.program.stages, self.checked.scopes, self.checked.fields)
