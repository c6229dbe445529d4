"""Checks of transforms that only Spark can analyze: SQL and DataFrame functions are planned on empty streams."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gauss.config.spec import Pipeline, ProcessorDef, SparkSection
from gauss.config.validate import did_you_mean
from gauss.contracts.processor import ProcessorSpec, Role, Where
from gauss.contracts.storage import TopicKind
from gauss.model.errors import ConfigError, GaussError
from gauss.model.paths import DataDir
from gauss.registry import spec
from gauss.stream.graph import Graph

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Verdict:
    """Spark's analysis of a transform."""

    processor: str
    refusal: GaussError | None = None
    state: str = ""
    """Its state, as described by `state_plan.py`; empty if it is stateless."""


def needing_spark(pipeline: Pipeline, graph: Graph) -> list[ProcessorDef]:
    """The transforms that only Spark can plan: SQL and DataFrame functions. Transforms that read a table are left out,
    because the schema of its rows is unknown before the table is read."""

    def only_spark_tells(entry: ProcessorDef) -> bool:
        found, node = spec(ProcessorSpec, entry.plugin), graph.processors[entry.name]
        on_spark = found.role is Role.TRANSFORM and found.where is Where.SPARK
        reads_table = any(graph.topics[reading.topic].kind is TopicKind.STORED_TABLE for reading in node.sources)
        return on_spark and not found.hosted and not found.stateful and not reads_table

    return [entry for entry in pipeline.processors if only_spark_tells(entry)]


def verdicts(pipeline: Pipeline, entries: list[ProcessorDef], data_dir: DataDir) -> Iterator[Verdict]:
    """Whether each transform can run on a stream. Starts Spark in a temporary directory and stops it afterwards."""
    with _spark(data_dir) as session:
        for entry in entries:
            try:
                yield Verdict(entry.name, state=_state(session, pipeline, entry))
            except GaussError as error:
                yield Verdict(entry.name, error)


def _state(session: SparkSession, pipeline: Pipeline, entry: ProcessorDef) -> str:
    """The state of a transform; raises GaussError if Spark rejects it."""
    from pyspark.errors import AnalysisException

    from gauss.stream.driver.errors import sentence
    from gauss.stream.driver.queries.compile import design
    from gauss.stream.driver.queries.state_plan import UNKNOWN, planned, state_of

    try:
        made = planned(session, design(pipeline, entry))
        if made is None:
            return UNKNOWN
        spark: Any = session._jvm.org.apache.spark.sql  # type: ignore[union-attr]
        checker, mode = spark.catalyst.analysis.UnsupportedOperationChecker, spark.streaming.OutputMode.Append()
        checker.checkForStreaming(made._jdf.queryExecution().analyzed(), mode)
        return state_of(made)
    except GaussError:
        raise
    except AnalysisException as error:
        raise _config_error(error, pipeline, entry) from error
    except Exception as error:  # a user's function may raise anything
        raise ConfigError(f"its function failed: {type(error).__name__}: {sentence(error)}") from error


def _config_error(error: AnalysisException, pipeline: Pipeline, entry: ProcessorDef) -> ConfigError:
    """Spark's analysis error as ConfigError. For an unknown column, the hint lists the fields of the input: Spark's
    message knows only the columns that the query names."""
    from gauss.stream.driver.errors import refusal, sentence
    from gauss.stream.driver.planning.refs import transform_ref

    if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
        name = (error.getMessageParameters() or {}).get("objectName", "").replace("`", "")
        read = transform_ref(pipeline, entry).input
        schema = read.build().schema() if read is not None else None
        known = [field.name.removeprefix("$.") for field in schema.fields] if schema is not None else []
        hint = did_you_mean(name, known) or (f"it has: {', '.join(known)}" if known else "")
        return ConfigError(f'the input has no field "{name}"', hint=hint)
    message, hint = refusal(error) or (sentence(error).partition(" SQLSTATE")[0].rstrip(";"), "")
    return ConfigError(message, hint=hint)


@contextmanager
def _spark(data_dir: DataDir) -> Iterator[SparkSession]:
    from gauss.spark import session as sessions

    # Spark would log each refusal with its trace.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    with tempfile.TemporaryDirectory(prefix="gauss-check-") as folder:
        own = DataDir(Path(folder))
        for each in (own.run, own.logs, own.cache):
            each.mkdir(parents=True, exist_ok=True)
        if data_dir.cache.is_dir():  # the cache of earlier runs makes the start faster
            os.environ.setdefault("GAUSS_CACHE_DIR", str(data_dir.cache))
        spark = sessions.start(SparkSection(master="local[1]"), own)
        try:
            yield spark.session
        finally:
            spark.stop()
