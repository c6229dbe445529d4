"""Who held which slot, and when. Rows refer to no pipeline: a lease that is taken would wait for its deletion, which
waits for the lease."""

STATEMENTS = (
    """CREATE TABLE takeovers (
        pipeline_id TEXT NOT NULL,
        slot BIGINT NOT NULL,
        epoch BIGINT NOT NULL,
        worker_id TEXT NOT NULL,
        began_at BIGINT NOT NULL,
        ended_at BIGINT,
        PRIMARY KEY (pipeline_id, slot, epoch)
    )""",
    # Those who hold a slot now.
    """INSERT INTO takeovers
        SELECT pipeline_id, slot, epoch, worker_id, acquired_at, NULL FROM leases
        WHERE worker_id IS NOT NULL AND acquired_at IS NOT NULL""",
)
