"""Plugins that log to a file when they are created and closed."""

from __future__ import annotations

import json
import os
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from gauss.contracts.edge import EdgeContext
from gauss.contracts.format import FormatSpec, SourceSchema
from gauss.contracts.framing import FramingSpec
from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import ProcessorSpec, Role, Where
from gauss.contracts.storage import StorageContext, StorageSpec
from gauss.contracts.transform import Schemas, Traits
from gauss.plugins.framings.newline.framing import NewlineFraming
from gauss.plugins.framings.newline.spec import NewlineConfig
from gauss.plugins.processors.format_convert.transform import FormatConvert
from gauss.plugins.processors.passthrough.spec import PassthroughConfig
from gauss.plugins.processors.passthrough.transform import PassthroughEngineTransform
from gauss.plugins.processors.tcp_sink.edge import TcpSink
from gauss.plugins.processors.tcp_sink.spec import SPEC as TCP_SINK
from gauss.plugins.storages.memory.ring import Ring
from gauss.plugins.storages.memory.spec import SPEC as MEMORY
from gauss.plugins.storages.memory.spec import MemoryConfig

LOG = "GAUSS_TEST_CLOSED"
HERE = __name__


class Noted:
    """Logs its creation and every call of `close`."""

    def note(self) -> None:
        self.mark = f"{type(self).__name__} {uuid.uuid4().hex}"
        self._say("made")

    def close(self) -> None:
        self._say("closed")

    def _say(self, what: str) -> None:
        with Path(os.environ[LOG]).open("a") as log:
            log.write(f"{what} {self.mark}\n")


def notes(log: Path) -> dict[str, list[int]]:
    """Number of closes of each object, by kind."""
    made: list[str] = []
    closed: Counter[str] = Counter()
    for line in log.read_text().splitlines() if log.exists() else ():
        what, mark = line.split(" ", 1)
        if what == "made":
            made.append(mark)
        else:
            closed[mark] += 1
    found: dict[str, list[int]] = {}
    for mark in made:
        found.setdefault(mark.split()[0], []).append(closed[mark])
    return found


class NoConfig(PluginConfig):
    """A config without settings."""


class NotedFormat(Noted):
    def __init__(self, config: NoConfig) -> None:
        self._config = config
        self.note()

    def schema(self) -> SourceSchema | None:
        return None

    def decode(self, data: bytes) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(data)
        return found

    def encode(self, row: dict[str, Any]) -> bytes:
        return json.dumps(row).encode()


FORMAT = FormatSpec(name="noted", summary="", config=NoConfig, implementation=f"{HERE}:NotedFormat")


class NotedFraming(Noted, NewlineFraming):
    def __init__(self, config: NewlineConfig) -> None:
        super().__init__(config)
        self.note()


FRAMING = FramingSpec(name="noted", summary="", config=NewlineConfig, implementation=f"{HERE}:NotedFraming", raw=True)


class NotedPass(Noted, PassthroughEngineTransform):
    def __init__(self, config: PassthroughConfig) -> None:
        super().__init__(config)
        self.note()


PASS = ProcessorSpec(
    name="noted",
    summary="",
    config=PassthroughConfig,
    implementation=f"{HERE}:NotedPass",
    role=Role.TRANSFORM,
    where=Where.ENGINE,
    active=False,
)


class NotedSink(Noted, TcpSink):
    def __init__(self, context: EdgeContext) -> None:
        super().__init__(context)
        self.note()

    def close(self) -> None:
        TcpSink.close(self)
        Noted.close(self)


SINK = ProcessorSpec(
    name="noted",
    summary="",
    config=TCP_SINK.config,
    implementation=f"{HERE}:NotedSink",
    role=Role.SINK,
    where=Where.ENGINE,
    active=False,
    framed="output",
    conversion=TCP_SINK.conversion,
)


class NotedRing(Noted, Ring):
    def __init__(self, config: MemoryConfig, context: StorageContext) -> None:
        super().__init__(config, context)
        self.note()

    def close(self) -> None:
        Ring.close(self)
        Noted.close(self)


STORAGE = StorageSpec(
    name="noted",
    summary="",
    config=MemoryConfig,
    implementation=f"{HERE}:NotedRing",
    read_modes=MEMORY.read_modes,
    durable=False,
    capacity=MEMORY.capacity,
)


class ConvertConfig(PluginConfig):
    """Formats of the conversion, and whether it fails."""

    input: RecordIO
    output: RecordIO
    fails: bool = False


class NotedConvert(Noted):
    """A hosted transform."""

    def __init__(self, config: ConvertConfig) -> None:
        self._config = config
        self._inner = FormatConvert(config)  # type: ignore[arg-type]  # it looks at the formats' names alone
        self.note()

    def bind(self, schemas: Schemas) -> Traits:
        return self._inner.bind(schemas)

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        if self._config.fails:
            raise RuntimeError("as asked")
        return self._inner.arrow(records)


CONVERT = ProcessorSpec(
    name="noted",
    summary="",
    config=ConvertConfig,
    implementation=f"{HERE}:NotedConvert",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    active=True,
    hosted=True,
)
