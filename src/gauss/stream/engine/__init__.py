"""The engine process: sockets, topics and everything that becomes visible in them.

The path of a record: an edge appends it to a topic (`topics/`); a pump (`edges/pump.py`) or a Spark task (through
`server/flight.py`) reads it by a cursor, as far as `delivery/batch_planning.py` allows. Results are kept in
`delivery/stages.py` until `delivery/publish.py` commits them by a `delivery/transaction.py`, whose commit point is one
entry of the journal; the ledger (`journal/ledger.py`) is the sum of all entries. `runtime.py` builds it all,
`server/commands.py` and `observe/` show it.

Lock order: a processor's lock, then topics by name, then the ledger.
"""
