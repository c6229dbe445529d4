"""Streams with `transform = { sql = … }`: source and destination are the two ends of a DataFrame."""

from __future__ import annotations

import logging
import threading
import uuid
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from gauss.connect.spark.frames import arrow_schema_of, spark_schema
from gauss.connect.spark.query_ends import END, read_rows, write_rows
from gauss.connect.spark.task import TaskOrder
from gauss.contracts.connector.errors import ConnectorError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INPUT = "input"


def result_of(session: SparkSession, query: str, schema: pa.Schema) -> pa.Schema:
    """The columns that a query makes of rows; raises ConnectorError with Spark's words if it is wrong."""
    rows = session.createDataFrame([], spark_schema(schema))
    return arrow_schema_of(_queried(session, rows, query).schema, schema)


def _queried(session: SparkSession, rows: DataFrame, query: str) -> DataFrame:
    from pyspark.errors import PySparkException

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)  # its words are in the error
    rows.createOrReplaceTempView(INPUT)
    try:
        made = session.sql(query)
        made.schema  # noqa: B018 (analyses the query)
    except PySparkException as error:
        text = str(error).strip().split("\n", 1)[0]
        raise ConnectorError.config("BAD_QUERY", f"transform: {text}", hint="the rows are the view `input`") from error
    return made


def _with_end(session: SparkSession, rows: DataFrame) -> DataFrame:
    """The rows and a last one that tells that none is missing: if what is before a task is lost, its rows just end."""
    from pyspark.sql.functions import lit

    nothing = [lit(None).cast(field.dataType).alias(field.name) for field in rows.schema]
    last = session.range(0, 1, 1, 1).select(*nothing, lit(True).alias(END))
    return rows.withColumn(END, lit(False)).unionAll(last)


class QueryJob:
    """The query of an attempt. Implements `attempt.Job`."""

    def __init__(self, session: SparkSession, order: TaskOrder, query: str) -> None:
        assert order.rows is not None
        parts = len(order.partitions)
        rows = session.range(0, parts, 1, parts).mapInArrow(partial(read_rows, order), spark_schema(order.rows))
        made = _queried(session, rows, query)
        # The rows of an increment are committed at once, with the cursor behind them.
        made = made if order.staged else _with_end(session, made).coalesce(1)
        self._work = made.mapInArrow(partial(write_rows, order), "done int")
        self._context = session.sparkContext
        self._group = f"sync-{uuid.uuid4().hex}"
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="query", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._context.setJobGroup(self._group, "sync", interruptOnCancel=True)
        try:
            self._work.collect()
        except Exception as error:
            self._failure = error

    @property
    def is_active(self) -> bool:
        return self._thread.is_alive()

    def error(self) -> BaseException | None:
        return self._failure

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)
