"""Real Kafka brokers for tests, and what to write to them."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import confluent_kafka
import pyarrow as pa
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from gauss.clients.kafka.broker import Broker, new_cluster_id
from gauss.clients.kafka.broker_properties import Ports
from gauss.clients.kafka.reading import RangeReader
from gauss.clients.kafka.record_batches import Row
from gauss.clients.kafka.settings import KafkaSettings, client_conf
from helpers.certificates import Authority
from helpers.run import free_port

NOW = int(time.time() * 1000)
"""Records of the past would be deleted at once by retention."""
PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret"}
"""Alice may do everything, bob nothing."""
BOB = {"username": "bob", "password": PASSWORDS["bob"]}
PROTOCOLS = ("SASL_PLAINTEXT", "SSL", "SASL_SSL")
_JAAS = "org.apache.kafka.common.security"


def settings(*brokers: str, **given: Any) -> KafkaSettings:
    return KafkaSettings.model_validate({"brokers": list(brokers), "request_timeout": "20s", **given})


class SecuredBroker:
    """One broker with a listener for each security protocol."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        self.ca = authority.path
        self.certificate, self.key = authority.issue("client")
        server, key = authority.issue("server")
        both = folder / "server.both.pem"
        both.write_bytes(key.read_bytes() + server.read_bytes())
        users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        logins = {"plain": f"{_JAAS}.plain.PlainLoginModule required {users};"}
        logins |= {f"scram-sha-{bits}": f"{_JAAS}.scram.ScramLoginModule required;" for bits in (256, 512)}
        self.ports = {name: free_port() for name in PROTOCOLS}
        self.broker = Broker(
            folder / "broker",
            {1: Ports(free_port(), free_port(), self.ports)},
            settings={
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                **{
                    f"listener.name.{listener}.{mechanism}.sasl.jaas.config": login
                    for listener in ("sasl_plaintext", "sasl_ssl")
                    for mechanism, login in logins.items()
                },
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(both),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.ca),
                "listener.name.ssl.ssl.client.auth": "required",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:alice;User:CN=client",
                # What the tests wait for happens soon.
                "log.cleaner.backoff.ms": "100",
                "log.retention.check.interval.ms": "200",
                "log.initial.task.delay.ms": "100",
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
            },
        )
        scram = [
            f"SCRAM-SHA-{bits}=[name={name},password={password}]"
            for bits in (256, 512)
            for name, password in PASSWORDS.items()
        ]
        self.broker.create(new_cluster_id(), scram)

    @property
    def settings(self) -> KafkaSettings:
        """Without login."""
        return settings(self.broker.address)

    def topic(self, **given: Any) -> dict[str, Any]:
        """The `storage_config` of a topic that no other test uses."""
        return {"brokers": [self.broker.address], "request_timeout": "20s", "topic": topic_name(), **given}

    def secured(self, protocol: str, **given: Any) -> KafkaSettings:
        return settings(f"127.0.0.1:{self.ports[protocol]}", security_protocol=protocol.lower(), **given)


@contextmanager
def cluster(folder: Path, count: int = 3) -> Iterator[list[Broker]]:
    """Brokers that replicate everything."""
    ports = {node: Ports(free_port(), free_port()) for node in range(1, count + 1)}
    brokers = [Broker(folder / str(node), ports, node) for node in ports]
    cluster_id = new_cluster_id()
    try:
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda broker: broker.create(cluster_id), brokers))
        for broker in brokers:
            broker.start(wait=False)
        for broker in brokers:
            broker.wait_ready()
        yield brokers
    finally:
        for broker in brokers:
            broker.kill()


