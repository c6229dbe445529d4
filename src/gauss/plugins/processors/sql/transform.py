"""sql on Spark: the query as it is, over a temporary view."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.transform import Schemas, Traits
from gauss.model.errors import ConfigError
from gauss.model.names import DATA_COLUMN, TS_MS_COLUMN
from gauss.plugins.processors.sql.limits import VIEW, items, refuse_forbidden
from gauss.plugins.processors.sql.spec import SqlConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME = "_gauss_ts_ms"
"""The record's time under a name that no query has a reason to use."""

_naming = threading.Lock()
"""A view's name is the session's: of queries that are planned side by side one would read what another is given."""

_SELECT = re.compile(r"^(\s*select\s+(?:all\s+)?)", re.IGNORECASE)


class Sql:
    """Runs `query`; a result that is made row by row keeps its record's time."""

    def __init__(self, config: SqlConfig) -> None:
        self._query = config.query

    def bind(self, schemas: Schemas) -> Traits:
        """The columns that the query names, as Spark's own parser sees them."""
        return Traits(self._fields(schemas.input))

    def _fields(self, schema: SourceSchema | None) -> list[SourceField]:
        found = NamedColumns(self._query)
        if schema is not None:
            names = {name.lower() for name in found.names}
            return [f for f in schema.fields if found.star or _touches(f.name.removeprefix("$.").lower(), names)]
        if found.star:
            raise ConfigError("SELECT * needs to know the fields", hint="name them, or give the input format `fields`")
        return [
            SourceField(f"$.{name}" if "." in name else name, FieldType("auto"))
            for name in found.names
            if name != "ts_ms" and not any(other != name and other.startswith(f"{name}.") for other in found.names)
        ]

    def apply(self, records: DataFrame) -> DataFrame:
        """The query's result; with `_ts_ms` where each of its rows comes from one record."""
        session = records.sparkSession
        with _naming:
            records.drop(DATA_COLUMN).withColumnRenamed(TS_MS_COLUMN, TIME).createOrReplaceTempView(VIEW)
            try:
                return self._result(session)
            finally:
                session.catalog.dropTempView(VIEW)

    def _result(self, session: SparkSession) -> DataFrame:
        parsed(session, self._query)
        result = session.sql(self._query)
        has_time = TIME in result.columns
        if not row_by_row(result):
            return result.drop(TIME) if has_time else result
        if not has_time and _SELECT.match(self._query):
            result, has_time = session.sql(_SELECT.sub(rf"\g<1>{TIME}, ", self._query, count=1)), True
        return result.withColumnRenamed(TIME, TS_MS_COLUMN) if has_time else result


def _touches(field: str, names: set[str]) -> bool:
    """Whether a query names a field, an object that holds it, or something inside it."""
    return any(field == name or field.startswith(f"{name}.") or name.startswith(f"{field}.") for name in names)


def row_by_row(result: DataFrame) -> bool:
    """One projection, with or without a condition, directly over the view: no aggregate, join, union or subquery."""
    node: Any = result._jdf.queryExecution().analyzed()
    projections = 0
    while True:
        kind = node.getClass().getSimpleName()
        if kind == "View" or (kind == "SubqueryAlias" and node.alias().lower() == VIEW):
            return projections == 1
        if kind not in ("Project", "Filter", "SubqueryAlias") or node.children().size() != 1:
            return False
        projections += kind == "Project"
        node = node.children().apply(0)


def parsed(session: SparkSession, query: str) -> Any:
    """The query's plan as it is written; raises ConfigError when it uses what a query may not."""
    plan = session._jsparkSession.sessionState().sqlParser().parsePlan(query)
    refuse_forbidden(plan)
    return plan


class NamedColumns:
    """The dotted names a query reads, without the view's own name or alias; `star` when it takes all."""

    def __init__(self, query: str) -> None:
        from pyspark.sql import SparkSession

        self.names: list[str] = []
        self.star = False
        self._made: set[str] = set()
        self._aliases = {VIEW}
        plan = parsed(SparkSession.active(), query)
        self._find_aliases(plan)
        self._plan(plan)

    def _find_aliases(self, plan: Any) -> None:
        if plan.getClass().getSimpleName() == "SubqueryAlias":
            self._aliases.add(plan.alias().lower())
        for child in items(plan.children()):
            self._find_aliases(child)

    def _plan(self, plan: Any) -> None:
        for child in items(plan.children()):
            self._plan(child)
        for expression in items(plan.expressions()):
            self._expression(expression)

    def _expression(self, node: Any) -> None:
        kind = node.getClass().getSimpleName()
        if kind.startswith("UnresolvedStar"):
            self.star = True
        elif kind == "UnresolvedAttribute":
            parts = [str(part) for part in items(node.nameParts())]
            if len(parts) > 1 and parts[0].lower() in self._aliases:
                parts = parts[1:]
            name = ".".join(parts).removeprefix("$.")
            # A later column of the same SELECT may name an earlier one's alias; that is no field.
            if name not in self.names and name not in self._made:
                self.names.append(name)
        for child in items(node.children()):
            self._expression(child)
        if kind == "Alias":
            self._made.add(str(node.name()))
