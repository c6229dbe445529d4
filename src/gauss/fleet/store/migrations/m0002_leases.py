"""Workers, and the slots of pipelines that they hold."""

STATEMENTS = (
    """CREATE TABLE leases (
        pipeline_id TEXT NOT NULL REFERENCES pipelines ON DELETE CASCADE,
        slot BIGINT NOT NULL,
        worker_id TEXT,
        lease_until BIGINT NOT NULL,
        epoch BIGINT NOT NULL,
        acquired_at BIGINT,
        state TEXT NOT NULL,
        reason TEXT NOT NULL,
        PRIMARY KEY (pipeline_id, slot)
    )""",
    # Existing pipelines: their slots, free from now on.
    """INSERT INTO leases (pipeline_id, slot, lease_until, epoch, state, reason)
        WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 999)
        SELECT pipeline_id, n, updated_at, 0, '', '' FROM pipeline_state JOIN numbers ON n < replicas""",
    """CREATE TABLE workers (
        id TEXT PRIMARY KEY,
        host TEXT NOT NULL,
        pid BIGINT NOT NULL,
        mode TEXT NOT NULL,
        version TEXT NOT NULL,
        ttl_ms BIGINT NOT NULL,
        started_at BIGINT NOT NULL,
        seen_at BIGINT NOT NULL
    )""",
)
