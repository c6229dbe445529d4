"""The tables of the state store."""

from __future__ import annotations

import sqlalchemy as sa

SCHEMA = sa.MetaData()
VALUES = sa.Table(
    "gauss_connector_state", SCHEMA,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
)  # fmt: skip
CURSORS = sa.Table(
    "gauss_sync_cursors", SCHEMA,
    sa.Column("sync", sa.Text, primary_key=True),
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("cursor", sa.Text, nullable=True),
    sa.Column("checkpoint", sa.BigInteger, nullable=False),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
)  # fmt: skip
HISTORY = sa.Table(
    "gauss_sync_cursor_history", SCHEMA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("sync", sa.Text, nullable=False),
    sa.Column("stream", sa.Text, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("cursor", sa.Text, nullable=True),
    sa.Column("checkpoint", sa.BigInteger, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    sa.Index("gauss_sync_cursor_history_stream", "sync", "stream", "id"),
)  # fmt: skip
RUNS = sa.Table(
    "gauss_sync_runs", SCHEMA,
    sa.Column("sync", sa.Text, primary_key=True),
    sa.Column("generation", sa.BigInteger, primary_key=True),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("boot", sa.Text, nullable=False),
    sa.Column("pid", sa.BigInteger, nullable=False),
    sa.Column("process_start", sa.BigInteger, nullable=False),
    sa.Column("started_ms", sa.BigInteger, nullable=False),
    sa.Column("seen_ms", sa.BigInteger, nullable=False),
    sa.Column("ended_ms", sa.BigInteger, nullable=True),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
)  # fmt: skip
RUN_STREAMS = sa.Table(
    "gauss_sync_run_streams", SCHEMA,
    sa.Column("sync", sa.Text, primary_key=True),
    sa.Column("generation", sa.BigInteger, primary_key=True),
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
)  # fmt: skip
