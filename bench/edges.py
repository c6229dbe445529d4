"""Topics and edges as the engine builds them, without a config file."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from pathlib import Path
from typing import Any

from gauss import registry
from gauss.contracts.capture import RawContext
from gauss.contracts.edge import EdgeContext, EdgeStatus
from gauss.contracts.framing import Framing, FramingSpec
from gauss.contracts.processor import ProcessorSpec
from gauss.contracts.storage import StorageContext, StorageSpec
from gauss.contracts.transport import TransportSpec
from gauss.model.memory import keep_heap_small
from gauss.stream.engine.topics.captured_streams import CapturedStreams
from gauss.stream.engine.topics.log_topic import LogTopic
from gauss.stream.engine.topics.topic import Topic

log = logging.getLogger("bench")


def framing(name: str, parameters: dict[str, Any]) -> Framing:
    spec = registry.spec(FramingSpec, name)
    built: Framing = registry.build(spec, spec.validate(parameters))
    return built


def start_topic(storage: str, config: dict[str, Any], folder: Path) -> Topic:
    keep_heap_small()  # as the engine at its start
    spec = registry.spec(StorageSpec, storage)
    checked = spec.validate(config)
    context = StorageContext(
        topic="bench",
        directory=folder,
        base_dir=folder,
        incarnation=lambda stored: stored or time.time_ns() // 1_000_000,
        committed=lambda _: True,
        framing=framing,
    )
    return LogTopic("bench", registry.build(spec, checked, context), spec.capacity(checked))


def start_edge(plugin: str, config: dict[str, Any], topic: Topic) -> EdgeContext:
    spec = registry.spec(ProcessorSpec, plugin)
    checked: Any = spec.validate(config)
    name, transport_config = checked.transport_config()
    transport_spec = registry.spec(TransportSpec, name)
    io = getattr(checked, spec.framed) if spec.framed else None
    context = EdgeContext(
        name=plugin,
        config=checked,
        topic=topic,
        framing=framing(io.framing, io.parameters()) if io is not None else None,
        transport=registry.build(transport_spec, transport_spec.validate(transport_config), Path()),
        dead=lambda letter: log.warning("dead letter: %s", letter.detail),
        may_read=lambda: True,
        status=EdgeStatus(),
        stopping=threading.Event(),
    )
    registry.build(spec, context).start()
    return context


def start_raw_source(config: dict[str, Any], folder: Path | None) -> int:
    """A tcp-source in passthrough mode, with captures in `folder`; gives its port."""
    storage, spec = registry.spec(StorageSpec, "file"), registry.spec(ProcessorSpec, "tcp-source")
    captures = None
    if folder is not None:
        kept = storage.validate({"framing": "none", "fsync": "never"})
        opened = dataclasses.replace(storage, implementation=storage.capture_implementation)
        context = StorageContext("bench", folder, folder, lambda stored: stored or 1, lambda _: True, framing)
        captures = CapturedStreams("bench", registry.build(opened, kept, context), storage.capacity(kept))
    checked: Any = spec.validate({"port": 0, "mode": "passthrough", **config})
    name, transport_config = checked.transport_config()
    transport_spec = registry.spec(TransportSpec, name)
    transport = registry.build(transport_spec, transport_spec.validate(transport_config), Path())
    raw = RawContext("bench", checked, captures, transport, lambda: True, EdgeStatus(), threading.Event())
    registry.build(dataclasses.replace(spec, implementation=spec.raw_implementation), raw).start()
    return int(transport.address()[1])
