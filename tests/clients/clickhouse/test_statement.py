from __future__ import annotations

import pytest

from gauss.clients.clickhouse.statement import read_statement


@pytest.mark.parametrize(
    ("text", "head", "format", "data"),
    [
        (b"INSERT INTO t FORMAT CSV\n1,2", "INSERT INTO t ", "CSV", b"1,2"),
        (b"insert into t format Native \t\r\n\x00\xff", "insert into t ", "Native", b"\x00\xff"),
        (b"INSERT INTO t (a, `format`) FORMAT TSV\nx", "INSERT INTO t (a, `format`) ", "TSV", b"x"),
        (b"INSERT INTO format FORMAT TSV\nx", "INSERT INTO format ", "TSV", b"x"),
        (b"INSERT INTO db.values VALUES (1)", "INSERT INTO db.values ", "Values", b" (1)"),
        (b"INSERT INTO t SETTINGS a = 'FORMAT X' FORMAT CSV;1", "INSERT INTO t ", "CSV", b"1"),
        (b"INSERT INTO settings (a) SETTINGS b = 1 VALUES (1)", "INSERT INTO settings (a) ", "Values", b" (1)"),
        (
            b"-- FORMAT A\nINSERT /* FORMAT B */ INTO t FORMAT C\n",
            "-- FORMAT A\nINSERT /* FORMAT B */ INTO t ",
            "C",
            b"",
        ),
        (b"INSERT INTO `a``b \\` FORMAT X` FORMAT C\n", "INSERT INTO `a``b \\` FORMAT X` ", "C", b""),
        (b"INSERT INTO FUNCTION file('x.csv') FORMAT CSV\n1", "INSERT INTO FUNCTION file('x.csv') ", "CSV", b"1"),
    ],
)
def test_data_of_an_insert_begins_after_its_format(text: bytes, head: str, format: str, data: bytes) -> None:
    found = read_statement(text)
    assert found.data_at is not None
    assert (found.head, found.format, text[found.data_at :]) == (head, format, data)
    assert found.tail.strip() in ("", "SETTINGS a = 'FORMAT X'", "SETTINGS b = 1")
    assert (b" SETTINGS " in text) == bool(found.tail)


@pytest.mark.parametrize(
    ("text", "kind", "format"),
    [
        (b"SELECT 1", "select", None),
        (b" \n/* x */ select 1 format JSON", "select", "JSON"),
        (b"SELECT format('{}', 1) FORMAT CSV SETTINGS max_threads = 1", "select", "CSV"),
        (b"SELECT * FROM (SELECT 1 FORMAT Null)", "select", None),
        (b"SELECT 'FORMAT CSV'", "select", None),
        (b"SELECT $a$ FORMAT CSV $a$", "select", None),
        (b"(SELECT 1) FORMAT CSV", "select", "CSV"),
        (b"INSERT INTO t SELECT 1", "insert", None),
        (b"INSERT INTO t SELECT * FROM input('a Int8') FORMAT CSV\n1", "insert", None),
        (b"INSERT INTO t FROM INFILE 'x' FORMAT CSV", "insert", None),
        (b"SELECT 1 FORMAT CSV; SELECT 2 FORMAT TSV", "select", "CSV"),
        (b"", "", None),
    ],
)
def test_other_statement_has_no_data(text: bytes, kind: str, format: str | None) -> None:
    found = read_statement(text)
    assert (found.kind, found.format, found.data_at) == (kind, format, None)
