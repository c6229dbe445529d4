"""Pipelines, their desired state, their configs and all versions of these."""

_CONFIG = """(
    pipeline_id TEXT PRIMARY KEY REFERENCES pipelines ON DELETE CASCADE,
    version BIGINT NOT NULL,
    document TEXT NOT NULL,
    secrets {bytes}
)"""

STATEMENTS = (
    """CREATE TABLE pipelines (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        version BIGINT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
    )""",
    """CREATE TABLE pipeline_state (
        pipeline_id TEXT PRIMARY KEY REFERENCES pipelines ON DELETE CASCADE,
        desired TEXT NOT NULL,
        replicas BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
    )""",
    f"CREATE TABLE kafka_configs {_CONFIG}",
    f"CREATE TABLE clickhouse_configs {_CONFIG}",
    f"CREATE TABLE filters_configs {_CONFIG}",
    f"CREATE TABLE mappings {_CONFIG}",
    """CREATE TABLE config_versions (
        pipeline_id TEXT NOT NULL REFERENCES pipelines ON DELETE CASCADE,
        version BIGINT NOT NULL,
        kind TEXT NOT NULL,
        document TEXT NOT NULL,
        secrets {bytes},
        who TEXT NOT NULL,
        note TEXT NOT NULL,
        at BIGINT NOT NULL,
        PRIMARY KEY (pipeline_id, version, kind)
    )""",
)
