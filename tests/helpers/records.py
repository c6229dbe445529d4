"""Writes and reads records of a topic of a running engine."""

from __future__ import annotations

import pyarrow as pa

from gauss.clients.engine.client import EngineClient


def feed(client: EngineClient, topic: str, *records: bytes) -> int:
    return client.append(topic, [pa.record_batch({"data": pa.array(records, pa.binary())})])


def content(client: EngineClient, topic: str) -> list[bytes]:
    return [data for batch in client.scan(topic) for data in batch.column("data").to_pylist()]
