"""The tables of the store, as the newest migration leaves them. Times are Unix milliseconds of the database's clock."""

from __future__ import annotations

import sqlalchemy as sa

SCHEMA = sa.MetaData()

PIPELINES = sa.Table(
    "pipelines", SCHEMA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text),
    sa.Column("description", sa.Text),
    sa.Column("version", sa.BigInteger),
    sa.Column("created_at", sa.BigInteger),
    sa.Column("updated_at", sa.BigInteger),
    sa.Column("alert_ratio", sa.Double),
)  # fmt: skip
STATE = sa.Table(
    "pipeline_state", SCHEMA,
    sa.Column("pipeline_id", sa.Text, primary_key=True),
    sa.Column("desired", sa.Text),
    sa.Column("replicas", sa.BigInteger),
    sa.Column("updated_at", sa.BigInteger),
)  # fmt: skip


def _configs(name: str) -> sa.Table:
    return sa.Table(
        name, SCHEMA,
        sa.Column("pipeline_id", sa.Text, primary_key=True),
        sa.Column("version", sa.BigInteger),
        sa.Column("document", sa.Text),
        sa.Column("secrets", sa.LargeBinary),
    )  # fmt: skip


KAFKA_CONFIGS = _configs("kafka_configs")
CLICKHOUSE_CONFIGS = _configs("clickhouse_configs")
FILTERS_CONFIGS = _configs("filters_configs")
MAPPINGS = _configs("mappings")
FILES = _configs("pipeline_files")
CONFIG_VERSIONS = sa.Table(
    "config_versions", SCHEMA,
    sa.Column("pipeline_id", sa.Text, primary_key=True),
    sa.Column("version", sa.BigInteger, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("document", sa.Text),
    sa.Column("secrets", sa.LargeBinary),
    sa.Column("who", sa.Text),
    sa.Column("note", sa.Text),
    sa.Column("at", sa.BigInteger),
)  # fmt: skip
LEASES = sa.Table(
    "leases", SCHEMA,
    sa.Column("pipeline_id", sa.Text, primary_key=True),
    sa.Column("slot", sa.BigInteger, primary_key=True),
    sa.Column("worker_id", sa.Text),
    sa.Column("lease_until", sa.BigInteger),
    sa.Column("epoch", sa.BigInteger),
    sa.Column("acquired_at", sa.BigInteger),
    sa.Column("state", sa.Text),
    sa.Column("reason", sa.Text),
)  # fmt: skip
WORKERS = sa.Table(
    "workers", SCHEMA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("host", sa.Text),
    sa.Column("pid", sa.BigInteger),
    sa.Column("mode", sa.Text),
    sa.Column("version", sa.Text),
    sa.Column("ttl_ms", sa.BigInteger),
    sa.Column("started_at", sa.BigInteger),
    sa.Column("seen_at", sa.BigInteger),
    sa.Column("max_slots", sa.BigInteger),
    sa.Column("max_replicas", sa.BigInteger),
    sa.Column("instances", sa.Text),
)  # fmt: skip
CLAIMS = sa.Table(
    "claims", SCHEMA,
    sa.Column("pipeline_id", sa.Text, primary_key=True),
    sa.Column("topic", sa.Text, primary_key=True),
    sa.Column("partition", sa.BigInteger, primary_key=True),
    sa.Column("topic_id", sa.Text),
    sa.Column("inc", sa.BigInteger),
    sa.Column("worker_id", sa.Text),
    sa.Column("slot", sa.BigInteger),
    sa.Column("lease_epoch", sa.BigInteger),
    sa.Column("epoch", sa.BigInteger),
    sa.Column("next_offset", sa.BigInteger),
    sa.Column("end_offset", sa.BigInteger),
    sa.Column("sequence", sa.BigInteger),
    sa.Column("pending_to", sa.BigInteger),
    sa.Column("pending_version", sa.BigInteger),
    sa.Column("rows", sa.BigInteger),
    sa.Column("bytes", sa.BigInteger),
    sa.Column("batches", sa.BigInteger),
    sa.Column("dead_letters", sa.BigInteger),
    sa.Column("taken_at", sa.BigInteger),
    sa.Column("advanced_at", sa.BigInteger),
    sa.Column("behind_since", sa.BigInteger),
    sa.Column("insert_ms", sa.BigInteger),
    sa.Column("window_at", sa.BigInteger),
    sa.Column("window_records", sa.BigInteger),
    sa.Column("window_letters", sa.BigInteger),
)  # fmt: skip
DEAD_LETTERS = sa.Table(
    "dead_letters", SCHEMA,
    sa.Column("pipeline_id", sa.Text, primary_key=True),
    sa.Column("inc", sa.BigInteger, primary_key=True),
    sa.Column("offset", sa.BigInteger, primary_key=True),
    sa.Column("topic", sa.Text),
    sa.Column("partition", sa.BigInteger),
    sa.Column("stage", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("column", sa.Text),
    sa.Column("detail", sa.Text),
    sa.Column("data", sa.LargeBinary),
    sa.Column("ts_ms", sa.BigInteger),
    sa.Column("at", sa.BigInteger),
    sa.Column("edited", sa.LargeBinary),
    sa.Column("edited_by", sa.Text),
)  # fmt: skip
LETTER_TOTALS = sa.Table(
    "letter_totals", SCHEMA,
    sa.Column("pipeline_id", sa.Text, primary_key=True),
    sa.Column("kept", sa.BigInteger),
    sa.Column("bytes", sa.BigInteger),
    sa.Column("dropped", sa.BigInteger),
    sa.Column("expired", sa.BigInteger),
)  # fmt: skip
TAKEOVERS = sa.Table(
    "takeovers", SCHEMA,
    sa.Column("pipeline_id", sa.Text, primary_key=True),
    sa.Column("slot", sa.BigInteger, primary_key=True),
    sa.Column("epoch", sa.BigInteger, primary_key=True),
    sa.Column("worker_id", sa.Text),
    sa.Column("began_at", sa.BigInteger),
    sa.Column("ended_at", sa.BigInteger),
)  # fmt: skip
TOKENS = sa.Table(
    "tokens", SCHEMA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text),
    sa.Column("role", sa.Text),
    sa.Column("hash", sa.Text),
    sa.Column("created_by", sa.Text),
    sa.Column("created_at", sa.BigInteger),
    sa.Column("used_at", sa.BigInteger),
)  # fmt: skip
AUDIT = sa.Table(
    "audit", SCHEMA,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("at", sa.BigInteger),
    sa.Column("who", sa.Text),
    sa.Column("action", sa.Text),
    sa.Column("pipeline_id", sa.Text),
    sa.Column("detail", sa.Text),
)  # fmt: skip
KEY_CHECK = sa.Table(
    "key_check", SCHEMA, sa.Column("id", sa.BigInteger, primary_key=True), sa.Column("sealed", sa.LargeBinary)
)
