"""Partitions of topics, who reads them and how far, and the records that became no rows."""

STATEMENTS = (
    """CREATE TABLE claims (
        pipeline_id TEXT NOT NULL REFERENCES pipelines ON DELETE CASCADE,
        topic TEXT NOT NULL,
        partition BIGINT NOT NULL,
        topic_id TEXT NOT NULL,
        inc BIGINT NOT NULL,
        worker_id TEXT,
        slot BIGINT,
        lease_epoch BIGINT,
        epoch BIGINT NOT NULL,
        next_offset BIGINT NOT NULL,
        end_offset BIGINT NOT NULL,
        sequence BIGINT NOT NULL,
        pending_to BIGINT,
        pending_version BIGINT,
        rows BIGINT NOT NULL,
        bytes BIGINT NOT NULL,
        batches BIGINT NOT NULL,
        dead_letters BIGINT NOT NULL,
        taken_at BIGINT NOT NULL,
        advanced_at BIGINT,
        PRIMARY KEY (pipeline_id, topic, partition)
    )""",
    "CREATE UNIQUE INDEX claims_inc ON claims (inc)",
    """CREATE TABLE dead_letters (
        pipeline_id TEXT NOT NULL REFERENCES pipelines ON DELETE CASCADE,
        inc BIGINT NOT NULL,
        "offset" BIGINT NOT NULL,
        topic TEXT NOT NULL,
        partition BIGINT NOT NULL,
        stage TEXT NOT NULL,
        reason TEXT NOT NULL,
        "column" TEXT NOT NULL,
        detail TEXT NOT NULL,
        data {bytes},
        ts_ms BIGINT NOT NULL,
        at BIGINT NOT NULL,
        PRIMARY KEY (pipeline_id, inc, "offset")
    )""",
)
