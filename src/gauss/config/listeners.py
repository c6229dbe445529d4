"""Addresses that a pipeline binds or connects to."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from gauss import registry
from gauss.config.entries import Entries, Processor, Topic
from gauss.config.faults import Faults
from gauss.config.positions import KeyPath
from gauss.config.spec import CLUSTER_SECRET, Pipeline
from gauss.contracts.network import is_loopback
from gauss.contracts.outside import OutsideSpec
from gauss.contracts.plugin import PluginConfig, PluginSpec
from gauss.contracts.processor import ProcessorSpec
from gauss.contracts.storage import StorageSpec
from gauss.contracts.table import TableSpec
from gauss.contracts.transport import TransportSpec


class Address(NamedTuple):
    """An address of an edge, a table or the engine."""

    who: str
    host: str
    port: int
    listens: bool
    transport: str = ""


def edge_address(who: str, config: PluginConfig | None) -> Address | None:
    """The address of an edge's transport, or `None`."""
    transport_config = getattr(config, "transport_config", None)
    if transport_config is None:
        return None
    name, raw = transport_config()
    spec = registry.spec(TransportSpec, name)
    typed = spec.validate(raw)
    host, port = getattr(typed, "host", None), getattr(typed, "port", None)
    return Address(who, host, port, spec.listens, name) if isinstance(host, str) and isinstance(port, int) else None


def addresses(pipeline: Pipeline) -> list[Address]:
    """All addresses of a valid pipeline. Port 0 means any free port."""
    found = [Address("[engine]", pipeline.engine.host, pipeline.engine.port, True)]
    found.append(Address("[api]", pipeline.api.host, pipeline.api.port, True))
    for processor in pipeline.processors:
        spec = registry.spec(ProcessorSpec, processor.plugin)
        config = spec.validate(processor.config)
        if address := edge_address(f'processor "{processor.name}"', config):
            found.append(address)
        asked = spec.server(config) if isinstance(spec, OutsideSpec) else None
        if asked is not None and asked[0]:
            found.append(Address(f'processor "{processor.name}"', *asked, listens=False))
    for topic in pipeline.topics:
        storage = registry.spec(StorageSpec, topic.storage)
        server = storage.server(storage.validate(topic.storage_config)) if isinstance(storage, TableSpec) else None
        if server is not None and server[0]:
            found.append(Address(f'topic "{topic.name}"', *server, listens=False))
    return found


def ports_differ(entries: Entries, faults: Faults) -> None:
    """Reports two listeners on one port. Port 0 never conflicts."""
    bound: list[tuple[Address, KeyPath]] = [
        (Address("[engine]", entries.engine.host, entries.engine.port, True), ("engine", "port")),
        (Address("[api]", entries.api.host, entries.api.port, True), ("api", "port")),
    ]
    for processor in entries.processors:
        if address := edge_address(processor.scope.subject, processor.config):
            bound.append((address, (*processor.scope.path, "config", "port")))
    bound = sorted(
        ((address, path) for address, path in bound if address.listens and address.port),
        key=lambda item: faults.position(item[1]),
    )
    for index, (address, path) in enumerate(bound):
        for other, other_path in bound[:index]:
            if address.port == other.port and _overlap(address.host, other.host):
                line = faults.position(other_path).line
                faults.add(
                    path,
                    f"{address.who}: port {address.port} is used by {other.who} in line {line}",
                    hint="give each listener its own port",
                )
                break


def outside_is_guarded(entries: Entries, faults: Faults) -> None:
    """Reports listeners beyond loopback without TLS or a list of networks. Plugins check the listeners of processors
    themselves."""
    api, engine = entries.api, entries.engine
    if not is_loopback(api.host) and api.tls is None and not api.allow:
        faults.add(
            ("api", "host"),
            f"[api]: a listener on {api.host} can be reached from other machines, and its token would be sent as"
            " plain text",
            hint='add tls = { cert = "cert.pem", key = "key.pem" }, or allow = ["10.0.0.0/8"] to limit who may connect',
        )
    if not is_loopback(engine.host) and not engine.allow:
        faults.add(
            ("engine", "host"),
            f"[engine]: a listener on {engine.host} can be reached from other machines",
            hint='add allow = ["10.0.0.0/8"]: the networks of this machine and of Spark\'s executors',
        )


def servers_are_encrypted(entries: Entries, faults: Faults) -> None:
    """Warns if a password is sent to another machine in plain text, unless the config allows it."""
    found: list[Topic | Processor] = [*entries.topics, *entries.processors]
    for entry in found:
        spec, config = entry.spec, entry.config
        if config is None or spec is None:
            continue
        hint = getattr(config, "encryption_hint", str)()
        outside = [host for host in _hosts(spec, config) if not is_loopback(host)]
        if outside and hint:
            faults.add(
                (*entry.scope.path, "storage_config" if isinstance(spec, StorageSpec) else "config"),
                f"{entry.scope.subject}: password and rows may go to {outside[0] or 'its server'} as plain text",
                hint=hint,
                warning=True,
            )


def _hosts(spec: PluginSpec, config: PluginConfig) -> list[str]:
    """The hosts of the outside system of a topic, source or sink; an empty one is unknown."""
    if isinstance(spec, TableSpec | OutsideSpec):
        server = spec.server(config)
        return [server[0]] if server is not None else []
    return spec.hosts(config) if isinstance(spec, StorageSpec) else []


def cluster_is_guarded(entries: Entries, faults: Faults) -> None:
    """Warns if the executors of a cluster cannot reach the topics, or if the cluster has no secret."""
    master = entries.spark.master
    if not master.startswith("spark://") or is_loopback(master.removeprefix("spark://").rpartition(":")[0]):
        return
    if is_loopback(entries.engine.host):
        faults.add(
            ("spark", "master"),
            f"[spark]: executors of {master} can't reach the topics on {entries.engine.host}",
            hint="set [engine] host to an address of this machine that they can reach",
            warning=True,
        )
    if CLUSTER_SECRET not in entries.spark.conf:
        faults.add(
            ("spark", "master"),
            f"[spark]: no secret is set, so everyone who can reach {master} or an executor can run code there",
            hint=f'set a secret on the cluster, and here conf = {{ "{CLUSTER_SECRET}" = "${{file:spark.secret}}" }}',
            warning=True,
        )


def _overlap(one: str, other: str) -> bool:
    return one == other or {one, other} == {"localhost", "127.0.0.1"} or _is_wildcard(one) or _is_wildcard(other)


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
