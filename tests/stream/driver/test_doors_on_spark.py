"""Ports of Spark reject clients without the secret unread, and no process shows a setting."""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path
from typing import Any

import psutil
import pytest

from gauss.config.spec import SparkSection
from gauss.model.paths import DataDir
from gauss.spark.session import settings

pytestmark = pytest.mark.spark

RPC_REQUEST, ONE_WAY, STREAM_REQUEST = 3, 9, 6
MARK = "no.such.Marker"
"""A class that Java would look for, and report as missing, if it deserialised the object."""


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def java_object(name: str) -> bytes:
    """A serialised object without fields."""
    return b"\xac\xed\x00\x05sr" + text(name) + b"\x00" * 7 + b"\x01\x02\x00\x00xp"


def request(kind: int, body: bytes) -> bytes:
    head = bytes([kind]) + (struct.pack(">q", 7) if kind == RPC_REQUEST else b"") + struct.pack(">i", len(body))
    return struct.pack(">q", 8 + len(head) + len(body)) + head + body


def messages() -> list[bytes]:
    """An object for an endpoint of the driver, and one for the block manager."""
    address = b"\x01" + text("127.0.0.1") + struct.pack(">i", 1)
    to_endpoint = address + address + text("endpoint-verifier") + java_object(MARK)
    asks = request(RPC_REQUEST, to_endpoint)
    stream = bytes([STREAM_REQUEST]) + struct.pack(">i", 12) + b"/jars/a.jar0"
    return [asks, request(ONE_WAY, to_endpoint), struct.pack(">q", 8 + len(stream)) + stream]


def answer(port: int, message: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(message)
        with contextlib.suppress(OSError):  # the peer may have closed the connection already
            client.shutdown(socket.SHUT_WR)
        found = b""
        while True:
            try:
                more = client.recv(65536)
            except ConnectionResetError:
                return found
            if not more:
                return found
            found += more


def jvm(spark: Any) -> psutil.Process:
    return psutil.Process(spark.sparkContext._gateway.proc.pid)


def listening(process: psutil.Process) -> list[Any]:
    return [each for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN]


def test_every_port_of_the_jvm_is_on_loopback(spark: Any) -> None:
    found = listening(jvm(spark))
    assert len(found) >= 2  # those of the driver and of the block manager
    assert {each.laddr.ip.removeprefix("::ffff:") for each in found} == {"127.0.0.1"}


def test_an_object_of_a_stranger_is_not_deserialised_at_any_port(spark: Any) -> None:
    for each in listening(jvm(spark)):
        for message in messages():
            found = answer(each.laddr.port, message)
            assert b"ClassNotFoundException" not in found, f"port {each.laddr.port} read the object: {found!r}"


def test_py4j_obeys_no_stranger(spark: Any) -> None:
    gateway = spark.sparkContext._gateway.gateway_parameters.port
    found = answer(gateway, b"c\nz:java.lang.System\ngetenv\nsPATH\ne\n")
    assert found.startswith(b"!x") and b"/bin" not in found  # an error instead of a value


def test_the_session_still_runs_jobs_and_their_python(spark: Any) -> None:
    assert spark.sparkContext.parallelize(range(10), 2).map(lambda n: n * 2).sum() == 90


def test_a_setting_is_in_no_command_line_and_left_in_no_file(spark: Any, tmp_path: Path) -> None:
    given = settings(SparkSection(), DataDir(tmp_path), standing=8)  # as in the fixture
    assert spark._jvm.System.getProperty("spark.master") == given["spark.master"]  # Java has received it
    assert "--conf" not in jvm(spark).cmdline()
    assert "--properties-file" in jvm(spark).cmdline()
    named = jvm(spark).cmdline()[jvm(spark).cmdline().index("--properties-file") + 1]
    assert not Path(named).exists()


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,4]"])
def test_local_mode_authenticates(tmp_path: Path, master: str) -> None:
    assert settings(SparkSection(master=master), DataDir(tmp_path))["spark.authenticate"] == "true"


def test_a_cluster_authenticates_with_the_secret_of_the_config(tmp_path: Path) -> None:
    conf = {"spark.authenticate.secret": "s3cret"}
    found = settings(SparkSection(master="spark://h:7077", conf=conf), DataDir(tmp_path))
    assert found["spark.authenticate"] == "true" and found["spark.authenticate.secret"] == "s3cret"
    plain = settings(SparkSection(master="spark://h:7077"), DataDir(tmp_path))
    assert "spark.authenticate" not in plain
