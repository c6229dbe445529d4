"""A program bound to a source: its kinds are known, its limits kept, and it can run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from gauss.contracts.cursor import Agg, Capabilities, Output, Program
from gauss.model.errors import ConfigError, Rejected
from gauss.scan.program import arrow, python
from gauss.scan.program.check import Checked, check_stages
from gauss.scan.program.declared import check_declared
from gauss.scan.program.fault import bounded, fault
from gauss.scan.program.fuel import Cost, Costs, Lengths, Toll, cost_of
from gauss.scan.program.ir import Kind, Kinds


def bind(
    program: Program,
    schema: Kinds | None = None,
    capabilities: Capabilities | None = None,
    known: Kinds | None = None,
) -> Bound:
    """Checks a program against the fields of a source (None: each is what the program uses it as, but for those that
    are known) and against what the source declares. Raises ConfigError with the place of the fault, Rejected when it
    must cost too much."""
    bounded(program.stages, program.text)
    if capabilities is not None:
        check_declared(program, capabilities)
    decoded, fields = _seen(program, schema)
    checked = check_stages(program.stages, program.text, fields, known)
    if program.output is Output.SCALAR and (checked.columns is None or len(checked.columns) != 1):
        found = "the whole row" if checked.columns is None else ", ".join(checked.columns)
        raise ConfigError(f"scalar output takes one column, found {found}", hint="end with an expression: … | .bid")
    bound = Bound(program, checked, decoded if decoded is not None else checked.fields)
    if capabilities is not None:
        most = min(capabilities.max_fuel_item, capabilities.max_fuel_scan)
        if bound.static_cost > most:
            raise Rejected(f"each row costs at least {bound.static_cost}, allowed are {most}", hint="do less per row")
    return bound


def _seen(program: Program, schema: Kinds | None) -> tuple[dict[str, Kind] | None, Kinds | None]:
    """The fields to decode, if they are not those that stages read, and what the stages see."""
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
    """Where an aggregate names its field: a view has no places of its own, unlike stages."""
    found = re.search(rf"{what}\s*\(\s*(\.{re.escape(name)})\s*\)", text)
    return found.start(1) if found else len(text) - len(text.lstrip())


@dataclass(frozen=True)
class Bound:
    """What an executor needs of a program."""

    program: Program
    checked: Checked
    fields: dict[str, Kind]
    """What to decode of each record, by dotted path (for `agg`: what is aggregated). `kinds.DECODED` names types."""

    @property
    def reads(self) -> dict[str, Kind]:
        """The columns that `run`, `row` and `costs` look at; for `agg` the aggregates, else `fields`."""
        return self.checked.fields

    @property
    def columns(self) -> dict[str, Kind] | None:
        """What comes out; None: no stage makes rows, so the candidates come out as they are."""
        return self.checked.columns

    @cached_property
    def cost(self) -> Cost:
        return cost_of(self.program.stages, self.checked.scopes, self.checked.fields)

    @property
    def static_cost(self) -> int:
        """What each candidate costs at the least: all its operations, over empty texts."""
        return self.cost.base

    def costs(self, batch: pa.RecordBatch, data_bytes: Lengths | None = None) -> Costs:
        """The fuel of each row; known before `run`, which must not see a row above the limit."""
        return self.cost.batch(batch, data_bytes)

    def toll(self, batch: pa.RecordBatch, data_bytes: Lengths | None = None) -> Toll:
        """The fuel of all rows together, and of each when it is asked for."""
        return Toll(self.cost, batch, data_bytes)

    def row_cost(self, row: Mapping[str, Any], data_bytes: int = 0) -> int:
        """The same for one row."""
        return self.cost.row(row, data_bytes)

    def run(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, arrow.Indexes | None]:
        """The results for a batch that has the decoded fields among its columns, and the indexes of the rows kept;
        None: all of them. When `columns` is None the result is the kept rows of the batch."""
        return self._over_columns(batch)

    def row(self, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The same for one row of decoded fields, keyed by dotted path; None: it is dropped."""
        return self._over_row(row)

    def result_schema(self, fields: pa.Schema) -> pa.Schema:
        """The columns that come out of batches with these."""
        nothing = pa.RecordBatch.from_arrays([pa.nulls(0, entry.type) for entry in fields], schema=fields)
        return self._over_columns(nothing)[0].schema

    @cached_property
    def _over_columns(self) -> Callable[[pa.RecordBatch], tuple[pa.RecordBatch, arrow.Indexes | None]]:
        return arrow.compile_stages(self.program.stages, self.checked.scopes, self.checked.fields)

    @cached_property
    def _over_row(self) -> Callable[[python.Row], python.Row | None]:
        return python.compile_stages(self.program.stages, self.checked.scopes)
