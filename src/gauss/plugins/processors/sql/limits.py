"""What a query of the sql processor may read and call: the view `input`, and functions of values alone.

The plan is judged as Spark's parser gives it, before anything is analysed: some statements are carried out as soon as
they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gauss.model.errors import ConfigError

VIEW = "input"

_QUERY_NODES = frozenset(
    {
        *("Aggregate", "AsOfJoin", "Deduplicate", "Distinct", "Except", "Filter", "Generate", "GlobalLimit"),
        *("InlineTable", "Intersect", "Join", "Limit", "LateralJoin", "LocalLimit", "LocalRelation", "Offset"),
        *(
            "OneRowRelation",
            "PipeOperator",
            "Pivot",
            "Project",
            "Range",
            "Repartition",
            "RepartitionByExpression",
            "ResolvedInlineTable",
        ),
        *("Sample", "Sort", "SubqueryAlias", "Tail", "Union", "UnresolvedEventTimeWatermark", "UnresolvedHaving"),
        *("UnresolvedHint", "UnresolvedInlineTable", "UnresolvedOrdinal", "UnresolvedPivot"),
        *("UnresolvedSubqueryColumnAliases", "UnresolvedTVFAliases", "UnresolvedWith", "Unpivot", "Window"),
        *("WithWindowDefinition",),
    }
)
"""Plan nodes that only compute. Commands, scripts, files and tables of a catalogue have others."""

_TABLE_FUNCTIONS = frozenset(
    {
        *("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "range"),
        *("json_tuple", "variant_explode", "variant_explode_outer"),
    }
)

_FORBIDDEN_FUNCTIONS = {
    **dict.fromkeys(("reflect", "java_method", "try_reflect"), "calls any Java method"),
    **dict.fromkeys(("from_avro", "to_avro", "schema_of_avro"), "can read a schema from a URL: use the format avro"),
    **dict.fromkeys(("from_protobuf", "to_protobuf"), "reads a descriptor file: use the format protobuf"),
    **dict.fromkeys(("from_xml", "schema_of_xml"), "can read a schema file"),
}

_OTHER_NODES = {
    "ScriptTransformation": "TRANSFORM … USING starts a program",
    "PlanWithUnresolvedIdentifier": "IDENTIFIER(…) names a table by an expression",
    "ExpressionWithUnresolvedIdentifier": "IDENTIFIER(…) names something by an expression",
    "RelationTimeTravel": "VERSION or TIMESTAMP AS OF reads a table of a catalogue",
    "CompoundBody": "a script of several statements",
}


def refuse_forbidden(plan: Any) -> None:
    """Raises ConfigError that names the first piece of a parsed query that is not allowed."""
    _judge(plan, frozenset({VIEW}))


def _judge(plan: Any, known: frozenset[str]) -> None:
    """`known`: the relations that the query may name here, in lower case."""
    kind = plan.getClass().getSimpleName()
    if kind == "UnresolvedWith":
        for relation in items(plan.cteRelations()):
            name = str(relation._1()).lower()
            # A name that is given later means a table of the catalogue here.
            _judge(relation._2(), known | {name} if plan.allowRecursion() else known)
            known |= {name}
    elif kind == "UnresolvedRelation":
        _judge_relation([str(part) for part in items(plan.multipartIdentifier())], known)
    elif kind == "UnresolvedTableValuedFunction":
        name = ".".join(str(part) for part in items(plan.name()))
        if name.lower() not in _TABLE_FUNCTIONS:
            raise _refused(f"the table function {name}", f"allowed: {', '.join(sorted(_TABLE_FUNCTIONS))}")
    elif kind not in _QUERY_NODES:
        raise _refused(_OTHER_NODES.get(kind, f"the statement {kind}"), "write one SELECT over the view `input`")
    for expression in items(plan.expressions()):
        _judge_expression(expression, known)
    for child in items(plan.children()):
        _judge(child, known)


def _judge_relation(name: list[str], known: frozenset[str]) -> None:
    if len(name) > 1 or name[0].lower() not in known:
        shown = ".".join(part if part.isidentifier() else f"`{part}`" for part in name)
        raise _refused(f"the table or file {shown}", "a query reads the view `input`; join topics by a join processor")


def _judge_expression(node: Any, known: frozenset[str]) -> None:
    kind = node.getClass().getSimpleName()
    if kind in _OTHER_NODES:
        raise _refused(_OTHER_NODES[kind], "write the name itself")
    for name in _function_names(node, kind):
        last = name.rpartition(".")[2].lower()
        if "." in name:
            raise _refused(f"the function {name} of a catalogue", "call built-in functions by their plain name")
        if last in _FORBIDDEN_FUNCTIONS:
            raise _refused(f"the function {name}", f"it {_FORBIDDEN_FUNCTIONS[last]}")
    if _is_subquery(node):
        _judge(node.plan(), known)
    for child in items(node.children()):
        _judge_expression(child, known)


def _function_names(node: Any, kind: str) -> Iterator[str]:
    if kind == "UnresolvedFunction":
        yield ".".join(str(part) for part in items(node.nameParts()))
    elif kind == "UnresolvedGenerator":
        name = node.name()
        yield str(name.funcName()) if name.database().isEmpty() else str(name.unquotedString())


def _is_subquery(node: Any) -> bool:
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    return bool(is_instance_of(SparkContext._gateway, node, "org.apache.spark.sql.catalyst.expressions.PlanExpression"))


def _refused(what: str, hint: str) -> ConfigError:
    return ConfigError(
        f"query: expected a SELECT over the view `input`, found {what}, which sql may not use", hint=hint
    )


def items(sequence: Any) -> list[Any]:
    """A Scala Seq as a list."""
    return [sequence.apply(index) for index in range(sequence.size())]
