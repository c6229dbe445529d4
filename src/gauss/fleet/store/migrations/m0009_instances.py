"""The states of instances without leases, which have no slot to keep them in."""

STATEMENTS = ("ALTER TABLE workers ADD COLUMN instances TEXT NOT NULL DEFAULT '{{}}'",)
