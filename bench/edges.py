"""Topics and edges as the engine builds them, without a config file."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

from gauss import registry
from gauss.contracts.edge import EdgeContext, EdgeStatus
from gauss.contracts.framing import Framing, FramingSpec
from gauss.contracts.processor import ProcessorSpec
from gauss.contracts.storage import StorageContext, StorageSpec
from gauss.contracts.transport import TransportSpec
from gauss.stream.engine.log_topic import LogTopic
from gauss.stream.engine.topic import Topic

log = logging.getLogger("bench")


def framing(name: str, parameters: dict[str, Any]) -> Framing:
    spec = registry.spec(FramingSpec, name)
    built: Framing = registry.build(spec, spec.validate(parameters))
    return built


def start_topic(storage: str, config: dict[str, Any], folder: Path) -> Topic:
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
    io = getattr(checked, spec.framed)
    context = EdgeContext(
        name=plugin,
        config=checked,
        topic=topic,
        framing=framing(io.framing, io.parameters()),
        transport=registry.build(transport_spec, transport_spec.validate(transport_config), Path()),
        dead=lambda letter: log.warning("dead letter: %s", letter.detail),
        may_read=lambda: True,
        status=EdgeStatus(),
        stopping=threading.Event(),
    )
    registry.build(spec, context).start()
    return context
