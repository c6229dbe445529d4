"""HTTP client of a run, found by the `engine.json` of its data directory."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlencode, urlsplit

import typer

from gauss.model.errors import GaussError, Unavailable, from_dict

if TYPE_CHECKING:
    from email.message import Message
    from http.client import HTTPConnection, HTTPResponse

DEFAULT_DATA_DIR = Path(".gauss")
DataDirOption = Annotated[
    Path, typer.Option("--data-dir", help="The data directory of the run.", envvar="GAUSS_DATA_DIR", show_default=True)
]
NDJSON = "application/x-ndjson"
PIECE_BYTES = 1 << 16
ERROR_KEYS = {"code", "message", "hint", "retryable"}
_ERROR = b'{"error":{"code":'

Query = dict[str, Any]


class RunClient:
    """Client of one run. Every failure is raised as a GaussError, including errors of the API."""

    def __init__(self, data_dir: Path, timeout: float | None = 30.0) -> None:
        self.data_dir = data_dir
        self.timeout = timeout
        self.endpoint, self._token, self._cert = _find(data_dir)

    def get(self, *path: str, **query: Any) -> Any:
        return self._ask("GET", path, query)

    def post(self, *path: str, body: bytes | Any = None, **query: Any) -> Any:
        return self._ask("POST", path, query, body)

    def delete(self, *path: str) -> Any:
        return self._ask("DELETE", path, {})

    def lines(self, *path: str, **query: Any) -> Iterator[bytes]:
        """The lines of an NDJSON stream. Raises the error that ends it."""
        return self.stream(*path, **query)[1]

    def stream(self, *path: str, **query: Any) -> tuple[Message, Iterator[bytes]]:
        """The response headers and the lines of an NDJSON stream."""
        response = self._open("GET", path, query, accept=NDJSON)
        return response.headers, _lines(response)

    def _ask(self, method: str, path: tuple[str, ...], query: Query, body: Any = None) -> Any:
        response = self._open(method, path, query, body)
        with response:
            return json.loads(response.read())

    def _open(
        self, method: str, path: tuple[str, ...], query: Query, body: Any = None, accept: str = "application/json"
    ) -> HTTPResponse:
        from http.client import HTTPException  # `gauss run` takes the options from here, not this

        connection = self._connection()
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept}
        if body is not None and not isinstance(body, bytes | Iterator):
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        target = "/api/" + "/".join(quote(part, safe="") for part in path)
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
            raise Unavailable(
                f"the run of {self.data_dir} does not answer at {self.endpoint}: {error}",
                hint="check that it is still running",
            ) from error
        if response.status >= 400:
            raise _error(response)
        return response

    def _connection(self) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        url = urlsplit(self.endpoint)
        assert url.hostname is not None
        if url.scheme != "https":
            return HTTPConnection(url.hostname, url.port, timeout=self.timeout)
        import ssl

        # The certificate itself is pinned, so its host name and issuer do not matter.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(self._cert)
        except OSError as error:
            raise Unavailable(f"the certificate {self._cert} of the run can't be read: {error}") from error
        return HTTPSConnection(url.hostname, url.port, timeout=self.timeout, context=context)


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


def _lines(response: HTTPResponse) -> Iterator[bytes]:
    from http.client import HTTPException

    with response:
        try:
            for line in io.BufferedReader(_Body(response), PIECE_BYTES):
                if line.startswith(_ERROR) and (error := _streamed_error(line)) is not None:
                    raise error
                yield line
        except (OSError, HTTPException, AttributeError) as error:  # AttributeError: closed while it was read
            raise Unavailable(
                "the connection to the run was lost", hint="check that `gauss run` is still running"
            ) from error


def _streamed_error(line: bytes) -> GaussError | None:
    """The error that ended a streamed response, or `None`. A row may have a field `error` too, but of another shape."""
    found = json.loads(line)["error"]
    return from_dict(found) if isinstance(found, dict) and set(found) == ERROR_KEYS else None


def _error(response: HTTPResponse) -> GaussError:
    text = response.read()
    try:
        return from_dict(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return GaussError(f"the run answered {response.status}: {text[:200].decode(errors='replace')}")


def _find(data_dir: Path) -> tuple[str, str, str]:
    """Address, token and, for HTTPS, the certificate of a run."""
    path = data_dir / "engine.json"
    try:
        found = json.loads(path.read_bytes())
        endpoint = urlsplit(str(found["endpoint"]))
        if endpoint.hostname is None or endpoint.port is None:
            raise ValueError(f"expected an http URL as endpoint, found {found['endpoint']!r}")
        if Path(f"/proc/{int(found['pid'])}").exists():
            return str(found["endpoint"]), str(found["token"]), str(found.get("cert", ""))
        why = f"the run that used {data_dir} (pid {found['pid']}) is gone"
    except FileNotFoundError:
        why = f"nothing runs with the data directory {data_dir}"
    except PermissionError:
        raise Unavailable(f"{path} belongs to another user", hint="run this command as the user of gauss run") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"{path} can't be read: {error}"
    raise Unavailable(why, hint="start it with gauss run FILE, or name its directory with --data-dir")
