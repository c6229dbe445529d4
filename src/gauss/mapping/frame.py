"""`apply_mapping` for a DataFrame: a table's columns selected from decoded fields."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gauss.contracts.target import TargetSchema, field_type_dict
from gauss.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from gauss.contracts.format import SourceSchema

SOURCE_TYPE = "source_type"
"""The metadata key under which a column keeps the type that it came from, as JSON."""


def map_frame(frame: DataFrame, target: TargetSchema, source: SourceSchema | None = None) -> DataFrame:
    """Only the fields that a column of the target names, under the columns' names and in their order. The type each
    came from stands in the column's metadata: the one that the frame has, else that of `source`. `@ts_ms` is the
    frame's `ts_ms`. Columns without a source, whose values the table makes, are not in the result."""
    from pyspark.sql import functions as F

    known = {field.name: field for field in frame.schema.fields}
    types = {field.name: field.field_type for field in source.fields} if source is not None else {}
    chosen = []
    for column in target.fields:
        if column.source is None:
            continue
        name = "ts_ms" if column.source == "@ts_ms" else column.source
        if name not in known:
            raise ConfigError(
                f'column "{column.name}" reads the field "{name}", which the frame does not have',
                hint=f"it has {', '.join(known)}",
            )
        metadata = dict(known[name].metadata or {})
        if SOURCE_TYPE not in metadata and name in types:
            metadata[SOURCE_TYPE] = json.dumps(field_type_dict(types[name]), sort_keys=True)
        quoted = name.replace("`", "``")
        chosen.append(F.col(f"`{quoted}`").alias(column.name, metadata=metadata))
    return frame.select(*chosen)
