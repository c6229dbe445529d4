"""A real engine process on a data directory, without control; can be killed and restarted."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gauss.clients.engine.client import EngineClient
from gauss.config.spec import Pipeline
from gauss.model.paths import DataDir
from gauss.process.ready import read_ready, spawn
from gauss.stream.engine.runtime import Engine
from gauss.stream.flowtest.bench import kill
from helpers.run import free_port


def prepare(data_dir: Path, config: dict[str, Any]) -> DataDir:
    """Writes the files that control writes for the engine."""
    paths = DataDir(data_dir)
    paths.run.mkdir(parents=True, exist_ok=True)
    pipeline = Pipeline.model_validate(config).model_dump(mode="json")
    paths.pipeline_json.write_text(json.dumps({**pipeline, "base_dir": str(data_dir), "data_dir": str(data_dir)}))
    (paths.run / "1.lock").touch()
    flight = {
        "endpoint": f"grpc://127.0.0.1:{free_port()}",
        "token": secrets.token_urlsafe(16),
        "lock": str(paths.run / "1.lock"),
    }
    paths.flight_json.write_text(json.dumps(flight))
    return paths


@contextmanager
def engine_here(data_dir: Path, config: dict[str, Any]) -> Iterator[Engine]:
    """A started engine in this process."""
    prepare(data_dir, config)
    engine = Engine(data_dir)
    engine.open()
    engine.start()
    try:
        yield engine
    finally:
        engine.close()


class EngineProcess:
    """An engine process. `start` returns when the engine is ready."""

    def __init__(self, data_dir: Path, config: dict[str, Any]) -> None:
        self.paths = prepare(data_dir, config)
        self.client = EngineClient.from_file(self.paths.flight_json, wait_s=60)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> dict[str, Any]:
        self._process, ready = spawn([sys.executable, "-m", "gauss.stream.engine", str(self.paths.root)])
        try:
            return read_ready(ready, 90)
        except (TimeoutError, EOFError):
            return {"error": {"message": self.log()}}
        finally:
            os.close(ready)

    def restart_ready(self) -> None:
        said = self.start()
        assert said.get("ready"), said

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def terminate(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(20)

    def log(self) -> str:
        file = self.paths.logs / "engine.log"
        return file.read_text() if file.exists() else ""

    def close(self) -> None:
        self.client.close()
        if self._process is not None and self._process.poll() is None:
            self.kill()


class EngineParent:
    """Imports the engine once and forks one per data directory, which starts within a tenth of a second."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, data_dir: Path) -> int:
        """Forks an engine; returns its pid when it is ready."""
        if self._process is None:
            command = [sys.executable, "-m", "gauss.stream.flowtest.engines"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{data_dir}\n".encode())
        self._process.stdin.flush()
        found = read_ready(self._process.stdout.fileno(), 90)
        assert "error" not in found, found
        return int(found["pid"])

    def close(self) -> None:
        """Kills the parent and the engines that it forked."""
        if self._process is None:
            return
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


class QuickEngine:
    """An engine that can be killed and started again within a fraction of a second."""

    def __init__(self, data_dir: Path, config: dict[str, Any]) -> None:
        self.paths = prepare(data_dir, config)
        self.client = EngineClient.from_file(self.paths.flight_json, wait_s=60)
        self._parent = EngineParent()
        self._pid = -1

    def start(self) -> None:
        self._pid = self._parent.start(self.paths.root)

    def kill(self) -> None:
        assert self._pid > 0, "start it first"
        kill(self._pid)

    def close(self) -> None:
        self.client.close()
        self._parent.close()
