"""The engine of a running pipeline, as the connectors use it."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pydantic import ValidationError

from gauss import registry
from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.cursor_messages import Read
from gauss.clients.engine.task_messages import Feed
from gauss.config.formats import build_format
from gauss.config.validate import did_you_mean
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.cursor import Program, Seq
from gauss.model.errors import ConfigError, Fenced, GaussError, NotFound, PluginError, Rejected, Unavailable
from gauss.model.paths import DataDir
from gauss.plugins.connectors.topic.source_spec import TopicConfig
from gauss.scan.program.blob import encode_program

if TYPE_CHECKING:
    from gauss.contracts.format_guard import GuardedFormat

WAIT_S = 10.0
"""How long a call waits for an engine that is being restarted; then the stream is retried."""
LOOK_S = 0.2
LOG = "offset"
"""The read mode of topics that keep a log."""


class TopicState(NamedTuple):
    """A topic as it is now."""

    name: str
    inc: int
    """Incarnation: offsets of another one mean other records."""
    floor: int
    """Offset of the oldest record."""
    end: int
    is_log: bool
    hidden: bool


class RunClient:
    """A connection to a run. Raises ConnectorError."""

    def __init__(self, config: TopicConfig) -> None:
        self._paths: DataDir | None = None
        self._interrupted = threading.Event()
        # Without the run's lock: a sync must not keep the next run from starting.
        if config.endpoint is not None and config.token is not None:
            self._client = EngineClient(config.endpoint, config.token, wait_s=WAIT_S)
            return
        self._paths = DataDir(_data_dir(config))
        found = _read(self._paths.flight_json)
        self._client = EngineClient(found["endpoint"], found["token"], wait_s=WAIT_S)

    def topics(self) -> list[TopicState]:
        """The topics of the config that are kept in the engine."""
        with run_errors():
            found = self._client.command("topics")["topics"]
        return [state for each in found if not (state := _state(each)).hidden]

    def topic(self, name: str) -> TopicState:
        """A topic by name."""
        try:
            with run_errors():
                return _state(self._client.command("topic", {"name": name}))
        except ConnectorError as error:
            if error.code != "NO_TOPIC":
                raise
            names = [each.name for each in self.topics()]
            near = did_you_mean(name, names) or f"there are {', '.join(sorted(names)[:20]) or 'none'}"
            raise ConnectorError.config("NO_TOPIC", f'the run has no topic "{name}"', hint=near) from None

    def format_of(self, topic: str) -> tuple[str, GuardedFormat | None]:
        """The format of a topic's records with its name; None if they have none, or it is not known here."""
        if self._paths is None:
            return "", None
        config = _read(self._paths.pipeline_json)
        topics = {each["name"]: each["storage_config"] for each in config["topics"]}
        own = topics.get(topic, {}).get("format")
        name = own if isinstance(own, str) else self._default_format(topic)
        if not name:
            return "", None
        formats = {each["name"]: (each["plugin"], each["config"]) for each in config["formats"]}
        plugin, settings = formats.get(name, (name, {}))
        if ":" in plugin and config["base_dir"] not in sys.path:
            sys.path.append(config["base_dir"])  # a class of a file beside the config of the run
        try:
            return name, build_format(plugin, settings)
        except (GaussError, ValidationError) as error:
            why = error.message if isinstance(error, GaussError) else "its settings are not valid"
            raise ConnectorError.config(
                "BAD_FORMAT", f'topic "{topic}": its format "{name}" can\'t be used here: {why}'
            ) from None

    def _default_format(self, topic: str) -> str:
        """The format on which the processors of a topic agree, which the engine knows."""
        program = base64.b64encode(encode_program(Program(Seq()))).decode()
        with run_errors():
            found = self._client.command("scan.explain", {"topic": topic, "program": program})["format"]
        return str(found["name"]) if found else ""

    def read(self, topic: TopicState, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Records [start, stop) as (offset, ts_ms, data), without those that are removed meanwhile."""
        with run_errors():
            yield from self._client.read(Read(topic.name, topic.inc, start, stop))

    def append(self, topic: str, records: list[pa.Array]) -> int:
        """Appends records; returns how many the topic has accepted."""
        with run_errors():
            return self._interruptible(lambda: self._client.append(topic, _batches(records)))

    def claim(self, writer: str, generation: int) -> int:
        """Fences runs of smaller generations; returns the largest one that was ever claimed."""
        with run_errors():
            try:
                found = self._client.command("feed.claim", {"writer": writer, "generation": generation})
            except Fenced:
                found = self._client.command("feed.position", {"writer": writer})
        return int(found["fence"])

    def committed(self, writer: str) -> tuple[int, Any]:
        """The generation and the position of a writer's last commit; generation 0: there is none."""
        with run_errors():
            found = self._client.command("feed.position", {"writer": writer})
        return found["generation"], found["position"]

    def feed(self, feed: Feed, records: list[pa.Array]) -> None:
        """Commits records with the position of their writer. Idempotent."""
        with run_errors():
            self._interruptible(lambda: self._client.feed(feed, _batches(records)))

    def interrupt(self) -> None:
        """Ends a write that waits for room in a full topic. Called by any thread."""
        self._interrupted.set()

    def _interruptible(self, write: Callable[[], int]) -> int:
        """The result of a write, in a thread of its own: a Flight call that is under way can't be ended."""
        done: Future[int] = Future()

        def work() -> None:
            try:
                done.set_result(write())
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=work, name="topic write", daemon=True).start()
        while not self._interrupted.is_set():
            with suppress(TimeoutError):
                return done.result(LOOK_S)
        raise ConnectorError.internal("INTERRUPTED", "the run was ended during a write to a topic")

    def close(self) -> None:
        self._client.close()


