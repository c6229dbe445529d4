"""pgoutput messages decoded to rows: plain and compiled walks agree, malformed messages are refused."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.clients.postgres.pgoutput import RelationMessage, parse_relation
from gauss.contracts.connector.errors import ConnectorError
from gauss.model.errors import ProtocolError
from gauss.plugins.connectors.postgres.source_change_rows import OPERATIONS, change_rows, layout_of
from gauss.plugins.connectors.postgres.source_change_walk import WALK

OID = 16_402
RELATION = RelationMessage(OID, "public", "t", ("id", "v"), ("id",))
UNCHANGED = "\0unchanged"
VALUE = st.none() | st.text(max_size=5)


def tuple_bytes(values: tuple[str | None, ...]) -> bytes:
    pieces = [struct.pack(">h", len(values))]
    for value in values:
        if value is None:
            pieces.append(b"n")
        elif value == UNCHANGED:
            pieces.append(b"u")
        else:
            pieces.append(b"t" + struct.pack(">i", len(value.encode())) + value.encode())
    return b"".join(pieces)


def message(kind: str, old: tuple[str, tuple[str | None, ...]] | None, new: tuple[str | None, ...] | None) -> bytes:
    made = kind.encode() + struct.pack(">I", OID)
    made += old[0].encode() + tuple_bytes(old[1]) if old is not None else b""
    return made + (b"N" + tuple_bytes(new) if new is not None else b"")


def rows_of(messages: list[bytes], key: tuple[str, ...] = ("id",)) -> list[tuple[Any, ...]]:
    """(operation, id, v) of each row; `?` for a value that was not sent."""
    body = np.frombuffer(b"".join(messages), np.uint8).copy()
    ends = np.cumsum([len(each) for each in messages])
    found = change_rows(body, ends - [len(each) for each in messages], ends, layout_of(RELATION, ["id", "v"], key))
    columns = [
        [
            "?" if missing else value and value.decode()
            for value, missing in zip(column.to_pylist(), unsent, strict=True)
        ]
        for column, unsent in zip(found.columns, found.unchanged, strict=True)
    ]
    return list(zip([str(OPERATIONS[each]) for each in found.operations], *columns, strict=True))


def test_each_kind_of_change_becomes_a_row() -> None:
    assert rows_of(
        [
            message("I", None, ("1", "a")),
            message("U", None, ("1", None)),
            message("U", None, ("1", UNCHANGED)),
            message("D", ("K", ("1", None)), None),
            message("D", ("O", ("2", "b")), None),
        ]
    ) == [
        ("insert", "1", "a"),
        ("update", "1", None),
        ("update", "1", "?"),
        ("delete", "1", None),
        ("delete", "2", None),
    ]


def test_update_of_the_key_becomes_a_delete_and_an_insert() -> None:
    assert rows_of(
        [
            message("U", ("K", ("1", None)), ("2", UNCHANGED)),
            message("U", ("O", ("2", "old")), ("3", UNCHANGED)),
            message("U", ("O", ("3", "old")), ("3", "new")),
            message("U", ("K", ("3", None)), (UNCHANGED, "x")),
        ]
    ) == [
        ("delete", "1", None),
        ("insert", "2", "?"),
        ("delete", "2", None),
        ("insert", "3", "old"),
        ("update", "3", "new"),
        ("update", "3", "x"),
    ]


CHANGE = st.one_of(
    st.builds(lambda new: message("I", None, new), st.tuples(VALUE, VALUE)),
    st.builds(lambda old, new: message("U", ("O", old), new), st.tuples(VALUE, VALUE), st.tuples(VALUE, VALUE)),
    st.builds(lambda old: message("D", ("K", (old, None)), None), VALUE),
)


@given(st.lists(CHANGE, min_size=1, max_size=20))
def test_compiled_walk_equals_the_plain_one(messages: list[bytes]) -> None:
    WALK._compiled = None
    WALK._walked = 0
    plain = rows_of(messages, ("id", "v"))
    WALK.compile()
    assert rows_of(messages, ("id", "v")) == plain


@settings(max_examples=50)
@given(st.lists(CHANGE, min_size=1, max_size=3), st.data())
@pytest.mark.parametrize("compiled", [False, True])
def test_truncated_message_is_refused(compiled: bool, messages: list[bytes], data: Any) -> None:
    if compiled:
        WALK.compile()
    else:
        WALK._compiled, WALK._walked = None, 0
    last = messages[-1]
    with pytest.raises(ConnectorError, match="does not have 2 columns"):
        rows_of([*messages[:-1], last[: data.draw(st.integers(6, len(last) - 1))]])


def test_relation_message_is_parsed_and_a_truncated_one_is_refused() -> None:
    columns = b"".join(
        bytes([in_key]) + name.encode() + b"\0" + struct.pack(">Ii", 20, -1) for in_key, name in ((1, "id"), (0, "v"))
    )
    whole = b"R" + struct.pack(">I", OID) + b"public\0t\0" + b"d" + struct.pack(">h", 2) + columns
    assert parse_relation(whole) == RELATION
    for length in range(1, len(whole)):
        with pytest.raises(ProtocolError):
            parse_relation(whole[:length])
