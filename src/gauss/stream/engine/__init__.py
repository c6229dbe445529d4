"""The engine process: sockets, topics and everything that becomes visible in them.

A record's way: an edge appends to a `topic`; a `pump` or a Spark query (through `flight`) reads it by a cursor, as far
as `sources` allows; what it makes of it is kept in `stages` and becomes visible by `publish`, whose commit point is one
entry of the `journal`; the `ledger` is what all entries add up to. `runtime` builds it all, `commands` shows it.

Lock order: a processor's lock, then topics by name, then the ledger.
"""
