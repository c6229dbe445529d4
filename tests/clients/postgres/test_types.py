from __future__ import annotations

from typing import Any

import pytest

from gauss.clients.postgres.types import canonical, parse_type, render_type
from gauss.contracts.format import FieldType
from gauss.model.errors import ConfigError

RENDERED: list[tuple[str, dict[str, Any], str]] = [
    # every row of the specification's table
    ("NUMERIC", {"precision": 18, "scale": 8}, "NUMERIC(18,8)"),
    ("NUMERIC", {}, "NUMERIC"),
    ("VARCHAR", {"length": 255}, "VARCHAR(255)"),
    ("TIMESTAMP", {"precision": 3, "timezone": True}, "TIMESTAMP(3) WITH TIME ZONE"),
    ("ARRAY", {"element": {"name": "BIGINT"}}, "BIGINT[]"),
    # and more
    ("ARRAY", {"element": {"name": "TEXT", "attrs": {}}}, "TEXT[]"),
    ("ARRAY", {"element": "text"}, "text[]"),
    ("ARRAY", {"element": {"name": "ARRAY", "attrs": {"element": "INTEGER"}}}, "INTEGER[][]"),
    ("TIMESTAMP", {"timezone": True}, "TIMESTAMP WITH TIME ZONE"),
    ("TIMESTAMP", {"timezone": False, "precision": 0}, "TIMESTAMP(0)"),
    ("TIMESTAMPTZ", {}, "TIMESTAMPTZ"),
    ("TIME", {"precision": 3}, "TIME(3)"),
    ("DOUBLE PRECISION", {}, "DOUBLE PRECISION"),
    ("NUMERIC", {"precision": 5}, "NUMERIC(5)"),
    ("CHAR", {"length": 3}, "CHAR(3)"),
    ("INTERVAL", {"precision": 3}, "INTERVAL(3)"),
    ("VARCHAR", {}, "VARCHAR"),
    ("public.mood", {}, "public.mood"),
    ('"My Type"', {}, '"My Type"'),
    ("vector", {"args": "3"}, "vector(3)"),
    *((name, {}, name) for name in ("REAL", "BIGINT", "INTEGER", "BOOLEAN", "BYTEA", "TEXT", "UUID", "JSONB", "INET")),
]


@pytest.mark.parametrize(("name", "attrs", "text"), RENDERED)
def test_type_renders_as_ddl(name: str, attrs: dict[str, Any], text: str) -> None:
    assert render_type(FieldType(name, attrs)) == text


@pytest.mark.parametrize(("name", "attrs", "text"), RENDERED)
def test_rendered_type_parses_to_the_same_type(name: str, attrs: dict[str, Any], text: str) -> None:
    assert canonical(parse_type(text)) == canonical(FieldType(name, attrs))


@pytest.mark.parametrize(
    ("text", "name", "attrs"),
    [
        ("timestamp(3) with time zone", "TIMESTAMP", {"precision": 3, "timezone": True}),
        ("timestamp without time zone", "TIMESTAMP", {}),
        ("character varying(255)", "VARCHAR", {"length": 255}),
        ("numeric(18,8)", "NUMERIC", {"precision": 18, "scale": 8}),
        ("numeric(5,-2)", "NUMERIC", {"precision": 5, "scale": -2}),
        ("bigint[]", "ARRAY", {"element": FieldType("BIGINT")}),
        ("integer[3][]", "ARRAY", {"element": FieldType("ARRAY", {"element": FieldType("INTEGER")})}),
        ("double precision", "DOUBLE PRECISION", {}),
        ("int8", "BIGINT", {}),
        ('public."My Type"[]', "ARRAY", {"element": FieldType('public."My Type"')}),
    ],
)
def test_type_names_of_postgres_are_parsed(text: str, name: str, attrs: dict[str, Any]) -> None:
    assert parse_type(text) == FieldType(name, attrs)


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("TEXT); DROP TABLE x; --", {}),
        ("TEXT", {"length": 5}),
        ("VARCHAR", {"length": "max"}),
        ("NUMERIC", {"scale": 2}),
        ("ARRAY", {}),
        ("", {}),
        ("NUMERIC", {"precision": True}),
    ],
)
def test_invalid_type_is_refused(name: str, attrs: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        render_type(FieldType(name, attrs))
