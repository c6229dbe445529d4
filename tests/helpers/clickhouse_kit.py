"""Reads back what the `clickhouse` destination has written, for the conformance kit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gauss.clients.clickhouse.connect import connect
from gauss.clients.clickhouse.quote import identifier, literal
from gauss.clients.clickhouse.server import ClickHouseServer, address_of
from gauss.config.sync_rules import last_part


def verify(settings: dict[str, Any], stream: str) -> pa.Table:
    client, name = connect(address_of(ClickHouseServer(dsn=settings["dsn"]))), last_part(stream)
    try:
        engine = client.command(f"SELECT engine FROM system.tables WHERE name = {literal(name)}")
        upserted = str(engine).startswith("Replacing")
        columns, final = ("* EXCEPT (_version, _deleted)", " FINAL") if upserted else ("*", "")
        return client.query_arrow(f"SELECT {columns} FROM {identifier(name)}{final}", use_strings=True)
    finally:
        client.close()
