"""How far behind partitions are in time, how long inserts take, what share of records fails, edits of dead letters, and
the limits of workers."""

STATEMENTS = (
    "ALTER TABLE claims ADD COLUMN behind_since BIGINT",
    "ALTER TABLE claims ADD COLUMN insert_ms BIGINT NOT NULL DEFAULT 0",
    # Records and dead letters of the last minutes.
    "ALTER TABLE claims ADD COLUMN window_at BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE claims ADD COLUMN window_records BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE claims ADD COLUMN window_letters BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE dead_letters ADD COLUMN edited {bytes}",
    "ALTER TABLE dead_letters ADD COLUMN edited_by TEXT",
    "ALTER TABLE pipelines ADD COLUMN alert_ratio DOUBLE PRECISION NOT NULL DEFAULT 0.05",
    "ALTER TABLE workers ADD COLUMN max_slots BIGINT",
    "ALTER TABLE workers ADD COLUMN max_replicas BIGINT",
)
