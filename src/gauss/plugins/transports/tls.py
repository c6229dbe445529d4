"""TLS contexts of servers and clients, made at the start so that a bad file is reported then."""

from __future__ import annotations

import ssl
from pathlib import Path

from gauss.model.errors import ConfigError
from gauss.plugins.transports.tls_config import TlsConfig


def server_context(tls: TlsConfig, base_dir: Path) -> ssl.SSLContext:
    """Shows `cert`; with `ca`, a client without a certificate of that authority is refused."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_own(context, tls, base_dir)
    if tls.ca is not None:
        _load_ca(context, base_dir / tls.ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(tls: TlsConfig, base_dir: Path) -> ssl.SSLContext:
    """Checks the server against `ca` or the system's authorities, unless `verify` is false."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.ca is not None:
        _load_ca(context, base_dir / tls.ca)
    else:
        context.load_default_certs()
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert is not None:
        _load_own(context, tls, base_dir)
    return context


def _load_own(context: ssl.SSLContext, tls: TlsConfig, base_dir: Path) -> None:
    assert tls.cert is not None
    assert tls.key is not None
    try:
        context.load_cert_chain(base_dir / tls.cert, base_dir / tls.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"can't use certificate {tls.cert} with key {tls.key}: {_reason(error)}",
            hint="expected PEM files, the key belonging to the first certificate",
        ) from error


def _load_ca(context: ssl.SSLContext, path: Path) -> None:
    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"can't read certificates from {path}: {_reason(error)}", hint="expected a PEM file with certificates"
        ) from error


def _reason(error: OSError) -> str:
    return error.reason if isinstance(error, ssl.SSLError) and error.reason else (error.strerror or str(error))
