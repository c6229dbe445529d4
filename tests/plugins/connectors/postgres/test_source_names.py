"""Names of streams: what is written is read back, and only what Postgres can't name is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.plugins.connectors.postgres.names import StreamName, parse_stream

PARTS = st.text(st.one_of(st.sampled_from(".\"' ;-\\é"), st.characters(exclude_characters="\0")), min_size=1).filter(
    lambda text: len(text.encode(errors="surrogatepass")) <= 63
)


@given(PARTS, PARTS)
def test_any_name_that_is_written_is_read_back(schema: str, table: str) -> None:
    assert parse_stream(str(StreamName(schema, table))) == (schema, table)


@pytest.mark.parametrize(
    ("text", "schema", "table"),
    [
        ("public.users", "public", "users"),
        ("users", "public", "users"),
        ("Public.Users", "Public", "Users"),
        ('"a.b"."c""d"', "a.b", 'c"d'),
        ("a b.drop table x; --", "a b", "drop table x; --"),
        ('public."users"', "public", "users"),
    ],
)
def test_name_is_read_as_its_parts(text: str, schema: str, table: str) -> None:
    assert parse_stream(text) == (schema, table)


@pytest.mark.parametrize("text", ["", ".", "a.", ".b", "a.b.c", 'a."b', 'a."b"c', "a.b\0", f"a.{'x' * 64}", 'a"b'])
def test_name_that_postgres_cannot_have_is_refused(text: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        parse_stream(text)
    assert caught.value.category is ErrorCategory.CONFIG
    assert "schema.table" in caught.value.message


def test_name_in_sql_is_quoted() -> None:
    assert StreamName('a"b', "c; drop").sql == '"a""b"."c; drop"'