@contextmanager
def run_errors() -> Iterator[None]:
    """Raises what the engine says as a ConnectorError."""
    try:
        yield
    except ConnectorError:
        raise
    except Unavailable as error:
        raise ConnectorError.transient_network("ENGINE_GONE", error.message, hint=error.hint) from error
    except Rejected as error:  # a memory topic is another one after a restart
        raise ConnectorError.transient_db("TOPIC_RESTARTED", error.message, hint=error.hint) from error
    except NotFound as error:
        raise ConnectorError.config("NO_TOPIC", error.message, hint=error.hint) from error
    except (ConfigError, PluginError) as error:
        raise ConnectorError.config("REFUSED", error.message, hint=error.hint) from error
    except GaussError as error:
        make = ConnectorError.transient_db if error.retryable else ConnectorError.internal
        raise make(error.code.upper(), error.message, hint=error.hint) from error


def _batches(records: list[pa.Array]) -> list[pa.RecordBatch]:
    schema = pa.schema([pa.field("data", pa.binary(), nullable=False)])
    return [pa.RecordBatch.from_arrays([each], schema=schema) for each in records]


def _state(found: dict[str, Any]) -> TopicState:
    is_log = LOG in found["read_modes"]
    return TopicState(found["name"], found["inc"], found["floor"], found["end"], is_log, found["hidden"])


def _data_dir(config: TopicConfig) -> Path:
    if config.data_dir is not None:
        return Path(os.environ.get(registry.PLUGIN_DIR, ""), config.data_dir).absolute()
    return Path(os.environ.get("GAUSS_DATA_DIR", ".gauss")).absolute()


def _read(path: Path) -> dict[str, Any]:
    """A file of a run."""
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found
    except FileNotFoundError:
        raise ConnectorError.transient_network(
            "NO_RUN",
            f"no pipeline runs with the data directory {path.parents[1]}",
            hint="start it with gauss run, or name its directory: data_dir",
        ) from None
    except PermissionError:
        raise ConnectorError.permission(
            "NO_PERMISSION", f"{path} belongs to another user", hint="run the sync as the user of gauss run"
        ) from None
    except (OSError, ValueError) as error:
        raise ConnectorError.config(
            "BAD_RUN", f"{path} can't be read: {error}", hint="name the data_dir of a run"
        ) from None
