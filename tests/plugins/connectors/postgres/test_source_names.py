"""Names of streams: written names parse to the same name, and invalid ones are refused."""

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
def test_written_name_parses_to_the_same_name(schema: str, table: str) -> None:
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
def test_name_is_parsed_into_its_parts(text: str, schema: str, table: str) -> None:
    assert parse_stream(text) == (schema, table)


@pytest.mark.parametrize("text", ["", ".", "a.", ".b", "a.b.c", 'a."b', 'a."b"c', "a.b\0", f"a.{'x' * 64}", 'a"b'])
def test_invalid_name_is_refused(text: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        parse_stream(text)
    assert caught.value.category is ErrorCategory.CONFIG
    assert "schema.table" in caught.value.message


def test_name_in_sql_is_quoted() -> None:
    assert StreamName('a"b', "c; drop").sql == '"a""b"."c; drop"'
