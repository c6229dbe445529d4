"""Listeners beyond loopback and transfers in plain text need explicit settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gauss.config.check import Checked
from helpers.certificates import Authority

Judge = Callable[[str], Checked]
ALLOW = 'allow = ["10.0.0.0/8"]'


@pytest.fixture
def certificates(tmp_path: Path) -> None:
    Authority(tmp_path).issue("server")


TLS = 'tls = { cert = "server.pem", key = "server.key" }'
CLIENTS = 'tls = { cert = "server.pem", key = "server.key", ca = "ca.pem" }'


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "", "some-name"])
@pytest.mark.parametrize("section", ["api", "engine"])
def test_section_that_listens_beyond_loopback_says_what_to_add(
    judge: Judge, sound: str, section: str, host: str
) -> None:
    [fault] = judge(f'{sound}[{section}]\nhost = "{host}"\n').errors
    assert fault.path == f"{section}.host"
    assert f"[{section}]: a listener on {host} can be reached from other machines" in fault.message
    assert 'allow = ["10.0.0.0/8"]' in fault.hint and ("tls" in fault.hint) == (section == "api")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
@pytest.mark.parametrize("section", ["api", "engine"])
def test_section_on_loopback_needs_nothing(judge: Judge, sound: str, section: str, host: str) -> None:
    assert judge(f'{sound}[{section}]\nhost = "{host}"\n').errors == []


@pytest.mark.usefixtures("certificates")
@pytest.mark.parametrize("guard", [f"[api]\n{TLS}", f"[api]\n{ALLOW}", f"[api]\n{TLS}\n{ALLOW}", f"[engine]\n{ALLOW}"])
def test_section_beyond_loopback_with_a_guard_is_sound(judge: Judge, sound: str, guard: str) -> None:
    assert judge(f'{sound}{guard}\nhost = "0.0.0.0"\n').errors == []


def test_certificate_that_is_not_there_is_a_fault(judge: Judge, sound: str) -> None:
    faults = judge(f"{sound}[api]\n{TLS}\n").errors
    assert [fault.path for fault in faults] == ["api.tls.cert", "api.tls.key"]


@pytest.mark.usefixtures("certificates")
@pytest.mark.parametrize("port", [9100, 9300])
@pytest.mark.parametrize(("guard", "sane"), [("", False), (TLS, False), (ALLOW, True), (CLIENTS, True)])
def test_tcp_listener_beyond_loopback_needs_a_list_or_client_certificates(
    judge: Judge, sound: str, port: int, guard: str, sane: bool
) -> None:
    given = ", ".join(filter(None, ['host = "0.0.0.0"', guard, f"port = {port}"]))
    errors = judge(sound.replace(f"port = {port}", given)).errors
    assert not errors if sane else '"allow"' in errors[0].message and '"ca"' in errors[0].message


WS = """
[[processors]]
name = "view"
plugin = "ws-sink"
source = { topic = "quotes", read = "offset" }
config = { port = 9400, host = "0.0.0.0", GUARD }
"""


@pytest.mark.usefixtures("certificates")
@pytest.mark.parametrize(
    ("guard", "sane"),
    [
        ("", False),
        ('token = "secret"', False),
        (TLS, False),
        (f'{TLS}, token = "secret"', True),
        (CLIENTS, True),
        (ALLOW, True),
    ],
)
def test_ws_sink_beyond_loopback_needs_a_token_with_tls_or_a_list(
    judge: Judge, sound: str, guard: str, sane: bool
) -> None:
    errors = judge(sound + WS.replace("GUARD", guard).replace(", }", " }")).errors
    assert not errors if sane else "can be reached from other machines" in errors[0].message


TABLE = '[[topics]]\nname = "table"\nstorage = "{}"\nstorage_config = {{ {} }}\n'


@pytest.mark.parametrize(
    ("storage", "config", "hint"),
    [
        ("clickhouse", 'host = "db.example"', "secure = true"),
        ("clickhouse", 'host = "db.example", secure = true', ""),
        ("clickhouse", 'host = "db.example", secure = false', ""),
        ("clickhouse", 'host = "127.0.0.1"', ""),
        ("clickhouse", "", ""),
        ("postgres", 'host = "db.example"', 'sslmode = "verify-full"'),
        ("postgres", 'host = "db.example", sslmode = "disable"', ""),
        ("postgres", 'host = "localhost"', ""),
        ("postgres", 'dsn = "postgresql://me:planted@db.example/x"', "sslmode=verify-full"),
        ("postgres", 'dsn = "postgresql://me:planted@db.example/x?sslmode=require"', ""),
        ("postgres", 'dsn = "host=db.example password=planted"', "sslmode=verify-full"),
        ("postgres", 'dsn = "postgresql://me@127.0.0.1/x"', ""),
        ("postgres", "", ""),
    ],
)
def test_password_that_may_go_out_as_plain_text_is_a_warning(
    judge: Judge, sound: str, storage: str, config: str, hint: str
) -> None:
    checked = judge(sound + TABLE.format(storage, config))
    told = [fault for fault in checked.warnings if "plain text" in fault.message]
    assert checked.errors == [] and len(told) == bool(hint)
    for fault in told:
        assert hint in fault.hint and "planted" not in str(fault)


@pytest.mark.parametrize(
    ("spark", "warned"),
    [
        ('master = "spark://spark.example:7077"', True),
        ('master = "spark://spark.example:7077"\nconf = { "spark.authenticate.secret" = "planted" }', False),
        ('master = "spark://127.0.0.1:7077"', False),
        ('master = "local[2]"', False),
    ],
)
def test_cluster_without_a_secret_is_a_warning(judge: Judge, sound: str, spark: str, warned: bool) -> None:
    checked = judge(f"[spark]\n{spark}\n{sound}")
    assert checked.errors == []
    assert any("no secret is set" in fault.message for fault in checked.warnings) is warned
    assert "planted" not in str(checked.warnings)


def test_kafka_on_another_machine_without_a_word_on_encryption_is_a_warning(judge: Judge, sound: str) -> None:
    topic = '[[topics]]\nname = "of-others"\nstorage = "kafka"\nstorage_config = { brokers = ["kafka:9092"] }\n'
    (fault,) = judge(sound + topic).warnings
    assert "may go to kafka as plain text" in fault.message and "security_protocol" in fault.hint
    assert judge(sound + topic.replace(" }", ', security_protocol = "plaintext" }')).faults == []
