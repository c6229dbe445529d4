"""`transform = { program = … }`: stages of the scan language over the rows of a stream."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.connect.plan import StreamPlan
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.stream import OPERATION, Operation
from gauss.contracts.cursor import Program, Seq
from gauss.contracts.expression import Select
from gauss.model.errors import ConfigError, Rejected
from gauss.scan.program.arrow import Indexes
from gauss.scan.program.bound import Bound, bind
from gauss.scan.program.kinds import arrow_kinds
from gauss.scan.program.record_stages import copied, stages_of


def program_of(plan: StreamPlan) -> ProgramTransform | None:
    """The program of a stream, bound to its columns; None if it has none."""
    transform = plan.definition.transform
    if transform is None or transform.program is None:
        return None
    return ProgramTransform(transform.program, plan.schema())


def result_schema(plan: StreamPlan) -> pa.Schema:
    """The columns of a stream's rows, behind its program if it has one."""
    program = program_of(plan)
    return plan.schema() if program is None else program.schema


class ProgramTransform:
    """A program bound to the columns of a stream. A column that is only copied keeps its type and values exactly.

    Of changes (`OPERATION`), a delete always passes: it has no values but those of its key. If they are applied to a
    table, an update of a row that is not selected becomes a delete, so that the table has the selected rows.
    """

    def __init__(self, text: str, schema: pa.Schema) -> None:
        """Raises ConnectorError with the position of a fault in the program."""
        try:
            stages = stages_of(text)
            self._bound = bind(Program(Seq(), stages=stages, text=text), arrow_kinds(schema))
            made = tuple(stage for stage in stages if not isinstance(stage, Select))
            self._unselected = bind(Program(Seq(), stages=made, text=text), arrow_kinds(schema)) if made else None
        except (ConfigError, Rejected) as error:
            raise ConnectorError.config("BAD_PROGRAM", f"transform: {error.message}", hint=error.hint) from error
        self._copies = copied(stages)
        self._selects = len(made) < len(stages)
        self._applied = OPERATION not in schema.names  # a stream whose changes are appended has it as a column
        self.schema: pa.Schema = self(pa.RecordBatch.from_pylist([], schema=schema)).schema
        """Of the resulting rows."""

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self._selects or OPERATION not in rows.schema.names:
            return self._made(rows, self._bound)
        changes = _selected_changes(rows, self._bound.run(rows)[1], applied=self._applied)
        return changes if self._unselected is None else self._made(changes, self._unselected)

    def _made(self, rows: pa.RecordBatch, bound: Bound) -> pa.RecordBatch:
        made, indexes = bound.run(rows)
        taken = None if indexes is None else pa.array(indexes)

        def original(name: str) -> pa.Array:
            column = rows.column(name)
            return column if taken is None else column.take(taken)

        if bound.columns is None:
            return rows if taken is None else rows.take(taken)
        fields = {field.name: (field, made.column(field.name)) for field in made.schema}
        for name, source in self._copies.items():
            fields[name] = rows.schema.field(source).with_name(name), original(source)
        if OPERATION in rows.schema.names and OPERATION not in fields:  # a change stays a change
            fields[OPERATION] = rows.schema.field(OPERATION), original(OPERATION)
        return pa.RecordBatch.from_arrays(
            [column for _, column in fields.values()], schema=pa.schema([field for field, _ in fields.values()])
        )


def _selected_changes(rows: pa.RecordBatch, indexes: Indexes | None, *, applied: bool) -> pa.RecordBatch:
    """The changes that stay if the rows with these indexes are selected (None: all). `applied`: to a table."""
    if indexes is None:
        return rows
    selected = np.zeros(rows.num_rows, bool)
    selected[indexes] = True
    place = rows.schema.get_field_index(OPERATION)
    operations = rows.column(place)
    if applied:
        leaves = pc.and_(pa.array(~selected), pc.equal(operations, Operation.UPDATE.value))
        operations = pc.if_else(leaves, Operation.DELETE.value, operations)
        rows = rows.set_column(place, rows.schema.field(place), operations)
    return rows.filter(pc.or_(pa.array(selected), pc.equal(operations, Operation.DELETE.value)))
