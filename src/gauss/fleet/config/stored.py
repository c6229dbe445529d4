"""Configs on their way to the store and back: secrets are taken out, kept if they are not given again, and masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gauss.fleet.config.clickhouse import ClickHouseConfig, join_dsn, masked_dsn, same_server, split_dsn
from gauss.fleet.config.file import PipelineFile, checked_text
from gauss.fleet.config.filters import FiltersConfig
from gauss.fleet.config.formats import PASSWORD, check_settings, registry_place, with_password, without_password
from gauss.fleet.config.kafka import KafkaConfig
from gauss.fleet.config.model import validated
from gauss.fleet.mapping.column import Mapping as ColumnMapping
from gauss.fleet.store.configs import Config, Kind
from gauss.fleet.store.differences import MASK
from gauss.model.errors import ConfigError

SECRETS = {Kind.KAFKA: ("saslPassword", "tlsKey")}
_DSN_PASSWORD = "dsn"


def kafka_to_store(given: Mapping[str, Any], old: Config | None) -> Config:
    """Secrets that are masked or left out are kept as long as the brokers and the user are the same: whoever may change
    an address must not get the secret of another sent there. An empty secret is removed."""
    secrets = {name: given.get(name, MASK) for name in SECRETS[Kind.KAFKA]}
    same = old is not None and _kafka_place(given) == _kafka_place(old.document)
    kept = dict(old.secrets) if old is not None and same else {}
    for name, value in secrets.items():
        if value == MASK:
            secrets[name] = kept.get(name, "")
            if name in given and name not in kept and old is not None and name in old.secrets:
                raise ConfigError(f"{name}: give it again, since the brokers or the user have changed")
    config = validated(KafkaConfig, {**given, **secrets})
    document = {key: value for key, value in config.to_document().items() if key not in secrets}
    check_settings(config.format, config.format_config)
    settings, password = without_password(config.format_config)
    if password is None or password == MASK:
        sealed = None if old is None else without_secrets(Kind.KAFKA, old)
        same_registry = sealed and registry_place(sealed.document["formatConfig"]) == registry_place(settings)
        known = sealed.secrets.get(PASSWORD) if sealed and same_registry else None
        if password == MASK and known is None:
            raise ConfigError(f"{PASSWORD}: give it again, since the registry or its user has changed")
        password = known
    secrets[PASSWORD] = password or ""
    return Config({**document, "formatConfig": settings}, {name: value for name, value in secrets.items() if value})


def _kafka_place(document: Mapping[str, Any]) -> tuple[list[str], Any]:
    brokers = document.get("brokers")
    found = brokers.split(",") if isinstance(brokers, str) else brokers if isinstance(brokers, list) else []
    return sorted(str(each).strip() for each in found), document.get("saslUsername") or ""


def clickhouse_to_store(given: Mapping[str, Any], old: Config | None) -> Config:
    """As `kafka_to_store`, for the password in the DSN."""
    public, password = split_dsn(str(given.get("dsn", "")))
    if password == MASK or (not password and "@" in public):
        known = old is not None and same_server(public, old.document["dsn"])
        kept = old.secrets.get(_DSN_PASSWORD, "") if old is not None and known else ""
        if password == MASK and not kept:
            raise ConfigError("dsn: give the password again, since the server or the user has changed")
        password = kept
    config = validated(ClickHouseConfig, {**given, "dsn": join_dsn(public, password) if password else public})
    return Config({**config.to_document(), "dsn": public}, {_DSN_PASSWORD: password} if password else {})


def filters_to_store(given: Mapping[str, Any], _old: Config | None) -> Config:
    return Config(validated(FiltersConfig, given).to_document(), {})


def mapping_to_store(given: Mapping[str, Any], _old: Config | None) -> Config:
    return Config(validated(ColumnMapping, given).model_dump(mode="json", by_alias=True), {})


def file_to_store(given: Mapping[str, Any], _old: Config | None) -> Config:
    """A file has no secrets of its own: those are variables of the workers."""
    config = validated(PipelineFile, given)
    checked_text(config.text)
    return Config(config.to_document(), {})


TO_STORE = {
    Kind.KAFKA: kafka_to_store,
    Kind.CLICKHOUSE: clickhouse_to_store,
    Kind.FILTERS: filters_to_store,
    Kind.MAPPING: mapping_to_store,
    Kind.FILE: file_to_store,
}


def without_secrets(kind: Kind, config: Config) -> Config:
    """A stored config, without a password of a schema registry that its document may have: they were not sealed by
    earlier releases."""
    if kind is not Kind.KAFKA:
        return config
    settings, password = without_password(config.document.get("formatConfig", {}))
    if password is None:
        return config
    return config._replace(
        document={**config.document, "formatConfig": settings}, secrets={**config.secrets, PASSWORD: password}
    )


def shown(kind: Kind, config: Config) -> dict[str, Any]:
    """A config as the API returns it: with a mask for each secret that it has."""
    config = without_secrets(kind, config)
    document: dict[str, Any] = dict(config.document)
    if kind is Kind.KAFKA:
        document |= {name: MASK if name in config.secrets else "" for name in SECRETS[kind]}
        mask = MASK if PASSWORD in config.secrets else None
        document["formatConfig"] = with_password(document["formatConfig"], mask)
    if kind is Kind.CLICKHOUSE and _DSN_PASSWORD in config.secrets:
        document["dsn"] = masked_dsn(document["dsn"], MASK)
    return document


def kafka_of(config: Config) -> KafkaConfig:
    """The stored config with its secrets."""
    secrets = dict(config.secrets)
    settings = with_password(config.document["formatConfig"], secrets.pop(PASSWORD, None))
    return validated(KafkaConfig, {**config.document, **secrets, "formatConfig": settings})


def clickhouse_of(config: Config) -> ClickHouseConfig:
    """The stored config with its password."""
    password = config.secrets.get(_DSN_PASSWORD)
    dsn = config.document["dsn"]
    return validated(ClickHouseConfig, {**config.document, "dsn": join_dsn(dsn, password) if password else dsn})
