"""Free ports for servers that bind them later."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gauss.process.ports import LOWEST, free_port


def test_a_free_port_is_none_that_the_kernel_gives_to_clients() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(LOWEST <= free_port() < first or first <= LOWEST for _ in range(50))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_wanted_port_is_kept_until_somebody_has_it(host: str) -> None:
    wanted = free_port(host)
    assert free_port(host, wanted) == wanted
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, wanted), family=family):
        other = free_port(host, wanted)
    assert other != wanted
