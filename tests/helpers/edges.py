"""Real topics, real edges and real sockets, built as the engine builds them."""

from __future__ import annotations

import dataclasses
import socket
import threading
from pathlib import Path
from typing import Any

from gauss import registry
from gauss.contracts.capture import RawContext
from gauss.contracts.cursor import Code, Program, Step
from gauss.contracts.edge import Edge, EdgeContext, EdgeStatus
from gauss.contracts.format import Format, FormatSpec
from gauss.contracts.framing import Framing, FramingSpec
from gauss.contracts.letter import Letter
from gauss.contracts.processor import ProcessorSpec
from gauss.contracts.storage import StorageContext, StorageSpec
from gauss.contracts.transport import Transport, TransportSpec
from gauss.stream.engine.topics.captured_streams import CapturedStreams
from gauss.stream.engine.topics.log_topic import LogTopic
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.engine.topics.topic_state import TopicState

NEWLINE: dict[str, Any] = {"framing": "newline", "delimiter": "\n"}
PREFIXED: dict[str, Any] = {"framing": "length_prefixed", "prefix_type": "u32be"}


def framing(name: str, parameters: dict[str, Any]) -> Framing:
    spec = registry.spec(FramingSpec, name)
    built: Framing = registry.build(spec, spec.validate(parameters))
    return built


def transport(name: str, config: dict[str, Any], base_dir: Path = Path()) -> Transport:
    spec = registry.spec(TransportSpec, name)
    built: Transport = registry.build(spec, spec.validate(config), base_dir)
    return built


class Running:
    """An edge under test."""

    def __init__(self, edge: Edge, context: EdgeContext | RawContext) -> None:
        self.edge = edge
        self.context = context
        self.status = context.status

    @property
    def port(self) -> int:
        return self.context.transport.address()[1]

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port))
        sock.settimeout(20)
        return sock


class Bench:
    """A topic and its edges; closes everything that it started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dead: list[Letter] = []
        self.formats: dict[str, Format] = {}
        self.may_read = True
        self._edges: list[Running] = []
        self._topics: list[TopicState] = []

    def topic(self, storage: str = "memory", **config: Any) -> Topic:
        spec = registry.spec(StorageSpec, storage)
        checked = spec.validate(config)
        context = self._storage_context()
        topic = LogTopic("t", registry.build(spec, checked, context), spec.capacity(checked), dead=self.dead.append)
        self._topics.append(topic)
        return topic

    def _storage_context(self) -> StorageContext:
        return StorageContext(
            topic="t",
            directory=self.folder / f"topic{len(self._topics)}",
            base_dir=self.folder,
            incarnation=lambda stored: stored or 1,
            committed=lambda _: True,
            framing=framing,
        )

    def edge(
        self,
        plugin: str,
        config: dict[str, Any],
        topic: Topic,
        read: str = "offset",
        subscribe: str = "snapshots",
        *,
        formats: tuple[str, str] | None = None,
    ) -> Running:
        spec = registry.spec(ProcessorSpec, plugin)
        checked: Any = spec.validate({"port": 0, **config})
        io = getattr(checked, spec.framed) if spec.framed else None
        transport_name, transport_config = checked.transport_config()
        context = EdgeContext(
            name=plugin,
            config=checked,
            topic=topic,
            framing=None if io is None else framing(io.framing, io.parameters()),
            transport=transport(transport_name, transport_config, self.folder),
            dead=self.dead.append,
            may_read=lambda: self.may_read,
            status=EdgeStatus(),
            stopping=threading.Event(),
            read=read,
            subscribe=subscribe,
            format=self.format,
            formats=formats,
        )
        running = Running(registry.build(spec, context), context)
        running.edge.start()
        self._edges.append(running)
        return running

    def captures(self, **config: Any) -> CapturedStreams:
        """A file topic with `framing = "none"`."""
        spec = registry.spec(StorageSpec, "file")
        checked = spec.validate({"framing": "none", **config})
        built = registry.build(
            dataclasses.replace(spec, implementation=spec.capture_implementation),
            checked,
            self._storage_context(),
        )
        topic = CapturedStreams("t", built, spec.capacity(checked))
        self._topics.append(topic)
        return topic

    def raw(self, plugin: str, topic: CapturedStreams | None, **config: Any) -> Running:
        """An edge in passthrough mode."""
        spec = registry.spec(ProcessorSpec, plugin)
        checked: Any = spec.validate({"port": 0, "mode": "passthrough", **config})
        name, transport_config = checked.transport_config()
        context = RawContext(
            name=plugin,
            config=checked,
            captures=topic,
            transport=transport(name, transport_config, self.folder),
            may_read=lambda: self.may_read,
            status=EdgeStatus(),
            stopping=threading.Event(),
        )
        edge = registry.build(dataclasses.replace(spec, implementation=spec.raw_implementation), context)
        running = Running(edge, context)
        running.edge.start()
        self._edges.append(running)
        return running

    def format(self, name: str) -> Format:
        """A format by plugin name, or one that the test registered in `formats`."""
        if name in self.formats:
            return self.formats[name]
        spec = registry.spec(FormatSpec, name)
        built: Format = registry.build(spec, spec.validate({}))
        return built

    def source(self, topic: Topic, **config: Any) -> Running:
        return self.edge("tcp-source", {"input": NEWLINE, **config}, topic)

    def sink(self, topic: Topic, read: str = "offset", **config: Any) -> Running:
        return self.edge("tcp-sink", {"output": NEWLINE, **config}, topic, read)

    def close(self) -> None:
        for running in self._edges:
            running.edge.close()
        for topic in self._topics:
            topic.close()


def records(topic: Topic) -> list[bytes]:
    """All visible records."""
    found: list[bytes] = []
    cursor = topic.open(Program())
    while cursor.next(Step()) is Code.OK:
        batch: Any = cursor.read()[1]
        found += batch.column("data").to_pylist()
    return found


def receive(sock: socket.socket, count: int) -> bytes:
    """Receives `count` bytes, or fewer if the peer closes first."""
    parts = bytearray()
    while len(parts) < count and (data := sock.recv(count - len(parts))):
        parts += data
    return bytes(parts)


def receive_all(sock: socket.socket) -> bytes:
    """Receives until the peer closes."""
    parts = bytearray()
    while data := sock.recv(1 << 20):
        parts += data
    return bytes(parts)
