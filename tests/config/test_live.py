from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from gauss.config.listeners import Address
from gauss.config.live import CheckMark, check_connections, check_disk, check_java, check_ports


def fake_java(folder: Path, answer: str) -> None:
    """A `java` that only prints its version."""
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(
    ("answer", "mark"),
    [
        ('openjdk version "17.0.9" 2023-10-17', CheckMark.OK),
        ('openjdk version "21" 2023-09-19', CheckMark.OK),
        ('java version "1.8.0_392"', CheckMark.FAIL),
        ('openjdk version "11.0.21" 2023-10-17', CheckMark.FAIL),
        ("something else", CheckMark.WARN),
    ],
)
def test_java_is_judged_by_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, mark: CheckMark
) -> None:
    fake_java(tmp_path, answer)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java().mark is mark


def test_java_that_is_missing_fails_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    phase = check_java()
    assert phase.mark is CheckMark.FAIL
    assert "install Java 17" in phase.hint


def test_java_home_without_a_java_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java().mark is CheckMark.FAIL


def test_port_in_use_fails_and_is_free_again_after() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("out", "127.0.0.1", taken.getsockname()[1], True)
        [phase] = check_ports([address])
        assert phase.mark is CheckMark.FAIL
        assert "in use" in phase.detail
    [phase] = check_ports([address])
    assert phase.mark is CheckMark.OK


def test_address_of_another_machine_fails() -> None:
    [phase] = check_ports([Address("out", "192.0.2.1", 9100, True)])
    assert phase.mark is CheckMark.FAIL
    assert "address of this machine" in phase.hint


def test_free_port_and_clients_are_not_probed_for_listening() -> None:
    assert list(check_ports([Address("a", "127.0.0.1", 0, True), Address("b", "127.0.0.1", 9, False)])) == []


def test_disk_is_measured_where_the_data_would_go(tmp_path: Path) -> None:
    assert check_disk(tmp_path / "not" / "there" / ".gauss", 1).mark is CheckMark.OK
    phase = check_disk(tmp_path, 1 << 62)
    assert phase.mark is CheckMark.FAIL
    assert "min_free_bytes" in phase.hint


def test_peer_that_does_not_answer_is_a_warning() -> None:
    with socket.create_server(("127.0.0.1", 0)) as peer:
        address = Address("push", "127.0.0.1", peer.getsockname()[1], False)
        [phase] = check_connections([address])
        assert phase.mark is CheckMark.OK
    [phase] = check_connections([address])
    assert phase.mark is CheckMark.WARN
    assert "push can't reach 127.0.0.1" in phase.detail
