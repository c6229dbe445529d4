from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from gauss.contracts.processor import LintContext
from gauss.plugins.processors.tcp_sink.spec import SPEC as SINK
from gauss.plugins.processors.tcp_source.spec import SPEC as SOURCE
from gauss.plugins.processors.tcp_source.spec import TcpSourceConfig

INPUT = {"framing": "newline", "delimiter": "\n"}


def fault(config: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        SOURCE.validate({"port": 9100, "input": INPUT, **config})
    (error,) = caught.value.errors()
    return str(error["msg"])


def test_a_port_and_an_input_are_enough() -> None:
    config = SOURCE.validate({"port": 9100, "input": INPUT})
    assert isinstance(config, TcpSourceConfig)
    assert config.transport_config() == ("tcp-server", {"port": 9100, "keepalive": "60000ms"})
    assert config.max_record_bytes == 16 << 20


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"host": "0.0.0.0"}, 'needs "allow"'),
        ({"transport": "tcp-client"}, 'needs a "host"'),
        ({"transport": "tcp-client", "host": "h", "max_connections": 5}, '"max_connections" belongs to'),
        ({"transport": "tcp-client", "host": "h", "tls": {"cert": "c.pem"}}, '"cert" and "key" go together'),
        ({"tls": {"ca": "ca.pem"}}, 'needs "cert" and "key"'),
        ({"allow": ["10.0.0.0/33"]}, "expected an address or a network"),
        ({"idle_timeout": 5}, "expected a duration"),
        ({"compression": "brotli"}, "gzip"),
        ({"prot": 9100}, "Extra inputs"),
    ],
)
def test_each_fault_is_told(config: dict[str, Any], told: str) -> None:
    assert told in fault(config)


def test_start_is_refused_with_latest_and_in_the_source() -> None:
    config = SINK.validate({"port": 1, "output": INPUT, "start": "end"})
    assert SINK.lint is not None
    assert SINK.lint(config, LintContext(input_fields=None, read="offset")) == []
    (told,) = SINK.lint(config, LintContext(input_fields=None, read="latest"))
    assert told.startswith('"start" does not apply')
    (told,) = SINK.lint(config, LintContext(input_fields=None, read="offset", start="end"))
    assert "move it from source" in told


def test_specs_load_without_heavy_modules() -> None:
    program = (
        "import sys, gauss.plugins.processors.tcp_source.spec, gauss.plugins.processors.tcp_sink.spec;"
        "print([m for m in ('numpy', 'pyarrow', 'pyspark', 'zstandard', 'ssl') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"
