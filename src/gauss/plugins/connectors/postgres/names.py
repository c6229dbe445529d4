"""Names of streams: `schema.table`, each part quoted as in SQL if it contains a dot or a quote.

A part without quotes is taken as it is: Postgres' folding to lower case does not apply. A single part is a table of
the schema `public`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gauss.clients.postgres.quote import NAME_BYTES, qualified
from gauss.contracts.connector.errors import ConnectorError

DEFAULT_SCHEMA = "public"
_PART = re.compile(r'"((?:[^"]|"")*)"|([^."]*)')


class StreamName(NamedTuple):
    """A table or view by schema and name."""

    schema: str
    table: str

    @property
    def sql(self) -> str:
        """The quoted name for a statement."""
        return qualified(self.table, self.schema)

    def __str__(self) -> str:
        return f"{_written(self.schema)}.{_written(self.table)}"


def parse_stream(name: str) -> StreamName:
    """The schema and table of a stream; raises ConnectorError."""
    parts, at = [], 0
    while True:
        found = _PART.match(name, at)
        assert found is not None  # the second alternative matches anything, if only the empty text
        parts.append(found[2] if found[1] is None else found[1].replace('""', '"'))
        at = found.end()
        if at == len(name):
            break
        if name[at] != ".":
            raise _fault(name, f'"{name[at]}" at place {at + 1}')
        at += 1
    if len(parts) > 2:
        raise _fault(name, f"{len(parts)} parts")
    for part in parts:
        length = len(part.encode(errors="surrogatepass"))
        if not part or "\0" in part or length > NAME_BYTES:
            raise _fault(name, f"a part of {length} bytes" if "\0" not in part else "a NUL")
    schema, table = parts if len(parts) == 2 else (DEFAULT_SCHEMA, parts[0])
    return StreamName(schema, table)


def _written(part: str) -> str:
    if "." not in part and '"' not in part:
        return part
    escaped = part.replace('"', '""')
    return f'"{escaped}"'


def _fault(name: str, found: str) -> ConnectorError:
    shown = name if len(name) <= 150 else f"{name[:149]}…"
    return ConnectorError.config(
        "BAD_STREAM",
        f"the stream {shown!r}: expected schema.table, in parts of 1 to {NAME_BYTES} bytes without NUL, found {found}",
        hint='quote a part that contains a dot or a quote: public."my.table"',
    )
