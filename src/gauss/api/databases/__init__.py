"""Database states over HTTP, forwarded to the engine of the process's data directory."""
