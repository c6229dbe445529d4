"""Shared by the child processes of control (engine and driver): the run's config and the set-up of logs."""

from __future__ import annotations

import json
import logging
import logging.handlers
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gauss import registry
from gauss.config.secrets import Redactor
from gauss.config.spec import Pipeline
from gauss.model.errors import ConfigError
from gauss.model.paths import DataDir

LOG_BYTES = 10 << 20
LOGS_KEPT = 5


@dataclass(frozen=True)
class Assignment:
    """The checked config that control writes for its children."""

    pipeline: Pipeline
    base_dir: Path
    redactor: Redactor
    started_ms: int = 0
    """Start of the run in Unix ms."""


def assignment(paths: DataDir) -> Assignment:
    """Reads `pipeline.json`."""
    try:
        found: dict[str, Any] = json.loads(paths.pipeline_json.read_bytes())
    except FileNotFoundError as error:
        raise ConfigError(f"{error.filename} is missing", hint="this process is started by gauss run") from error
    found.pop("data_dir", None)
    base_dir, redactor = Path(found.pop("base_dir", ".")), Redactor(found.pop("secrets", ()))
    started_ms = int(found.pop("started_ms", 0))
    registry.look_in(base_dir)
    return Assignment(Pipeline.model_validate(found), base_dir, redactor, started_ms)


class JsonLines(logging.Formatter):
    """One JSON object per line, with every secret of the config hidden, traces included."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redactor.redact(record.getMessage()),
        }
        if record.exc_info:
            line["trace"] = self._redactor.redact(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


def set_up_logs(directory: Path, name: str, redactor: Redactor) -> None:
    """Sends everything this process logs to `<name>.log`, which rotates."""
    directory.mkdir(parents=True, exist_ok=True)
    handler = logging.handlers.RotatingFileHandler(directory / f"{name}.log", maxBytes=LOG_BYTES, backupCount=LOGS_KEPT)
    handler.setFormatter(JsonLines(redactor))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    # Otherwise a line that cannot be written (full disk) would be printed to stderr with its secrets.
    logging.raiseExceptions = False
