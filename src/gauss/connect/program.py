"""`transform = { program = … }`: stages of the scan language over the rows of a stream."""

from __future__ import annotations

import pyarrow as pa

from gauss.connect.plan import StreamPlan
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.stream import OPERATION
from gauss.contracts.cursor import Program, Seq
from gauss.model.errors import ConfigError, Rejected
from gauss.scan.program.bound import bind
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
    """A program bound to the columns of a stream. A column that is only copied keeps its type and values exactly."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        """Raises ConnectorError with the position of a fault in the program."""
        try:
            stages = stages_of(text)
            self._bound = bind(Program(Seq(), stages=stages, text=text), arrow_kinds(schema))
        except (ConfigError, Rejected) as error:
            raise ConnectorError.config("BAD_PROGRAM", f"transform: {error.message}", hint=error.hint) from error
        self._copies = copied(stages)
        self.schema: pa.Schema = self(pa.RecordBatch.from_pylist([], schema=schema)).schema
        """Of the resulting rows."""

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        made, indexes = self._bound.run(rows)
        taken = None if indexes is None else pa.array(indexes)

        def original(name: str) -> pa.Array:
            column = rows.column(name)
            return column if taken is None else column.take(taken)

        if self._bound.columns is None:
            return rows if taken is None else rows.take(taken)
        fields = {field.name: (field, made.column(field.name)) for field in made.schema}
        for name, source in self._copies.items():
            fields[name] = rows.schema.field(source).with_name(name), original(source)
        if OPERATION in rows.schema.names and OPERATION not in fields:  # a change stays a change
            fields[OPERATION] = rows.schema.field(OPERATION), original(OPERATION)
        return pa.RecordBatch.from_arrays(
            [column for _, column in fields.values()], schema=pa.schema([field for field, _ in fields.values()])
        )
