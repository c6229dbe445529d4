"""A client of an HTTP API of Gauss: requests, NDJSON streams, and their errors as GaussError."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from gauss.model.errors import GaussError, Unavailable, from_dict

if TYPE_CHECKING:
    from email.message import Message
    from http.client import HTTPConnection, HTTPResponse

NDJSON = "application/x-ndjson"
PIECE_BYTES = 1 << 16
ERROR_KEYS = {"code", "message", "hint", "retryable"}
_ERROR = b'{"error":{"code":'

Query = dict[str, Any]


class RestClient:
    """A client of one server. Every failure is raised as a GaussError, including errors of the API. Subclasses say how
    to connect."""

    prefix = "/api/"
    server = "the server"
    """In messages."""
    hint = "check that it is still running"
    results: frozenset[int] = frozenset()
    """Statuses above 400 whose bodies are results."""

    def __init__(self, endpoint: str, token: str) -> None:
        self.endpoint, self._token = endpoint, token

    def connection(self) -> HTTPConnection:
        """A new connection."""
        raise NotImplementedError

    def get(self, *path: str, **query: Any) -> Any:
        return self._ask("GET", path, query)

    def post(self, *path: str, body: bytes | Any = None, **query: Any) -> Any:
        return self._ask("POST", path, query, body)

    def patch(self, *path: str, body: Any, **query: Any) -> Any:
        return self._ask("PATCH", path, query, body)

    def delete(self, *path: str, **query: Any) -> Any:
        return self._ask("DELETE", path, query)

    def lines(self, *path: str, **query: Any) -> Iterator[bytes]:
        """The lines of an NDJSON stream. Raises the error that ends it."""
        return self.stream(*path, **query)[1]

    def stream(
        self, *path: str, method: str = "GET", body: Any = None, **query: Any
    ) -> tuple[Message, Iterator[bytes]]:
        """The response headers and the lines of an NDJSON stream."""
        response = self._open(method, path, query, body, accept=NDJSON)
        return response.headers, self._lines(response)

    def _ask(self, method: str, path: tuple[str, ...], query: Query, body: Any = None) -> Any:
        response = self._open(method, path, query, body)
        with response:
            return json.loads(response.read())

    def _open(
        self, method: str, path: tuple[str, ...], query: Query, body: Any = None, accept: str = "application/json"
    ) -> HTTPResponse:
        from http.client import HTTPException  # `gauss run` takes the options from here, not this

        connection = self.connection()
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept}
        if body is not None and not isinstance(body, bytes | Iterator):
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        target = self.prefix + "/".join(quote(part, safe="") for part in path)
        given = {key.rstrip("_"): value for key, value in query.items() if value is not None}
        if given:
            target += "?" + urlencode(given)
        try:
            try:
                connection.request(method, target, body, headers)  # an iterator is sent in chunks
            except (BrokenPipeError, ConnectionResetError):
                if not isinstance(body, Iterator):
                    raise
                # The server refused before reading the whole body: its response has the reason.
            response = connection.getresponse()
        except (OSError, HTTPException) as error:
            raise Unavailable(f"{self.server} does not answer at {self.endpoint}: {error}", hint=self.hint) from error
        if response.status >= 400 and response.status not in self.results:
            raise self._error(response)
        return response

    def _lines(self, response: HTTPResponse) -> Iterator[bytes]:
        from http.client import HTTPException

        with response:
            try:
                for line in io.BufferedReader(_Body(response), PIECE_BYTES):
                    if line.startswith(_ERROR) and (error := _streamed_error(line)) is not None:
                        raise error
                    yield line
            except (OSError, HTTPException, AttributeError) as error:  # AttributeError: closed while it was read
                raise Unavailable(f"the connection to {self.server} was lost", hint=self.hint) from error

    def _error(self, response: HTTPResponse) -> GaussError:
        text = response.read()
        try:
            return from_dict(json.loads(text)["error"])
        except (ValueError, KeyError, TypeError):
            return GaussError(f"{self.server} answered {response.status}: {text[:200].decode(errors='replace')}")


class _Body(io.RawIOBase):
    """The lines of a streamed response. Unlike iterating `response`, it raises if the connection ends between two
    chunks, so a truncated response is not taken for a short one."""

    def __init__(self, response: HTTPResponse) -> None:
        self._response = response

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._response.read1(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


def _streamed_error(line: bytes) -> GaussError | None:
    """The error that ended a streamed response, or `None`. A row may have a field `error` too, but of another shape."""
    found = json.loads(line)["error"]
    return from_dict(found) if isinstance(found, dict) and set(found) == ERROR_KEYS else None
