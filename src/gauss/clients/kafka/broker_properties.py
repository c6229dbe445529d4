"""The `server.properties` of a local broker that is its own controller (KRaft)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
SETTINGS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",  # a misspelt name would be a new topic
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.check.interval.ms": "60000",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    # A restart after a kill waits until the old session has ended.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": str(8 << 20),
    "controlled.shutdown.enable": "false",
}


@dataclass(frozen=True)
class Ports:
    """The ports of one broker on loopback."""

    clients: int
    """Without encryption and login."""
    controller: int
    others: Mapping[str, int] = field(default_factory=dict)
    """Further listeners by security protocol, such as `SASL_SSL`."""


def broker_properties(
    directory: Path, node: int, ports: Mapping[int, Ports], settings: Mapping[str, str] | None = None
) -> str:
    """The file of the broker `node` of a cluster whose brokers have the given ports."""
    own, copies = ports[node], str(min(3, len(ports)))
    listeners = {"PLAINTEXT": own.clients, **own.others}
    found = {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "log.dirs": str(directory / "data"),
        "controller.quorum.voters": ",".join(f"{each}@{HOST}:{found.controller}" for each, found in ports.items()),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": ",".join(
            f"{name}://{HOST}:{port}" for name, port in [*listeners.items(), ("CONTROLLER", own.controller)]
        ),
        "advertised.listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items()),
        "listener.security.protocol.map": ",".join(["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in listeners)]),
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": "2" if len(ports) > 2 else "1",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": "1",
        **SETTINGS,
        **(settings or {}),
    }
    return "".join(f"{name}={_escaped(value)}\n" for name, value in found.items())


def _escaped(value: str) -> str:
    """Java joins the lines of a value that end in a backslash, such as those of a PEM text."""
    return value.replace("\\", "\\\\").replace("\n", "\\n\\\n")
