"""Topics, offsets and groups of a Kafka cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewPartitions, NewTopic

from gauss.clients.kafka.errors import ConnectionErrors, from_code, sorted_errors
from gauss.clients.kafka.settings import KafkaSettings, client_conf
from gauss.model.errors import ConfigError, GaussError, NotFound, Rejected, Unavailable

EARLIEST, LATEST = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
_LOOK_SECONDS = 0.1
_ATTEMPT_SECONDS = 5.0
_NO_OFFSET = -1001


@dataclass(frozen=True)
class Partition:
    number: int
    leader: int
    """The broker's id; -1 while there is none."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class Topic:
    name: str
    topic_id: str
    """Another one for each topic of this name: a deleted and re-created topic differs."""
    partitions: tuple[Partition, ...]


@dataclass(frozen=True)
class Committed:
    """A group's offset of one partition."""

    offset: int
    metadata: str


class Admin:
    """A client for everything but records. Usable from several threads."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._errors = ConnectionErrors()
        self._seconds = settings.request_timeout / 1000
        self._conf: dict[str, Any] = {**client_conf(settings), "error_cb": self._errors.on_error}
        self._client = self._new_client()

    def _new_client(self) -> AdminClient:
        with sorted_errors():
            return AdminClient(self._conf)

    def describe(self, name: str) -> Topic:
        """Raises NotFound if there is no such topic."""
        found = self._read(
            lambda client, seconds: client.describe_topics(TopicCollection([name]), request_timeout=seconds),
            f"topic {name}",
        )[name]
        partitions = [
            Partition(
                each.id,
                -1 if each.leader is None else each.leader.id,
                tuple(node.id for node in each.replicas),
                tuple(node.id for node in each.isr),
            )
            for each in found.partitions
        ]
        return Topic(name, str(found.topic_id), tuple(sorted(partitions, key=lambda each: each.number)))

    def topic_ids(self, names: Sequence[str], seconds: float | None = None) -> dict[str, str | GaussError]:
        """The ids of topics by name, or why one is not known: NotFound if there is no such topic."""
        seconds = self._seconds if seconds is None else seconds
        if not names:
            return {}
        asked = self._client.describe_topics(TopicCollection(list(names)), request_timeout=seconds)
        found = self._each({name: (f"topic {name}", future) for name, future in asked.items()}, seconds)
        return {name: each if isinstance(each, GaussError) else str(each.topic_id) for name, each in found.items()}

    def setting(self, topic: str, name: str) -> str:
        """A setting of a topic, or its default. Raises NotFound if there is no such topic."""
        asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = self._read(
            lambda client, seconds: client.describe_configs([asked], request_timeout=seconds), f"topic {topic}"
        )
        entry = next(iter(found.values())).get(name)
        return "" if entry is None else str(entry.value)

    def create(
        self, name: str, partitions: int = 1, *, replication: int = -1, config: Mapping[str, str] | None = None
    ) -> Topic:
        """Creates a topic and waits until every partition has a leader. `replication`: -1 for the brokers' default."""
        self._create(name, partitions, replication, config, dry=False)
        return self._when_led(name, partitions)

    def try_create(
        self, name: str, partitions: int = 1, *, replication: int = -1, config: Mapping[str, str] | None = None
    ) -> None:
        """Raises what `create` would raise. Creates nothing."""
        self._create(name, partitions, replication, config, dry=True)

    def _create(
        self, name: str, partitions: int, replication: int, config: Mapping[str, str] | None, *, dry: bool
    ) -> None:
        with sorted_errors(f"topic {name}"):
            made = NewTopic(name, partitions, replication, config=dict(config or {}))
        asked = self._client.create_topics([made], request_timeout=self._seconds, validate_only=dry)
        self._answer(asked[name], f"topic {name}")

    def ensure(
        self, name: str, partitions: int = 1, *, replication: int = -1, config: Mapping[str, str] | None = None
    ) -> Topic:
        """The topic, created if it is missing. An existing one is not changed."""
        try:
            return self.describe(name)
        except NotFound:
            pass
        try:
            return self.create(name, partitions, replication=replication, config=config)
        except Rejected:  # another process was faster
            return self._when_led(name, 1)

    def max_batch_bytes(self, name: str) -> int | None:
        """`max.message.bytes` of a topic, which limits its batches; `None` if this user may not see its config."""
        try:
            return int(self.setting(name, "max.message.bytes"))
        except ConfigError:
            return None

    def add_partitions(self, name: str, total: int) -> Topic:
        asked = self._client.create_partitions([NewPartitions(name, total)], request_timeout=self._seconds)
        self._answer(asked[name], f"topic {name}")
        return self._when_led(name, total)

    def delete(self, name: str) -> None:
        """Deletes a topic, and waits until the brokers no longer know it."""
        asked = self._client.delete_topics([name], request_timeout=self._seconds)
        self._answer(asked[name], f"topic {name}")
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                self.describe(name)
            except NotFound:
                return
            if time.monotonic() > deadline:
                raise Unavailable(f"Kafka: topic {name} was not deleted within {self._seconds:.0f} s")
            time.sleep(0.02)

    def earliest(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """By partition: the offset of the oldest record."""
        return self._offsets(topic, partitions, EARLIEST)

    def latest(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """By partition: the offset after the newest record, those of open transactions included."""
        return self._offsets(topic, partitions, LATEST)

    def stable(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """By partition: the last stable offset. Below it every transaction has ended."""
        return self._offsets(topic, partitions, LATEST, IsolationLevel.READ_COMMITTED)

    def stable_ends(
        self, partitions: Sequence[tuple[str, int]], seconds: float | None = None
    ) -> dict[tuple[str, int], int | GaussError]:
        """The last stable offsets of partitions of any topics, by one request per broker, or why one is not known."""
        seconds = self._seconds if seconds is None else seconds
        if not partitions:
            return {}
        wanted = {TopicPartition(topic, number): LATEST for topic, number in partitions}
        level = IsolationLevel.READ_COMMITTED
        asked = self._client.list_offsets(wanted, isolation_level=level, request_timeout=seconds)
        found = self._each({key: (f"topic {key.topic}", future) for key, future in asked.items()}, seconds)
        return {
            (key.topic, key.partition): each if isinstance(each, GaussError) else int(each.offset)
            for key, each in found.items()
        }

    def _each(self, asked: Mapping[Any, tuple[str, Future[Any]]], seconds: float) -> dict[Any, Any]:
        """The answer to each of the requests that were sent together, or its error."""
        client, found = self._client, {}
        for key, (subject, future) in asked.items():
            try:
                found[key] = self._answer(future, subject, seconds, client)
            except GaussError as error:
                found[key] = error
        return found

    def at_time(self, topic: str, partitions: Sequence[int], ts_ms: int) -> dict[int, int | None]:
        """By partition: the first offset with a timestamp of at least `ts_ms`; None if there is none."""
        found = self._offsets(topic, partitions, OffsetSpec.for_timestamp(ts_ms))
        return {number: offset if offset >= 0 else None for number, offset in found.items()}

    def newest_time(self, topic: str, partitions: Sequence[int]) -> int:
        """The largest timestamp of all records, those of open transactions included; 0 if there is none."""
        found = self._listed(topic, partitions, OffsetSpec.max_timestamp())  # type: ignore[no-untyped-call]
        return max([0, *(int(info.timestamp) for info in found.values())])

    def _offsets(
        self,
        topic: str,
        partitions: Sequence[int],
        which: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[int, int]:
        return {number: int(info.offset) for number, info in self._listed(topic, partitions, which, isolation).items()}

    def _listed(
        self,
        topic: str,
        partitions: Sequence[int],
        which: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[int, Any]:
        if not partitions:
            return {}
        wanted = {TopicPartition(topic, number): which for number in partitions}
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                found = self._read(
                    lambda client, secs: client.list_offsets(wanted, isolation_level=isolation, request_timeout=secs),
                    f"topic {topic}",
                    if_unavailable=lambda: self.describe(topic),  # a missing topic is reported as one without leaders
                )
                return {key.partition: info for key, info in found.items()}
            except NotFound:
                known = {each.number for each in self.describe(topic).partitions}
                if not known.issuperset(partitions) or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)  # it is new, and not all brokers know it yet

    def committed(
        self, group: str, topic: str, partitions: Sequence[int], *, wait: bool = True
    ) -> dict[int, Committed]:
        """A group's offsets by partition, without those it has not committed. `wait`: for open transactions that change
        them."""
        wanted = [TopicPartition(topic, number) for number in partitions]
        found = self._by_consumer(group, lambda consumer, seconds: consumer.committed(wanted, seconds), wait=wait)
        return {
            each.partition: Committed(each.offset, each.metadata or "") for each in found if each.offset != _NO_OFFSET
        }

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Sets a group's offsets. Raises ProtocolError while the group has members."""
        wanted = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        self._by_consumer(group, lambda consumer, _: consumer.commit(offsets=wanted, asynchronous=False) or [])

    def _by_consumer(
        self, group: str, ask: Callable[[Consumer, float], Sequence[TopicPartition]], *, wait: bool = True
    ) -> Sequence[TopicPartition]:
        """The answer about a group. librdkafka's admin client crashes if its coordinator has moved or is not up yet."""
        deadline, subject = time.monotonic() + self._seconds, f"group {group}"
        with sorted_errors(subject):
            level = "read_committed" if wait else "read_uncommitted"
            conf = {**self._conf, "group.id": group, "enable.auto.commit": False, "isolation.level": level}
            consumer = Consumer(conf)
        try:
            while True:
                try:
                    with sorted_errors(subject):
                        return _checked(ask(consumer, min(_ATTEMPT_SECONDS, self._seconds)), subject)
                except Unavailable as error:
                    found = consumer.poll(0)  # calls `on_error`
                    if found is not None and (reason := found.error()) is not None:
                        # A coordinator that refuses this user: the request itself would only time out.
                        refused = from_code(reason.code(), reason.str(), subject)
                        if isinstance(refused, ConfigError):
                            raise refused from error
                    if not_let_in := self._errors.refused():
                        raise not_let_in from error
                    if time.monotonic() > deadline:
                        raise self._errors.instead_of(error) from None
                time.sleep(0.05)
        finally:
            consumer.close()

    def _when_led(self, name: str, partitions: int) -> Topic:
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                found = self.describe(name)
                if len(found.partitions) >= partitions and all(each.leader >= 0 for each in found.partitions):
                    return found
            except NotFound:  # the broker that was asked does not know it yet
                pass
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Kafka: topic {name} has no leader for every partition after {self._seconds:.0f} s",
                    hint="check that the brokers are up; many partitions take longer",
                )
            time.sleep(0.02)

    def _read(
        self,
        ask: Callable[[AdminClient, float], dict[Any, Future[Any]]],
        subject: str,
        if_unavailable: Callable[[], object] = lambda: None,
    ) -> dict[Any, Any]:
        """The answers to a request that changes nothing, asked again until the timeout."""
        deadline = time.monotonic() + self._seconds
        while True:
            client = self._client  # kept until its answers are there, also if another thread replaces it
            try:
                asked = ask(client, min(_ATTEMPT_SECONDS, self._seconds))
                return {key: self._answer(future, subject) for key, future in asked.items()}
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
            if_unavailable()
            time.sleep(0.05)

    def _answer(
        self, asked: Future[Any], subject: str, seconds: float | None = None, client: AdminClient | None = None
    ) -> Any:
        """Waits for an answer, but not for brokers that refuse this client."""
        client, seconds = client or self._client, self._seconds if seconds is None else seconds
        deadline = time.monotonic() + seconds + 1
        while True:
            try:
                with sorted_errors(subject):
                    found = asked.result(_LOOK_SECONDS)
                if getattr(found, "offset", 0) == _NO_OFFSET:  # what the library calls an answer without an error
                    raise Unavailable(f"Kafka: {subject}: the leader of a partition does not answer")
                self._errors.clear()
                return found
            except TimeoutError:
                self._client.poll(0)  # calls `on_error`
                if refused := self._errors.refused():
                    raise refused from None
                if time.monotonic() > deadline:
                    late = Unavailable(f"Kafka: {subject}: no answer within {seconds:.0f} s")
                    raise self._errors.instead_of(late) from None
            except GaussError as error:
                self._client.poll(0)
                found = self._errors.refused() or self._errors.instead_of(error)
                if isinstance(found, Unavailable) and client is self._client:
                    # A client waits for the broker that it holds for the controller, even if that one is gone.
                    self._client = self._new_client()
                if found is error:
                    raise
                raise found from error


def _checked(found: Sequence[TopicPartition], subject: str) -> Sequence[TopicPartition]:
    """Errors of single partitions are part of the answer."""
    for each in found:
        if each.error is not None:
            raise from_code(each.error.code(), each.error.str(), f"{subject}, partition {each.partition}")
    return found
