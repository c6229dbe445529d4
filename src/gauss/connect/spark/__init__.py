"""Syncs on Spark: the partitions of a stream are tasks of a job.

- `runner`: the session of a sync, and what it makes of each stream. `sql`: streams with a query.
- `attempt`: one attempt at a stream as a job; `task`: what runs inside its tasks.
- `link`: how tasks reach the process that runs the sync, on this machine or another one.
"""
