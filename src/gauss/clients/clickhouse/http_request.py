"""A client's request to the embedded ClickHouse: statement, settings and parameters."""

from __future__ import annotations

from typing import IO, NamedTuple

from gauss.clients.clickhouse.engine import EngineError
from gauss.clients.clickhouse.http_body import Body

BLOCK_BYTES = 1 << 20
MOST_QUERY_BYTES = 16 << 20
"""Maximum size of a query; all statements except INSERT are read into memory."""
_NOT_SETTINGS = {
    "query", "user", "password", "quota_key", "query_id", "session_id", "session_timeout", "session_check",
    "close_session", "default_format", "enable_http_compression", "client_protocol_version", "compress", "decompress",
    "wait_end_of_query", "buffer_size", "stacktrace", "role", "http_write_exception_in_output_format",
    "send_progress_in_http_headers", "http_headers_progress_interval_ms",
    "cancel_http_readonly_queries_on_client_close",
}  # fmt: skip


class FrontRequest(NamedTuple):
    """The statement and parameters of a request, from the URL, a form or the body."""

    params: dict[str, str]
    text: bytes
    """The statement, or its beginning if the data of an INSERT continues in `rest`."""
    rest: IO[bytes]

    def settings(self) -> dict[str, str]:
        return {
            name: value
            for name, value in self.params.items()
            if name not in _NOT_SETTINGS and not name.startswith("param_") and name.isidentifier()
        }

    def parameters(self) -> dict[str, str]:
        return {name[6:]: value for name, value in self.params.items() if name.startswith("param_")}


def whole(source: IO[bytes] | Body) -> bytes:
    """Reads a whole body into memory; raises EngineError if it is too large."""
    found = bytearray()
    while piece := source.read(BLOCK_BYTES):
        found += piece
        if len(found) > MOST_QUERY_BYTES:
            raise EngineError(f"a query has at most {MOST_QUERY_BYTES} bytes (TOO_LARGE_STRING_SIZE)", 131)
    return bytes(found)
