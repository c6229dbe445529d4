"""window-join: Spark's stream-stream join, of records or of blocks of records in which pairs are found by batch. Each
side has its own watermark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gauss.contracts.format import OTHER, FieldType, SourceField
from gauss.contracts.transform import BesideTraits, Schemas, Traits
from gauss.model.errors import ConfigError
from gauss.model.names import BEAT, DATA_COLUMN, EVENT, EVENT_MS, ORDER, TS_MS_COLUMN
from gauss.plugins.processors.added_fields import Added, Adding
from gauss.plugins.processors.fields import column_name, is_text, path, plain, spark_column
from gauss.plugins.processors.keys import ANY, arrow_texts, check_key, spark_texts
from gauss.plugins.processors.layout import Layout, layout
from gauss.plugins.processors.window_join.spec import WindowJoinConfig

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


class WindowJoin:
    """A `TwoSided` transform."""

    def __init__(self, config: WindowJoinConfig) -> None:
        self._config = config
        self._key = plain(config.join_key)
        self._added: list[Added] | None = None
        self._layout: Layout | None = None
        self._other_key = SourceField("", ANY)
        self._beside_fields: list[SourceField] = []

    def bind(self, schemas: Schemas) -> Traits:
        """Every field that is written and not the other side's, and the key."""
        schema, output, other = schemas.input, schemas.output, schemas.beside
        self._added = Adding(self._config, self._key, other).fields(schema, output)
        reads = {path(self._key): ANY}
        both = [each for each in self._added or () if each.of_both and (schema, output) != (None, None)]
        reads |= {path(each.given): each.field.field_type for each in both}
        self._layout = layout(schema, output, reads, [each.given for each in self._added or ()])
        known = {plain(field.name): field for field in other.fields} if other else {}
        if known and self._key not in known:
            raise ConfigError(
                f'join_key: the format of topic "{self._config.join_topic}" has no field {self._key}',
                hint=f"it has: {', '.join(known)}",
            )
        self._other_key = known.get(self._key, SourceField(path(self._key), ANY))
        check_key(self._key, self._layout.type_of(self._key))
        check_key(self._key, self._other_key.field_type)
        decoded = {plain(field.name): field for field in [self._other_key, *(each.field for each in self._added or ())]}
        self._beside_fields = list(decoded.values())
        merges = self._layout.carries and self._added is None
        # A record may wait for one that happened a window later, on a side that is a window behind.
        time = self._config.event_time(span_ms=2 * self._config.window, step_ms=1)
        beside = BesideTraits(self._beside_fields, self._config.window, merges)
        return replace(self._layout.traits(), time=time, beside=beside)

    def apply_both(self, records: DataFrame, others: DataFrame) -> DataFrame:
        """Every pair, and what met none as `join_type` says."""
        from pyspark.sql import functions as F

        kept = [F.col(f"`{name}`") for name in records.columns if name not in (EVENT, ORDER, "ts_ms")]
        left = records.select(*kept, F.col(EVENT), _matched(self._text(self._kind), "left").alias("_left_key"))
        right = others.select(
            *(spark_column(plain(field.name)).alias(f"_other_{plain(field.name)}") for field in self._beside_fields),
            *(
                F.col(name).alias(f"_other{name}")
                for name in (TS_MS_COLUMN, DATA_COLUMN, BEAT)
                if name in others.columns
            ),
            F.col(EVENT).alias("_other_event"),
            _matched(self._text(self._other_key.field_type), "right").alias("_right_key"),
        )
        near = F.expr(f"INTERVAL {self._config.window / 1000} SECOND")
        met = (
            (F.col("_left_key") == F.col("_right_key"))
            & (F.col("_other_event") >= F.col(EVENT) - near)
            & (F.col("_other_event") <= F.col(EVENT) + near)
        )
        how = {"full": "full_outer"}.get(self._config.join_type, self._config.join_type)
        joined = left.join(right, met, how).withColumns(
            {
                TS_MS_COLUMN: F.greatest(TS_MS_COLUMN, f"_other{TS_MS_COLUMN}"),
                BEAT: F.coalesce(F.col(BEAT), F.col(f"_other{BEAT}")),
            }
        )
        assert self._layout is not None
        return self._layout.spark(joined, self._made(), keep=(BEAT,))

    def matches(self, records: pa.RecordBatch, others: pa.RecordBatch) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Every pair, some at a time."""
        from gauss.plugins.processors.window_join.matching import near_pairs

        keys = arrow_texts(records.column(column_name(records, self._key)), self._kind)
        other_keys = arrow_texts(others.column(column_name(others, self._key)), self._other_key.field_type)
        return near_pairs(keys, records.column(EVENT_MS), other_keys, others.column(EVENT_MS), self._config.window)

    def joined(self, records: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
        """Each record with what the other one gives to it."""
        import pyarrow.compute as pc

        assert self._layout is not None
        times = pc.max_element_wise(records.column(TS_MS_COLUMN), others.column(TS_MS_COLUMN))
        records = records.set_column(records.schema.get_field_index(TS_MS_COLUMN), TS_MS_COLUMN, times)
        if self._added is None:
            return self._layout.arrow(records, {self._whole: others.column(DATA_COLUMN)})
        made = {}
        for each in self._added:
            value = others.column(column_name(others, each.name))
            if self._layout.carries:
                made[each.put()] = value
            elif each.of_both:
                made[each.given] = pc.coalesce(records.column(column_name(records, each.given)), value)
            else:
                made[each.given] = value
        return self._layout.arrow(records, made)

    @property
    def _whole(self) -> str:
        """The column of the other record when all of it is put into the record."""
        return f"{OTHER}{self._config.join_prefix or ''}:{self._key}"

    def _made(self) -> dict[str, Column]:
        """What the other side gives to a pair, or to a record of its own that met none."""
        from pyspark.sql import functions as F

        assert self._layout is not None
        if self._added is None:
            return {self._whole: F.col("_other_data")}
        key = Added(self._key, self._key, self._other_key, of_both=True)
        made: dict[str, Column] = {}
        for each in [key, *self._added]:
            value = F.col(f"`_other_{each.name}`")
            if self._layout.carries:
                made[each.put()] = value
            elif each.name == self._key or each.of_both:
                own = spark_column(each.given)
                made[each.given] = F.coalesce(own, self._as_key(value) if each is key else value)
            else:
                made[each.given] = value
        return made

    def _as_key(self, key: Column) -> Column:
        """The other side's key as the source has its own."""
        if self._kind == self._other_key.field_type:
            return key
        text = spark_texts(key, self._other_key.field_type)
        return text if is_text(self._kind) else text.cast("bigint")

    @property
    def _kind(self) -> FieldType:
        assert self._layout is not None
        return self._layout.type_of(self._key)

    def _text(self, kind: FieldType) -> Column:
        return spark_texts(spark_column(self._key), kind)


def _matched(text: Column, side: str) -> Column:
    """What is compared, never null: Spark drops a null before it has told the time, and lets two of them meet in a
    full join."""
    from pyspark.sql import functions as F

    return F.when(F.col(BEAT), F.lit("beat")).otherwise(F.coalesce(F.concat(F.lit("="), text), F.lit(side)))
