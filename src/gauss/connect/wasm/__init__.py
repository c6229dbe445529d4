"""Connectors as WebAssembly modules.

- `gate`: which modules are accepted.
- `guest`: a running module: its memory, its limits, calls into it.
- `connector`: a module as a source or destination.
"""
