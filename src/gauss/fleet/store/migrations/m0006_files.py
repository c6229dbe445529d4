"""Pipelines that are whole files of Gauss."""

STATEMENTS = (
    """CREATE TABLE pipeline_files (
        pipeline_id TEXT PRIMARY KEY REFERENCES pipelines ON DELETE CASCADE,
        version BIGINT NOT NULL,
        document TEXT NOT NULL,
        secrets {bytes}
    )""",
)
