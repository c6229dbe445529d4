from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import flight

from gauss.config.spec import EngineSection
from gauss.stream.engine.server.flight import FlightServer


@pytest.mark.parametrize(
    ("peer", "allowed"),
    [
        ("ipv4:127.0.0.1:4567", True),
        ("ipv6:%5B::1%5D:4567", True),
        ("ipv6:[::1]:4567", True),
        ("ipv4:192.0.2.7:4567", True),
        ("ipv4:10.1.2.3:4567", True),
        ("ipv6:%5B::ffff:10.1.2.3%5D:4567", True),
        ("ipv4:198.51.100.1:4567", False),
        ("ipv6:%5B2001:db8::1%5D:4567", False),
        ("unix:", False),
    ],
)
def test_peer_is_on_this_machine_or_in_the_allow_list(peer: str, allowed: bool) -> None:
    section = EngineSection(host="192.0.2.7", allow=("10.0.0.0/8",))
    engine: Any = SimpleNamespace(pipeline=SimpleNamespace(engine=section))
    with FlightServer(engine, "grpc://127.0.0.1:0", "token") as server:
        if allowed:
            server.admit(peer)
            return
        with pytest.raises(flight.FlightUnauthorizedError, match=r"not in engine\.allow"):
            server.admit(peer)
