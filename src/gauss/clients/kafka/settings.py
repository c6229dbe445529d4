"""The keys of a config that name a Kafka cluster, and the settings of librdkafka that they become."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.plugin import Millis, PluginConfig

_BROKER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/@,\[\]]+):(\d{1,5})")


def _broker(address: str) -> str:
    found = _BROKER.fullmatch(address)
    if not found or not 0 < int(found[1]) < 65_536:
        raise ValueError('expected "host:port", such as "127.0.0.1:9092"')
    return address


class KafkaSettings(PluginConfig):
    """The keys that name a cluster and the way to log in to it."""

    brokers: Annotated[list[Annotated[str, AfterValidator(_broker)]], Field(min_length=1)]
    """Brokers to connect to first, as `["host:port"]`; the others of the cluster are found through them."""
    security_protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = "plaintext"
    """`ssl`: TLS; `sasl_…`: log in with `username` and `password`."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    """With `sasl_plaintext` and `sasl_ssl`."""
    username: str = ""
    """With `sasl_plaintext` and `sasl_ssl`."""
    password: Annotated[str, Field(repr=False)] = ""
    """With `username`; write it as `${NAME}` or `${file:path}`."""
    ca_pem: str = ""
    """TLS: the authority that signed the brokers' certificates, as PEM text. Default: those of the system."""
    ca_file: Path | None = None
    """The same, as a PEM file."""
    certificate_pem: str = ""
    """TLS: this client's own certificate, as PEM text."""
    certificate_file: Path | None = None
    """The same, as a PEM file."""
    private_key_pem: Annotated[str, Field(repr=False)] = ""
    """The key of the certificate, as PEM text; write it as `${NAME}` or `${file:path}`."""
    private_key_file: Path | None = None
    """The same, as a PEM file."""
    private_key_password: Annotated[str, Field(repr=False)] = ""
    """The password of an encrypted key."""
    connect_timeout: Annotated[Millis, Field(gt=0)] = 10_000
    """Maximum time for one connection, TLS and login included."""
    request_timeout: Annotated[Millis, Field(gt=0)] = 30_000
    """Maximum time for one answer of a broker."""

    def encryption_hint(self) -> str:
        """What to add to the config if it does not say whether the connection is encrypted."""
        if "security_protocol" in self.model_fields_set:
            return ""
        return 'set security_protocol = "ssl" or "sasl_ssl", or "plaintext" if the network can be trusted'

    @property
    def _logs_in(self) -> bool:
        return self.security_protocol.startswith("sasl")

    @property
    def _encrypts(self) -> bool:
        return self.security_protocol.endswith("ssl")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name in ("ca", "certificate", "private_key"):
            if getattr(self, f"{name}_pem") and getattr(self, f"{name}_file"):
                raise _fault(f"{name}_file", f"give {name}_pem or {name}_file, not both")
        if self._logs_in and not (self.username and self.password):
            key = "password" if self.username else "username"
            raise _fault(key, f'security_protocol = "{self.security_protocol}" needs username and password')
        for key in ("username", "password", "sasl_mechanism"):
            if key in self.model_fields_set and not self._logs_in:
                raise _fault(key, f'{key} needs security_protocol = "sasl_ssl" or "sasl_plaintext"')
        for key in sorted(self.model_fields_set):
            if key.startswith(("ca_", "certificate_", "private_key_")) and not self._encrypts:
                raise _fault(key, f'{key} needs security_protocol = "ssl" or "sasl_ssl"')
        has_key = bool(self.private_key_pem or self.private_key_file)
        if has_key != bool(self.certificate_pem or self.certificate_file):
            key = "private_key_file" if has_key else "certificate_file"
            raise _fault(key, "a client's certificate and its private key need each other: give both or neither")
        return self


def _fault(key: str, sentence: str) -> PydanticCustomError:
    return PydanticCustomError("kafka", sentence, {"key": key})


def client_conf(settings: KafkaSettings) -> dict[str, str]:
    """The settings of librdkafka that every client of the cluster has."""
    conf = {
        "bootstrap.servers": ",".join(settings.brokers),
        "client.id": "gauss",
        "security.protocol": settings.security_protocol,
        "socket.connection.setup.timeout.ms": str(max(1_000, settings.connect_timeout)),
        "socket.timeout.ms": str(settings.request_timeout),
        "socket.keepalive.enable": "true",
        "reconnect.backoff.ms": "50",
        "reconnect.backoff.max.ms": "1000",
        # Errors are raised or returned; the log repeats each of them on stderr for every broker and attempt.
        "log_level": "0",
    }
    if settings._logs_in:
        conf["sasl.mechanism"] = settings.sasl_mechanism
        conf["sasl.username"] = settings.username
        conf["sasl.password"] = settings.password
    for name, key in (("ca", "ssl.ca"), ("certificate", "ssl.certificate"), ("private_key", "ssl.key")):
        if text := getattr(settings, f"{name}_pem"):
            conf[f"{key}.pem"] = text
        elif file := getattr(settings, f"{name}_file"):
            conf[f"{key}.location"] = str(file)
    if settings.private_key_password:
        conf["ssl.key.password"] = settings.private_key_password
    return conf
