"""The Kafka part of a pipeline's config."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, ValidationError, model_validator

from gauss.clients.kafka.settings import KafkaSettings
from gauss.fleet.config.model import ConfigModel, faults

Text = Annotated[str, Field(max_length=65_536)]
Offset = Annotated[int, Field(ge=0, lt=2**63)]


def _list(value: Any) -> Any:
    """Brokers may be one text, as ordinary tools take them."""
    return [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _partitions(value: dict[str, int]) -> dict[str, int]:
    if wrong := [key for key in value if not key.isdecimal() or len(key) > 9]:
        raise ValueError(f"expected the number of a partition, found {wrong[0]!r}")
    return value


StartOffset = Literal["earliest", "latest"] | AwareDatetime | Annotated[dict[str, Offset], AfterValidator(_partitions)]


class KafkaConfig(ConfigModel):
    """Where records come from."""

    brokers: Annotated[list[str], BeforeValidator(_list), Field(min_length=1, max_length=100)]
    """Brokers to connect to first, as `host:port`; a list, or one text with commas."""
    topic: Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
    """The topic."""
    group_id: Annotated[str, Field(max_length=255)] = ""
    """The consumer group that tools see. Default: one of this pipeline."""
    start_offset: StartOffset = "earliest"
    """Where partitions start that were never read: `earliest`, `latest`, a time in ISO 8601 with a zone, or an offset
    per partition (those that it does not name start at `earliest`)."""
    security_protocol: Annotated[Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"], BeforeValidator(_lower)] = (
        "plaintext"
    )
    """How to connect."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    """With `sasl_…`."""
    sasl_username: Text = ""
    """With `sasl_…`."""
    tls_ca: Text = ""
    """With `…ssl`: the authority that signed the brokers' certificates, as PEM. Default: those of the system."""
    tls_cert: Text = ""
    """With `…ssl`: the client's own certificate, as PEM."""
    format: Literal["json", "avro", "protobuf", "msgpack", "csv"] = "json"
    """The format of the records."""
    format_config: dict[str, Any] = Field(default={}, repr=False)
    """Settings of the format, such as its schema as `schema_text` or `proto_text`, or its schema `registry`, whose
    password is never returned."""
    sasl_password: Annotated[Text, Field(repr=False)] = ""
    """With `sasl_…`. Never returned."""
    tls_key: Annotated[Text, Field(repr=False)] = ""
    """The key of `tlsCert`, as PEM. Never returned."""

    @model_validator(mode="after")
    def _connects(self) -> Self:
        try:
            self.settings()
        except ValidationError as error:
            text = faults(error)
            for theirs, ours in _NAMES.items():
                text = text.replace(theirs, ours)
            raise ValueError(text) from None
        return self

    def settings(self) -> KafkaSettings:
        """The settings of clients of this cluster. What the protocol does not use is left out."""
        given: dict[str, Any] = {"brokers": self.brokers, "security_protocol": self.security_protocol}
        if self.security_protocol.startswith("sasl"):
            given |= {
                "sasl_mechanism": self.sasl_mechanism,
                "username": self.sasl_username,
                "password": self.sasl_password,
            }
        if self.security_protocol.endswith("ssl"):
            given |= {
                name: value
                for name, value in (
                    ("ca_pem", self.tls_ca),
                    ("certificate_pem", self.tls_cert),
                    ("private_key_pem", self.tls_key),
                )
                if value
            }
        return KafkaSettings.model_validate(given)

    def group_of(self, pipeline_id: str) -> str:
        return self.group_id or f"gauss-{pipeline_id}"


_NAMES = {
    "security_protocol": "securityProtocol",
    "sasl_mechanism": "saslMechanism",
    "private_key_file": "tlsKey",
    "certificate_file": "tlsCert",
    "username": "saslUsername",
    "password": "saslPassword",
}
"""The names of settings in messages of clients, and those of this config."""
