"""What a transform keeps in Spark's state, told from its logical plan."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from gauss.contracts.format import SourceField
from gauss.stream.driver.plan import FieldRef, ReadPlan, encode_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from gauss.stream.driver.compile import Design

UNKNOWN = "a plan that could not be made before the types of its fields are known"
_STATEFUL = ("Aggregate", "Distinct", "Deduplicate", "Limit", "Offset", "Tail", "WithState")
"""Parts of the names of the logical operators for which Spark keeps state in a stream."""
_GUESSES = ("json", "int64", "double")
"""Types tried for a field that no schema describes: state hardly ever depends on it."""
_NUMBERS = re.compile(r"#\d+L?")
"""Numbers of expressions, others in every plan."""
_ALL_FIELDS = 10_000


def kept_state(session: SparkSession, design: Design) -> str:
    """The stateful operators of a transform, with their keys and types; empty if it keeps nothing. The same text means
    the same state."""
    made = planned(session, design)
    return UNKNOWN if made is None else state_of(made)


def state_of(made: DataFrame) -> str:
    """The same, of the result of a transform."""
    return "; ".join(_stateful(made._jdf.queryExecution().analyzed()))


def planned(session: SparkSession, design: Design) -> DataFrame | None:
    """The result of a transform on a stream that has the input's columns and no records. Types that only records tell
    are always guessed, so that every run says the same; None if no guess fits."""
    from gauss.stream.driver.compile import result

    for guess in _GUESSES if design.undecided else _GUESSES[:1]:
        fields = [_typed(field, guess) for field in design.fields]
        plan = ReadPlan("", design.processor.name, 0, {}, format=design.input, fields=encode_fields(fields))
        try:
            return result(session, plan, design.transform, _no_records(session, plan))
        except AnalysisException:
            if not design.undecided:
                raise
    return None


def _typed(field: SourceField, guess: str) -> FieldRef:
    kind = field.field_type
    return FieldRef(field.name, guess) if kind.name == "auto" else FieldRef(field.name, kind.name, kind.attrs)


def _no_records(session: SparkSession, plan: ReadPlan) -> DataFrame:
    columns = from_arrow_schema(plan.schema())
    return (
        session.readStream.format("rate")
        .load()
        .select(*(F.lit(None).cast(each.dataType).alias(each.name) for each in columns))
    )


def _stateful(node: Any) -> list[str]:
    """Every stateful operator below a node, as text."""
    children = [node.children().apply(place) for place in range(node.children().size())]
    found = [text for child in children for text in _stateful(child)]
    if not node.isStreaming():
        return found
    name = node.nodeName()
    if name == "Join" and all(child.isStreaming() for child in children):
        # Spark keeps whole rows of both sides.
        found.append(" ".join([_text(node), *(child.schema().simpleString() for child in children)]))
    elif "WithState" in name:
        # The text of these names every column that the function is given; the state has its keys and its own columns.
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
