from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading

import pyarrow as pa
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from gauss.clients.clickhouse.connect import connect
from gauss.clients.clickhouse.errors import sort_error
from gauss.clients.clickhouse.types import parse_type
from gauss.clients.clickhouse.write import ClickHouseTarget, insert
from gauss.clients.endpoint import Endpoint
from gauss.clients.errors import RowError, Unclear
from gauss.model.errors import ConfigError, DiskFull, GaussError, StorageError, Unavailable
from helpers.run import free_port


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (252, Unavailable),
        (241, Unavailable),
        (159, Unclear),
        (319, Unclear),
        (243, DiskFull),
        (349, RowError),
        (27, RowError),
        (60, ConfigError),
        (516, ConfigError),
        (62, ConfigError),
        (49, StorageError),
    ],
)
def test_error_code_decides_class_and_hint(code: int, kind: type[GaussError]) -> None:
    text = f"Received ClickHouse exception, server response: Code: {code}. DB::Exception: Why. (X) (version 1)"
    found = sort_error(DatabaseError(text, code=code))
    assert type(found) is kind and found.message == "ClickHouse: Why. (X)" and found.hint
    assert found.retryable == (kind in (Unavailable, Unclear, DiskFull))


def test_stopped_server_is_unavailable(clickhouse: Endpoint) -> None:
    with pytest.raises(Unavailable) as caught:
        connect(dataclasses.replace(clickhouse, port=free_port()))
    assert not isinstance(caught.value, Unclear)


REFUSED = (
    "Error HTTPConnectionPool(host='127.0.0.1', port=81): Max retries exceeded with url: /?x=1 (Caused by "
    "NewConnectionError(\"HTTPConnection(host='127.0.0.1', port=81): Failed to establish a new connection: [Errno 111] "
    'Connection refused")) executing HTTP request attempt {attempt} (http://127.0.0.1:81)'
)


@pytest.mark.parametrize(("attempt", "kind"), [(1, Unavailable), (2, Unclear)])
def test_outcome_is_unclear_if_only_the_second_attempt_was_refused(attempt: int, kind: type[GaussError]) -> None:
    error = OperationalError(REFUSED.format(attempt=attempt))
    error.__cause__ = ConnectionRefusedError()
    found = sort_error(error)
    assert type(found) is kind
    assert found.message.endswith("Connection refused (127.0.0.1:81)")


def test_wrong_password_is_a_config_error_without_the_password(clickhouse: Endpoint) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(dataclasses.replace(clickhouse, password="wrong-secret"))
    assert "wrong-secret" not in str(caught.value) and "password" in caught.value.hint


class Swallower:
    """Stands before a server; once deaf, it takes what comes and hangs up."""

    def __init__(self, upstream: Endpoint) -> None:
        self.deaf = False
        self._upstream = (upstream.host, upstream.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(self._upstream)
            threading.Thread(target=self._pump, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, False), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, asking: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if asking and self.deaf:
                    break
                target.sendall(data)
            for side in (source, target):
                side.shutdown(socket.SHUT_RDWR)


def test_insert_without_an_answer_is_unclear(clickhouse: Endpoint) -> None:
    between = Swallower(clickhouse)
    with connect(dataclasses.replace(clickhouse, port=between.port)) as client:
        between.deaf = True
        with pytest.raises(Unclear):
            insert(client, ClickHouseTarget("t", {"a": parse_type("Int64")}), pa.table({"a": [1]}), token="a")
