"""Tokens of the API, the audit log, and the check of the key that seals secrets."""

STATEMENTS = (
    """CREATE TABLE tokens (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        role TEXT NOT NULL,
        hash TEXT NOT NULL UNIQUE,
        created_by TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        used_at BIGINT
    )""",
    # Entries outlive their pipelines.
    """CREATE TABLE audit (
        id {id},
        at BIGINT NOT NULL,
        who TEXT NOT NULL,
        action TEXT NOT NULL,
        pipeline_id TEXT,
        detail TEXT NOT NULL
    )""",
    "CREATE INDEX audit_pipeline ON audit (pipeline_id, id)",
    "CREATE TABLE key_check (id BIGINT PRIMARY KEY, sealed {bytes} NOT NULL)",
)
