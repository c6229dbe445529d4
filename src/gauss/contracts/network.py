"""Addresses and allow lists in configs."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator

EVERYBODY = ("0.0.0.0/0", "::/0")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _network(value: str) -> str:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError as error:
        raise ValueError(f'expected an address or a network such as "10.0.0.0/8" ({error})') from error
    return value


Network = Annotated[str, AfterValidator(_network)]
"""An address or a network, as text."""


class Networks:
    """Networks that may connect. Empty: all may."""

    def __init__(self, entries: Sequence[str]) -> None:
        self._networks = [ipaddress.ip_network(entry, strict=False) for entry in entries]

    def allow(self, host: str) -> bool:
        """Whether a peer may connect. An IPv4 peer of an IPv6 listener is checked by its IPv4 address."""
        if not self._networks:
            return True
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return False
        plain = getattr(address, "ipv4_mapped", None) or address
        return any(plain in network for network in self._networks)
