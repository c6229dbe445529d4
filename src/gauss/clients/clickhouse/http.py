"""ClickHouse's HTTP interface for the embedded engine, for any ClickHouse client."""

from __future__ import annotations

import base64
import email.parser
import email.policy
import hmac
import io
import json
import logging
import os
import secrets
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, Any
from urllib.parse import parse_qsl, urlsplit

from gauss.clients.clickhouse.engine import DEFAULT_SESSION_SECONDS, ChdbEngine, EngineError, engine_errors
from gauss.clients.clickhouse.http_body import DRAIN_BYTES, Body, BodyError, choose_encoding, plain_reader
from gauss.clients.clickhouse.http_connections import (
    HEAD_BYTES,
    HEAD_SECONDS,
    IDLE_SECONDS,
    LINGER_BYTES,
    LINGER_SECONDS,
    FrontConnections,
    TimedReads,
)
from gauss.clients.clickhouse.http_request import BLOCK_BYTES, FrontRequest, whole
from gauss.clients.clickhouse.quote import literal
from gauss.clients.clickhouse.statement import STREAMED, Statement, read_statement

STATEMENT_BYTES = 256 << 10
"""The FORMAT of an INSERT must be within these bytes, as by ClickHouse's max_query_size."""
SPOOL_BYTES = 256 << 20
"""An INSERT up to this size is buffered in memory, a larger one in a file."""
MOST_INSERT_BYTES = 8 << 30
_ARROW_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_STATUS = {
    60: 404, 81: 404, 46: 404, 79: 404, 82: 404, 83: 404, 84: 404, 57: 400, 62: 400, 47: 400, 27: 400, 53: 400,
    6: 400, 117: 400, 131: 413, 36: 400, 43: 400,
    115: 400, 164: 403, 497: 403, 516: 403, 372: 404, 373: 423, 159: 408, 241: 500,
}  # fmt: skip
log = logging.getLogger("gauss.clickhouse")


class ClickHouseServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, engine: ChdbEngine, user: str, password: str) -> None:
        self.engine, self._user, self._password = engine, user.encode(), password.encode()
        self._busy, self._counting = 0, threading.Lock()
        self.connections = FrontConnections()
        super().__init__(("127.0.0.1", port), Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.connections.enter(request):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        self.connections.leave(request)
        super().shutdown_request(request)

    def allows(self, user: str, password: str) -> bool:
        return hmac.compare_digest(user.encode(), self._user) & hmac.compare_digest(password.encode(), self._password)

    def count(self, change: int) -> int:
        """Changes the number of running requests and returns it."""
        with self._counting:
            self._busy += change
            return self._busy

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Logs a lost connection for debugging only: clients may disconnect at any time."""
        log.debug("connection from %s ended", client_address, exc_info=True)


class Handler(BaseHTTPRequestHandler):
    """Serves the requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    server: ClickHouseServer

    def setup(self) -> None:
        super().setup()
        self._reads = TimedReads(self.connection)
        self.rfile = io.BufferedReader(self._reads)

    def handle_one_request(self) -> None:
        self._reads.limit(IDLE_SECONDS if self._is_proven() else HEAD_SECONDS, HEAD_BYTES)
        super().handle_one_request()

    def _is_proven(self) -> bool:
        return self.server.connections.is_proven(self.connection)

    def log_message(self, format: str, *args: object) -> None:
        log.debug(format, *args)

    def version_string(self) -> str:
        return "ClickHouse"

    def do_GET(self) -> None:
        self._answer(writes=False)

    def do_HEAD(self) -> None:
        self._answer(writes=False)

    def do_POST(self) -> None:
        self._answer(writes=True)

    def _answer(self, *, writes: bool) -> None:
        self._reads.limit(None)
        self._started = False
        self.server.count(+1)
        body = Body(self.rfile, 0)
        try:
            url = urlsplit(self.path)
            params = dict(parse_qsl(url.query, keep_blank_values=True))
            body = Body(self.rfile, self._body_length())
            if url.path in ("/ping", "/replicas_status") or (not writes and "query" not in params):
                self._send(200, b"Ok.\n", {})
                return
            if not self._permitted(params):
                raise EngineError(
                    "default: Authentication failed: password is incorrect, or there is no user with such name. "
                    "(AUTHENTICATION_FAILED)",
                    516,
                )
            self.server.connections.prove(self.connection)
            self._run(self._request(params, body), writes)
        except (EngineError, BodyError) as error:
            self._fail(error if isinstance(error, EngineError) else EngineError(str(error), 210))
        except (EOFError, OSError) as error:
            if isinstance(error, ConnectionError | TimeoutError):
                self.close_connection = True
            else:  # gzip, lz4 and zstd raise it for a body in another format
                self._fail(EngineError(f"the body can't be decompressed: {error} (CANNOT_DECOMPRESS)", 271))
        except Exception as error:
            log.exception("request failed")
            self._fail(EngineError(f"{type(error).__name__}: {error} (STD_EXCEPTION)", 1001))
        finally:
            try:
                self.wfile.flush()  # before it counts as done: the owner stops when no request is running
            except OSError:
                self.close_connection = True
            self.server.count(-1)
            if not self._is_proven():
                self._reads.limit(LINGER_SECONDS)
            if not self.close_connection and not body.drain(DRAIN_BYTES if self._is_proven() else LINGER_BYTES):
                self.close_connection = True

    def _body_length(self) -> int | None:
        """The length of the body; None if it is chunked."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return None
        given = self.headers.get("Content-Length", "0").strip()
        if not (given.isascii() and given.isdecimal() and len(given) <= 19):
            self.close_connection = True
            raise EngineError("Content-Length is not a number (INCORRECT_DATA)", 117)
        return int(given)

    def _permitted(self, params: dict[str, str]) -> bool:
        kind, _, encoded = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "basic":
            try:
                user, _, password = base64.b64decode(encoded).decode().partition(":")
            except ValueError:
                return False
        else:
            user = self.headers.get("X-ClickHouse-User") or params.get("user", "default")
            password = self.headers.get("X-ClickHouse-Key") or params.get("password", "")
        return self.server.allows(user, password)

    def _request(self, params: dict[str, str], body: Body) -> FrontRequest:
        if self.headers.get_content_type() == "multipart/form-data":
            params = {**params, **self._form(body)}
            return FrontRequest(params, params.get("query", "").encode(), plain_reader(body, ""))
        if params.get("decompress") == "1" or params.get("compress") == "1":
            raise EngineError("compress=1 and decompress=1 are not supported; use Content-Encoding", 48)
        if database := self.headers.get("X-ClickHouse-Database"):
            params.setdefault("database", database)
        if output := self.headers.get("X-ClickHouse-Format"):
            params.setdefault("default_format", output)
        rest = plain_reader(body, self.headers.get("Content-Encoding", ""))
        query = params.get("query", "").encode()
        text = query + b"\n" if query else b""
        statement = read_statement(text)
        if statement.data_at is None:
            text = self._head(text, rest)
        return FrontRequest(params, text, rest)

    @staticmethod
    def _head(text: bytes, rest: IO[bytes]) -> bytes:
        while len(text) < STATEMENT_BYTES and (more := rest.read(STATEMENT_BYTES - len(text))):
            text += more
        return text

    def _form(self, body: Body) -> dict[str, str]:
        content = b"Content-Type: " + self.headers["Content-Type"].encode() + b"\r\n\r\n" + whole(body)
        message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(content)
        fields = {}
        for part in message.iter_parts():
            if part.get_filename():
                raise EngineError("external data is not supported by the embedded ClickHouse (NOT_IMPLEMENTED)", 48)
            name = part.get_param("name", header="content-disposition")
            fields[str(name)] = bytes(part.get_payload(decode=True) or b"").decode()
        return fields

    def _run(self, request: FrontRequest, writes: bool) -> None:
        statement = read_statement(request.text)
        params, session = request.params, request.params.get("session_id", "")
        if not writes and not self.server.engine.only_reads(request.text.decode(errors="replace")):
            raise EngineError("Cannot execute query in readonly mode: use POST to change data (READONLY)", 164)
        # SET and USE outlast the request, so its own settings must not be applied and reverted around them.
        settings = {} if statement.kind in ("set", "use") else request.settings()
        seconds = float(params.get("session_timeout") or DEFAULT_SESSION_SECONDS)
        check = params.get("session_check") == "1"
        self._query_id = params.get("query_id") or str(uuid.uuid4())
        begun = time.monotonic_ns()
        with self.server.engine.connection(settings, session, seconds, check=check) as connection:
            if statement.data_at is not None:
                written = self._insert(connection, request, statement)
                self._send(200, b"", self._result_headers({"written_rows": written}, begun))
            else:
                rest = whole(request.rest)
                query = (request.text + rest).decode(errors="surrogateescape")
                self._query(connection, query, request, statement, begun)
        if session and params.get("close_session") == "1":
            self.server.engine.end_session(session)

    def _insert(self, connection: Any, request: FrontRequest, statement: Statement) -> int:
        """Passes the whole body to the engine as a file: streamed inserts do not report failures after parsing, such as
        a full disk. If the client disconnects early, nothing is inserted."""
        with self._spool(request) as file:
            self._fill(file, request.text[statement.data_at :], request.rest)
            place = f"FROM INFILE '/proc/self/fd/{file.fileno()}' COMPRESSION 'none'"
            with engine_errors():
                for name, value in request.parameters().items():
                    connection.query(f"SET param_{name} = {literal(value)}", "Null")
                query = f"{statement.head} {place} {statement.tail} FORMAT {statement.format}"
                return int(connection.query(query, "Null").rows_written())

    @staticmethod
    def _fill(file: IO[bytes], first: bytes, rest: IO[bytes]) -> None:
        block = first
        size = 0
        while True:
            size += len(block)
            if size > MOST_INSERT_BYTES:
                raise EngineError(f"an INSERT has at most {MOST_INSERT_BYTES} bytes (TOO_LARGE_STRING_SIZE)", 131)
            try:
                file.write(block)
                file.flush()
            except OSError as error:
                raise EngineError(f"Cannot keep the data of an INSERT: {error} (NOT_ENOUGH_SPACE)", 243) from error
            if not (block := rest.read(BLOCK_BYTES)):
                return

    def _spool(self, request: FrontRequest) -> IO[bytes]:
        """A buffer for the data of an INSERT: in memory, or in a file if it may be large."""
        length = self._body_length()
        if (
            length is None
            or length > SPOOL_BYTES
            or request.params.get("decompress")
            or self.headers.get("Content-Encoding")
        ):
            return tempfile.TemporaryFile()
        return os.fdopen(os.memfd_create("insert"), "w+b")

    def _query(self, connection: Any, query: str, request: FrontRequest, statement: Statement, begun: int) -> None:
        wanted = statement.format or request.params.get("default_format") or "TabSeparated"
        params = request.parameters()
        if statement.kind in ("select", "with") and wanted.lower() in STREAMED:
            with engine_errors():
                stream = connection.send_query(query, wanted, params=params)
                try:
                    first = stream.fetch()
                    if first is not None:
                        blocks = self._blocks(stream, first, wanted.lower() == "arrowstream")
                        self._stream(blocks, wanted, request, begun)
                        return
                finally:
                    stream.close()
        with engine_errors():
            result = connection.query(query, wanted, params=params)
            counts = {"read_rows": result.rows_read(), "read_bytes": result.bytes_read()}
            if statement.kind == "insert":
                counts["written_rows"] = result.rows_written()
            headers = self._result_headers(counts, begun)
            if statement.gives_rows:
                headers["X-ClickHouse-Format"] = wanted
            self._send(200, bytes(result.bytes()), headers, request.params)

    @staticmethod
    def _blocks(stream: Any, first: Any, arrow: bool) -> Iterator[bytes]:
        """The engine's blocks as one stream; for Arrow with one schema and one end marker."""
        block = first
        while block is not None:
            data = bytes(block.bytes())
            if arrow:
                start = 0 if block is first else 8 + int.from_bytes(data[4:8], "little")
                data = data[start:].removesuffix(_ARROW_END)
            yield data
            block = stream.fetch()
        if arrow:
            yield _ARROW_END

    def _stream(self, blocks: Iterator[bytes], wanted: str, request: FrontRequest, begun: int) -> None:
        tag = secrets.token_hex(8)
        headers = self._result_headers({}, begun)
        headers |= {"X-ClickHouse-Format": wanted, "X-ClickHouse-Exception-Tag": tag, "Transfer-Encoding": "chunked"}
        encoding, compressor = self._encoding(request.params)
        if encoding:
            headers["Content-Encoding"] = encoding
        self._begin(200, headers)
        try:
            for block in blocks:
                self._chunk(compressor.compress(block))
        except RuntimeError as error:
            # Too late for a status: the error is sent in the stream between marks, and the stream is not terminated.
            text = EngineError(str(error)).text.encode()
            mark = b"\r\n__exception__\r\n%b\r\n%b\n%d %b\r\n__exception__\r\n"
            self._chunk(compressor.compress(mark % (tag.encode(), text, len(text) + 1, tag.encode())))
            self._chunk(compressor.flush())
            self.close_connection = True
            self.wfile.flush()
            return
        self._chunk(compressor.flush())
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n" % len(data))
            self.wfile.write(data)
            self.wfile.write(b"\r\n")

    def _encoding(self, params: dict[str, str]) -> tuple[str, Any]:
        return choose_encoding(
            self.headers.get("Accept-Encoding", "") if params.get("enable_http_compression") == "1" else ""
        )

    def _result_headers(self, counts: dict[str, int], begun: int) -> dict[str, str]:
        names = ("read_rows", "read_bytes", "written_rows", "written_bytes")
        summary = {name: str(counts.get(name, 0)) for name in names}
        summary["elapsed_ns"] = str(time.monotonic_ns() - begun)
        return {
            "X-ClickHouse-Query-Id": self._query_id,
            "X-ClickHouse-Timezone": self.server.engine.timezone,
            "X-ClickHouse-Summary": json.dumps(summary),
        }

    def _begin(self, status: int, headers: dict[str, str]) -> None:
        self._started = True
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, status: int, content: bytes, headers: dict[str, str], params: dict[str, str] | None = None) -> None:
        encoding, compressor = self._encoding(params or {})
        if encoding and content:
            content = compressor.compress(content) + compressor.flush()
            headers = {**headers, "Content-Encoding": encoding}
        self._begin(
            status, {"Content-Type": "text/plain; charset=UTF-8", **headers, "Content-Length": str(len(content))}
        )
        if self.command != "HEAD":
            self.wfile.write(content)

    def _fail(self, error: EngineError) -> None:
        if self._started:
            self.close_connection = True
            return
        headers = {"X-ClickHouse-Exception-Code": str(error.code)}
        text = f"{error.text} (version {self.server.engine.version})\n"
        try:
            self._send(_STATUS.get(error.code, 500), text.encode(errors="replace"), headers)
        except OSError:
            self.close_connection = True
