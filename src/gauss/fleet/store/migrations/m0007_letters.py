"""How many dead letters each pipeline has, so that their number can be limited, and an index of the newest."""

STATEMENTS = (
    """CREATE TABLE letter_totals (
        pipeline_id TEXT PRIMARY KEY REFERENCES pipelines ON DELETE CASCADE,
        kept BIGINT NOT NULL,
        bytes BIGINT NOT NULL,
        dropped BIGINT NOT NULL,
        expired BIGINT NOT NULL
    )""",
    """INSERT INTO letter_totals
        SELECT pipeline_id, COUNT(*), COALESCE(SUM(LENGTH(data)), 0), 0, 0 FROM dead_letters GROUP BY pipeline_id""",
    'CREATE INDEX dead_letters_newest ON dead_letters (pipeline_id, at, inc, "offset")',
)
