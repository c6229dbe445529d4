"""Values of every Postgres type, and what a source makes of them."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

CASES: dict[str, tuple[str, pa.DataType, Any]] = {
    "bool": ("true", pa.bool_(), True),
    "int2": ("-32768", pa.int16(), -32768),
    "int4": ("2147483647", pa.int32(), 2**31 - 1),
    "int8": ("-9223372036854775808", pa.int64(), -(2**63)),
    "oid": ("4294967295", pa.int64(), 2**32 - 1),
    "float4": ("'-infinity'", pa.float32(), -math.inf),
    "float8": ("1e308", pa.float64(), 1e308),
    "numeric": ("123.4500", pa.string(), "123.4500"),
    "numeric(10,2)": ("-0.05", pa.decimal128(10, 2), Decimal("-0.05")),
    "numeric(18,6)": ("0.000000", pa.decimal128(18, 6), Decimal(0)),
    "numeric(38,1)": ("12345678901234567890123.5", pa.decimal128(38, 1), Decimal("12345678901234567890123.5")),
    "numeric(3,-2)": ("12345", pa.decimal128(5, 0), Decimal(12300)),
    "numeric(2,4)": ("0.0012", pa.decimal128(4, 4), Decimal("0.0012")),
    "numeric(60,2)": ("1.5", pa.string(), "1.50"),
    "text": ("''", pa.string(), ""),
    "varchar(10)": ("'héllo ☃'", pa.string(), "héllo ☃"),
    "char(4)": ("'ab'", pa.string(), "ab  "),
    "name": ("'nm'", pa.string(), "nm"),
    '"char"': ("'q'", pa.string(), "q"),
    "bytea": (r"'\x00ff'", pa.binary(), b"\0\xff"),
    "time": ("'23:59:59.999999'", pa.time64("us"), None),
    "timetz": ("'12:00+02'", pa.string(), "12:00:00+02"),
    "interval": ("'1 year 2 days 3.5 sec'", pa.string(), "P1Y2DT3.5S"),
    "uuid": ("'00000000-0000-0000-0000-000000000000'", pa.string(), "00000000-0000-0000-0000-000000000000"),
    "json": ("'{}'", pa.string(), "{}"),
    "jsonb": ("""'{"a": [1, null]}'""", pa.string(), '{"a": [1, null]}'),
    "inet": ("'10.0.0.1/8'", pa.string(), "10.0.0.1/8"),
    "cidr": ("'10.0.0.0/8'", pa.string(), "10.0.0.0/8"),
    "macaddr": ("'08:00:2b:01:02:03'", pa.string(), "08:00:2b:01:02:03"),
    "bit(4)": ("B'1010'", pa.string(), "1010"),
    "varbit": ("B'11'", pa.string(), "11"),
    "money": ("-12.34", pa.string(), "-12.34"),
    "point": ("'(1,2)'", pa.string(), "(1,2)"),
    "int4range": ("'[1,5)'", pa.string(), "[1,5)"),
    "tstzrange": ("'empty'", pa.string(), "empty"),
    "tsvector": ("'a b'", pa.string(), "'a' 'b'"),
    "pg_lsn": ("'0/1'", pa.string(), "0/1"),
    "regclass": ("'pg_class'", pa.string(), "pg_class"),
    "mood": ("'sad'", pa.string(), "sad"),
    "positive": ("5", pa.int32(), 5),
    "price": ("1.5", pa.decimal128(10, 2), Decimal("1.50")),
    "pair": ("ROW(1, 'a,b')", pa.string(), '(1,"a,b")'),
    "int4[]": ("'{1,NULL,3}'", pa.list_(pa.int32()), [1, None, 3]),
    "text[]": ("""'{a,"",NULL}'""", pa.list_(pa.string()), ["a", "", None]),
    "float8[]": ("'{}'", pa.list_(pa.float64()), []),
    "numeric[]": ("'{1.10,2}'", pa.list_(pa.string()), ["1.10", "2"]),
    "numeric(6,2)[]": ("'{1.1,NULL}'", pa.list_(pa.decimal128(6, 2)), [Decimal("1.10"), None]),
    "money[]": ("'{1.5}'", pa.list_(pa.string()), ["1.50"]),
    "inet[]": ("'{10.0.0.1}'", pa.list_(pa.string()), ["10.0.0.1/32"]),
    "mood[]": ("'{ok,sad}'", pa.list_(pa.string()), ["ok", "sad"]),
    "positive[]": ("'{1}'", pa.list_(pa.int32()), [1]),
    "bytea[]": (r"ARRAY['\x01'::bytea]", pa.list_(pa.binary()), [b"\x01"]),
    "jsonb[]": ("""ARRAY['{"a":1}'::jsonb]""", pa.list_(pa.string()), ['{"a": 1}']),
    "int4[][]": ("'{{1,2},{3,4}}'", pa.string(), "{{1,2},{3,4}}"),
}  # fmt: skip
MOMENTS = {
    "date": ["1970-01-01", "0044-03-15 BC", "4713-01-01 BC", "5874897-12-31"],
    "timestamp": ["epoch", "0044-03-15 12:00 BC", "4713-01-01 BC", "1999-12-31 23:59:59.999999"],
    "timestamptz": ["1969-12-31 23:59:59.999999Z", "0001-01-01 BC", "294246-12-31 00:00Z"],
}
BAD = [
    ("numeric", "'NaN'", "NaN"),
    ("numeric", "'Infinity'", "Infinity"),
    ("numeric(10,2)", "'NaN'", "NaN"),
    ("numeric(30,2)", "'NaN'", "NaN"),
    ("timestamp", "'infinity'", "infinity"),
    ("timestamptz", "'-infinity'", "-infinity"),
    ("timestamp", "'294276-12-31'", "a timestamp on 294276-12-31"),
    ("date", "'-infinity'", "-infinity"),
    ("time", "'24:00'", "24:00:00"),
    ("int4[]", "'{{1},{2}}'", None),
    ("timestamp[]", "'{2020-01-01,infinity}'", None),
]
