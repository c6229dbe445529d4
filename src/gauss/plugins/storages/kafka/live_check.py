"""What `gauss check` asks the brokers: whether they answer, and whether topics are there or can be created."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import cast

from gauss.clients.kafka.admin import Admin, Topic
from gauss.clients.kafka.settings import KafkaSettings
from gauss.clients.kafka.transaction import TransactionalProducer
from gauss.contracts.shared_log import TopicFinding, TopicToCheck
from gauss.model.errors import ConfigError, GaussError, NotFound, Unavailable
from gauss.model.units import counted
from gauss.plugins.storages.kafka.spec import WITHOUT_TRANSACTIONS, KafkaTopicConfig

_KEYS = {
    "REPLICATION": "replication",
    "INVALID_PARTITIONS": "partitions",
    "INVALID_CONFIG": "topic_config",
    "ca_file": "security_protocol",
}
"""Settings by words of errors."""
ANSWER_MS = 5_000
"""Time for one answer. A run waits for `request_timeout`."""
TRANSACTION_MS = 10_000
"""The first transaction of a cluster makes the brokers create a topic of their own."""
CLEANUP = "cleanup.policy"
TRANSACTIONAL_ID = "gauss.check"
"""No writer of a run has it: a second producer of an id ends the transactions of the first."""


def check_topics(topics: Sequence[TopicToCheck]) -> Iterator[TopicFinding]:
    """A `LiveCheck`. Each cluster and login is asked once about its answers and its transactions."""
    clusters = _Clusters()
    for topic in topics:
        config = cast(KafkaTopicConfig, topic.config)
        try:
            yield TopicFinding(topic.name, "success", _state(clusters.admin(config), config, config.name(topic.name)))
        except NotFound as error:
            hint = f"create topic {config.name(topic.name)} in Kafka, or set create = true"
            yield TopicFinding(topic.name, "failed", error.message, hint, "topic" if config.topic else "create")
        except Unavailable as error:
            clusters.away(config, error)
            message = f"the Kafka brokers {', '.join(config.brokers)} do not answer: {error.message}"
            hint = "start them, or correct the addresses: a run does not start without them"
            yield TopicFinding(topic.name, "failed", message, hint, "brokers")
        except GaussError as error:
            yield TopicFinding(topic.name, "failed", error.message, error.hint, _key(config, error))
        else:
            if topic.snapshots and (policy := _policy(clusters.admin(config), config, config.name(topic.name))):
                yield _not_compacted(topic.name, policy, "key" if config.key else "key_field")
            tried = topic.written and config.transactions
            if tried and (refused := clusters.refusal_of_transactions(config, config.name(topic.name))) is not None:
                yield _without_transactions(topic.name, refused)


def _state(admin: Admin, config: KafkaTopicConfig, name: str) -> str:
    """What the topic is, or will be. Raises if it is missing and can't be created."""
    try:
        found = admin.describe(name)
    except NotFound:
        if not config.create:
            raise
        admin.try_create(name, config.partitions, replication=config.replication, config=config.topic_config)
        return f"Kafka has no topic {name} yet: a run creates it with {counted(config.partitions, 'partition')}"
    return f"topic {name} of Kafka has {_described(found, config)}"


def _described(found: Topic, config: KafkaTopicConfig) -> str:
    count = len(found.partitions)
    parts = [counted(count, "partition")]
    if "partitions" in config.model_fields_set and config.partitions != count:
        parts.append(f"not {config.partitions}: an existing topic is not changed")
    if without := [str(each.number) for each in found.partitions if each.leader < 0]:
        parts.append(f"of which {', '.join(without)} can't be used now: no broker leads them")
    return ", ".join(parts)


def _policy(admin: Admin, config: KafkaTopicConfig, name: str) -> str:
    """The cleanup policy of a topic that is not compacted; empty if it is, or if this login may not ask for it."""
    try:
        policy = admin.setting(name, CLEANUP)
    except NotFound:  # a run creates it
        policy = config.topic_config.get(CLEANUP, "delete")
    except GaussError:
        return ""
    return "" if "compact" in policy else policy


def _not_compacted(topic: str, policy: str, key: str) -> TopicFinding:
    message = f"it is not compacted ({CLEANUP} = {policy}): each snapshot reads all of its records"
    hint = f"set {CLEANUP} to compact, in Kafka or, before the topic is created, in topic_config"
    return TopicFinding(topic, "warning", message, hint, key)


def _key(config: KafkaTopicConfig, error: GaussError) -> str:
    """The setting that an error is about."""
    if "username" in error.hint:
        return "password" if config.password else "security_protocol"
    return next((key for word, key in _KEYS.items() if word in error.message or word in error.hint), "")


def _without_transactions(topic: str, refused: GaussError) -> TopicFinding:
    if isinstance(refused, ConfigError):
        message = (
            f"no exactly once: the brokers refuse transactions, in which processors on Spark write: {refused.message}"
        )
        return TopicFinding(topic, "failed", message, WITHOUT_TRANSACTIONS, "brokers")
    message = f"the brokers did not begin a transaction within {TRANSACTION_MS // 1000} s: {refused.message}"
    return TopicFinding(topic, "warning", message, "processors on Spark write in transactions, and retry", "brokers")


class _Clusters:
    """Clients by cluster and login, and what they have learned."""

    def __init__(self) -> None:
        self._admins: dict[str, Admin] = {}
        self._away: dict[str, Unavailable] = {}
        self._refusals: dict[str, GaussError | None] = {}

    def admin(self, config: KafkaTopicConfig) -> Admin:
        """Raises Unavailable at once if its brokers did not answer before."""
        if (away := self._away.get(_login(config))) is not None:
            raise away
        return self._admins.setdefault(_login(config), Admin(_hurried(config, ANSWER_MS)))

    def away(self, config: KafkaTopicConfig, error: Unavailable) -> None:
        self._away[_login(config)] = error

    def refusal_of_transactions(self, config: KafkaTopicConfig, topic: str) -> GaussError | None:
        """Why a transaction with a position can't be written; `None` if it can."""
        key = _login(config)
        if key not in self._refusals:
            try:
                self._try_transaction(config, topic)
                self._refusals[key] = None
            except GaussError as error:
                self._refusals[key] = error
        return self._refusals[key]

    def _try_transaction(self, config: KafkaTopicConfig, topic: str) -> None:
        """Begins a transaction and, if the topic exists, makes a position part of it; then aborts it."""
        with TransactionalProducer(_hurried(config, TRANSACTION_MS), TRANSACTIONAL_ID) as producer:
            producer.begin()
            with suppress(NotFound):
                producer.position(TRANSACTIONAL_ID, topic, 0, 0, {})


def _login(config: KafkaTopicConfig) -> str:
    return repr([(name, getattr(config, name)) for name in KafkaSettings.model_fields])


def _hurried(config: KafkaTopicConfig, most_ms: int) -> KafkaTopicConfig:
    return config.model_copy(update={"request_timeout": min(most_ms, config.request_timeout)})
