"""A server that answers psql and keeps what psql sends, to the byte."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from gauss.clients.postgres.binaries import bin_folder, run_as
from gauss.dbstates.planning.lexer import Unterminated, normalized

_PARAMETERS = {
    "server_version": "18.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
}


class PsqlListener:
    """Every query succeeds without rows; COPY FROM stdin takes its rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.received: list[tuple[str, bytes]] = []
        """`query` and its text, or `rows` and their bytes."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(folder / ".s.PGSQL.5432"))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> PsqlListener:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def run(self, args: Sequence[str], cwd: Path, psql: Path | None = None) -> list[tuple[str, bytes]]:
        """What psql sends when it runs with these arguments."""
        self.received = []
        program = psql or bin_folder(run_as()) / "psql"
        env = {"PATH": os.environ["PATH"], "PGHOST": str(self.folder), "PGUSER": "u", "PGDATABASE": "d"}
        subprocess.run(
            [str(program), "-X", "-q", *args],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        return self.received

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rwb") as stream:
                (length,) = struct.unpack("!i", stream.read(4))
                stream.read(length - 4)
                found = [b"R" + struct.pack("!ii", 8, 0)]
                for name, value in _PARAMETERS.items():
                    found.append(_message(b"S", name.encode() + b"\0" + value.encode() + b"\0"))
                stream.write(b"".join(found) + _READY)
                stream.flush()
                self._answer(stream)

    def _answer(self, stream) -> None:  # type: ignore[no-untyped-def]
        rows = list[bytes]()
        while (head := stream.read(5)) and head[:1] != b"X":
            body = stream.read(struct.unpack("!i", head[1:])[0] - 4)
            if head[:1] == b"Q":
                query = body[:-1]
                self.received.append(("query", query))
                copies = _copies(query)
                stream.write(_message(b"G", b"\0\0\0") if copies else _message(b"C", b"DO\0") + _READY)
            elif head[:1] == b"d":
                rows.append(body)
                continue
            elif head[:1] in (b"c", b"f"):
                self.received.append(("rows", b"".join(rows)))
                rows.clear()
                stream.write(_message(b"C", b"COPY 0\0") + _READY)
            stream.flush()


def _copies(query: bytes) -> bool:
    try:
        found = [token.lower() for token in normalized(query)]
    except Unterminated:
        return False
    return b"copy" in found and b"stdin" in found


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


_READY = b"Z" + struct.pack("!i", 5) + b"I"
