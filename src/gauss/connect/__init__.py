"""Connectors: moves streams between outside systems, with checkpoints, typed errors and exactly-once where both sides
can.

- `channel`: the bounded queue between a source and a destination.
- `checkpoints`: which cursor is safe, by the checkpoints of both sides.
- `host`: what a connector calls while it reads or writes one stream.
- `state`: the state of connectors and syncs, in SQLite or Postgres.
- `wasm`: connectors as WebAssembly modules, through the same host.
"""
