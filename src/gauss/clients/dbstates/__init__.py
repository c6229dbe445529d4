"""The engine of database states: found, started on demand, and asked over its socket."""
