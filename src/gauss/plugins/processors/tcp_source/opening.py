"""Rejects connections that start with an HTTP request line."""

from __future__ import annotations

import re

from gauss.model.errors import Rejected

MOST_BYTES = 8 << 10
"""The usual limit of web servers for a request line."""
_REQUEST = re.compile(rb"(?:GET|POST|PUT|HEAD|DELETE|OPTIONS|PATCH|CONNECT|TRACE|PRI) [^ \r\n]+ HTTP/[0-9.]+\r?\n")
_BEGINNING = re.compile(rb"(?:[A-Z]{1,7}|[A-Z]{3,7} [^ \r\n]*|[A-Z]{3,7} [^ \r\n]+ [HTP/0-9.]*\r?)\Z")


class Opening:
    """Checks the first bytes of a connection without delaying them."""

    def __init__(self) -> None:
        self._seen = b""

    def is_over(self, data: memoryview) -> bool:
        """Whether the bytes so far are not and cannot become a request line; raises Rejected if they are one."""
        self._seen += bytes(data[: MOST_BYTES - len(self._seen)])
        if _REQUEST.match(self._seen):
            line = self._seen.split(b"\n", 1)[0].strip().decode("ascii", "replace")
            raise Rejected(
                f"it begins with an HTTP request line, {line:.80}: expected records",
                hint="HTTP goes to the engine's API port; allow_http = true takes such lines as records",
            )
        return len(self._seen) >= MOST_BYTES or not _BEGINNING.match(self._seen)
