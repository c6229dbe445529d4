"""The Spark state of a transform, derived from its logical plan."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from gauss.contracts.format import SourceField
from gauss.stream.driver.planning.reads import QueryRead, ReadRecords
from gauss.stream.driver.planning.refs import FieldRef, encode_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from gauss.contracts.transform import Transform
    from gauss.stream.driver.queries.compile import Design

UNKNOWN = "a plan that could not be made before the types of its fields are known"
"""The state of a plan that depends on undetermined field types. Part of the checkpoint's hash: do not reword."""
_STATEFUL = ("Aggregate", "Distinct", "Deduplicate", "Limit", "Offset", "Tail", "WithState")
"""Parts of the names of logical operators that are stateful in a stream."""
_GUESSES = ("json", "int64", "double")
"""Types tried for a field without a declared type: state rarely depends on it."""
_NUMBERS = re.compile(r"#\d+L?")
"""Expression ids, which differ in every plan."""
_ALL_FIELDS = 10_000


def kept_state(session: SparkSession, design: Design) -> str:
    """The stateful operators of a transform with their keys and types; empty if it is stateless. Equal texts mean equal
    state."""
    made = planned(session, design)
    return UNKNOWN if made is None else state_of(made)


def state_of(made: DataFrame) -> str:
    """The stateful operators in the plan of a transform's result."""
    return "; ".join(_stateful(made._jdf.queryExecution().analyzed()))


def planned(session: SparkSession, design: Design) -> DataFrame | None:
    """The result of a transform on an empty stream with the input's columns. Types that only records show are always
    guessed, so that every run gives the same plan; None if no guess fits."""
    from gauss.stream.driver.queries.compile import result

    for guess in _GUESSES if design.undecided else _GUESSES[:1]:
        fields = [_typed(field, guess) for field in design.traits.fields]
        plan = ReadRecords("", design.processor.name, 0, design.input, encode_fields(fields), start={})
        try:
            return result(session, plan, cast("Transform", design.transform), _no_records(session, plan))
        except AnalysisException:
            if not design.undecided:
                raise
    return None


def _typed(field: SourceField, guess: str) -> FieldRef:
    kind = field.field_type
    return FieldRef(field.name, guess) if kind.name == "auto" else FieldRef(field.name, kind.name, kind.attrs)


def _no_records(session: SparkSession, plan: QueryRead) -> DataFrame:
    columns = from_arrow_schema(plan.schema())
    return (
        session.readStream.format("rate")
        .load()
        .select(*(F.lit(None).cast(each.dataType).alias(each.name) for each in columns))
    )


def _stateful(node: Any) -> list[str]:
    """All stateful operators below a node, as text."""
    children = [node.children().apply(place) for place in range(node.children().size())]
    found = [text for child in children for text in _stateful(child)]
    if not node.isStreaming():
        return found
    name = node.nodeName()
    if name == "Join" and all(child.isStreaming() for child in children):
        # Spark stores whole rows of both sides.
        found.append(" ".join([_text(node), *(child.schema().simpleString() for child in children)]))
    elif "WithState" in name:
        # Their text names every input column of the function; the state depends on the grouping keys only.
        given = children[0].output().take(node.groupingAttributesLen()) if name.startswith("TransformWith") else None
        found.append(f"{name} {_types(node.groupingAttributes() if given is None else given)}")
    elif any(part in name for part in _STATEFUL):
        found.append(f"{_text(node)} {_types(node.references().toSeq())}")
    return found


def _text(node: Any) -> str:
    return _NUMBERS.sub("", node.simpleString(_ALL_FIELDS))


def _types(attributes: Any) -> str:
    each = [attributes.apply(place) for place in range(attributes.size())]
    return ", ".join(sorted(f"{one.name()}: {one.dataType().simpleString()}" for one in each))