@contextmanager
def granted(kafka: SecuredBroker, *topics: str, groups: bool = False, ids: bool = False) -> Iterator[None]:
    """Gives bob all rights to topics, to the groups and to the transactional ids of Gauss, and takes them away."""
    client = AdminClient({**client_conf(kafka.settings)})
    prefixes = [ResourceType.GROUP] * groups + [ResourceType.TRANSACTIONAL_ID] * ids
    resources = [(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL) for topic in topics]
    resources += [(kind, "gauss.", ResourcePatternType.PREFIXED) for kind in prefixes]
    rights = [(*resource, "User:bob", "*", AclOperation.ALL) for resource in resources]
    for done in client.create_acls([AclBinding(*right, AclPermissionType.ALLOW) for right in rights]).values():
        done.result()
    try:
        yield
    finally:
        for done in client.delete_acls(
            [AclBindingFilter(*right, AclPermissionType.ALLOW) for right in rights]
        ).values():
            done.result()


def topic_name() -> str:
    """A name that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"


Given = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Data, key and headers of a record."""


def produce(
    found: KafkaSettings,
    topic: str,
    records: Iterable[Given],
    *,
    codec: str = "none",
    commit: Callable[[int], bool] | None = None,
    partition: int = 0,
    first_ts: int = NOW,
    conf: Mapping[str, Any] | None = None,
) -> list[Row]:
    """Writes records by the Python client and returns what a reader must see, in order.

    With `commit` each hundred of records is a transaction, committed if the function of its number says so.
    """
    given_conf: dict[str, Any] = {
        **client_conf(found),
        "compression.codec": codec,
        "linger.ms": 20,
        "message.max.bytes": 10_000_000,
        **(conf or {}),
    }
    if commit:
        given_conf["transactional.id"] = f"of-{topic}"
    producer = confluent_kafka.Producer(given_conf)
    if commit:
        producer.init_transactions()
    kept: list[Row] = []
    failed: list[Any] = []
    given = list(records)
    step = 100 if commit else max(1, len(given))
    for part in range(0, len(given), step):
        rows: list[Row] = []

        def delivered(number: int, into: list[Row]) -> Callable[[Any, Any], None]:
            def note(error: Any, message: Any) -> None:
                if error:
                    failed.append(error)
                data, key, headers = given[number]
                into.append((message.offset(), first_ts + number, data, key, headers))

            return note

        if commit:
            producer.begin_transaction()
        for number in range(part, min(part + step, len(given))):
            data, key, headers = given[number]
            producer.produce(
                topic,
                data,
                key,
                partition,
                on_delivery=delivered(number, rows),
                timestamp=first_ts + number,
                headers=cast(Any, headers or None),
            )
            producer.poll(0)
        assert producer.flush(30) == 0
        if commit and not commit(part // step):
            producer.abort_transaction()
            continue
        if commit:
            producer.commit_transaction()
        kept += rows
    assert not failed, failed[:3]
    return sorted(kept, key=lambda row: row[0])


def random_records(seed: int, count: int) -> list[Given]:
    """Null, empty and other values, keys and headers; names of headers repeat."""
    chance = random.Random(seed)

    def value(most: int) -> bytes | None:
        return chance.choice([None, b"", chance.randbytes(chance.randrange(most)), b"x" * chance.randrange(most)])

    def headers() -> list[tuple[str, bytes | None]]:
        return [(chance.choice(["a", "a", "bé", ""]), value(20)) for _ in range(chance.choice([0, 0, 1, 4]))]

    return [(value(300), value(30), headers()) for _ in range(count)]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    found: list[Row] = []
    for batch in batches:
        for row in batch.to_pylist():
            headers = [(each["key"], each["value"]) for each in row["headers"]]
            found.append((row["offset"], row["ts_ms"], row["data"], row["key"], headers))
    return found


def data_of(reader: RangeReader, topic: str, ends: dict[int, int]) -> list[bytes]:
    """The data of all records up to the given ends, by partition."""
    from gauss.clients.kafka.reading import Range

    found: list[bytes] = []
    for partition, end in sorted(ends.items()):
        for batch in reader.read(Range(topic, partition, 0, end)):
            found += batch.column("data").to_pylist()
    return found


def numbered(numbers: Sequence[int] | range) -> pa.RecordBatch:
    """A batch whose data and keys are numbers."""
    texts = [b"%d" % number for number in numbers]
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.binary())] * 2, ["data", "key"])
