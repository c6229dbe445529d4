"""Connector protocol v1: the types, the host that a connector calls, and the connector that a host calls.

- `json_form`: the JSON form of every type.
- `lifecycle`: open, validate and discover.
- `stream`: what a connector is told of the stream that it reads or writes.
- `cursor`: typed positions in a stream.
- `errors`: errors with a category, a scope and hints for a retry.
- `progress`: checkpoints, state scopes, summaries and metrics.
- `host`: the host object of connectors in Python.
- `connector`: the lifecycle that a host drives.
- `spec`: how a connector is registered.
"""
