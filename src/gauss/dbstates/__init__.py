"""Database states: prepared once by scripts, addressed by their content, cloned in milliseconds.

- `engine`: the process, its REST interface and how commands find it.
- `prepare`: jobs: queue, controller, planner, executor.
- `planning`, `adapters`: what the steps of scripts are and what their keys depend on.
- `store`: metadata in SQLite and the layout of the store's folders; the cache of states and its capacity.
- `statefs`: copies of data directories: btrfs, reflink, copy.
- `runtimes`: Postgres servers, as processes or in containers.
- `connector`: what is said to a running Postgres.
- `instances`: clones of states: life time, connections, runs, the warm pool.
- `deletion`: what may be deleted, and its deletion.
- `telemetry`: metrics and the audit log.
"""
