"""`format("gauss")` for a table topic in ClickHouse or Postgres: reads the same rows as `gauss query`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gauss.model.errors import ConfigError
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN
from gauss.model.paths import DataDir
from gauss.stream.child import assignment
from gauss.stream.driver.tasks.reading import engine
from gauss.stream.tables import table_names, table_topic

_OF_RECORDS = ("format", "start", "end")
"""Options that apply to records only."""


class RowsPlan(msgspec.Struct, frozen=True):
    """The table topic that the options name."""

    data_dir: str
    topic: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> RowsPlan | None:
        """The plan of the given options; None if the topic is not a table or the data directory has no run."""
        paths = DataDir(Path(options.get("data_dir", ".gauss")).absolute())
        if not paths.pipeline_json.exists() or options.get("topic") not in table_names(assignment(paths).pipeline):
            return None
        if given := [name for name in _OF_RECORDS if name in options]:
            raise ConfigError(
                f'topic "{options["topic"]}" is a table: option {", ".join(given)} does not apply',
                hint="remove it; filter rows with .where(…)",
            )
        return cls(str(paths.root), options["topic"])

    def schema(self) -> pa.Schema:
        """The table's columns without the two bookkeeping columns of Gauss."""
        given = assignment(DataDir(Path(self.data_dir)))
        found = table_topic(given.pipeline, self.topic, given.base_dir, DataDir(Path(self.data_dir)))
        return pa.schema(
            [column.arrow for column in found.reader.columns if column.name not in (INC_COLUMN, OFFSET_COLUMN)]
        )


class RowsReader(DataSourceReader):
    """Reads all rows as of the time the job runs, in one partition: a table has no offset ranges."""

    def __init__(self, plan: RowsPlan, schema: StructType) -> None:
        self._plan = plan
        self._schema = schema
        must_have(schema, plan.schema().names, f'topic "{plan.topic}"')

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        schema = to_arrow_schema(self._schema, timezone="UTC")
        flight = str(DataDir(Path(self._plan.data_dir)).flight_json)
        for batch in engine(flight).scan(self._plan.topic):
            arrays = [batch.column(field.name).cast(field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def must_have(schema: StructType, names: Sequence[str], where: str, hint: str = "") -> None:
    """Raises ConfigError with the list of columns if the schema asks for others."""
    if strange := [name for name in schema.names if name not in names]:
        raise ConfigError(f"{where} has no column {', '.join(strange)}", hint=hint or f"it has: {', '.join(names)}")
