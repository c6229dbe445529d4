"""`tls = { … }` as both TCP transports write it; which keys are needed depends on the side."""

from __future__ import annotations

from pathlib import Path

from gauss.contracts.plugin import PluginConfig


class TlsConfig(PluginConfig):
    """TLS of a listener or of an outgoing connection; relative paths start at the config file."""

    cert: Path | None = None
    """Certificate chain (PEM) shown to the other side; a server must have one."""
    key: Path | None = None
    """Private key (PEM) of `cert`."""
    ca: Path | None = None
    """Certificates (PEM) that the other side is checked against. At a server it demands client certificates;
    at a client it replaces the system's."""
    verify: bool = True
    """False: a client takes any server certificate."""
    server_name: str | None = None
    """The name a client expects in the server's certificate; default: `host`."""
