"""`gauss sync` as a process, and one whose source waits at a row until the test lets it go on."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa

from gauss.connect.conformance.generator import ID, NAME, write_rows
from helpers.run import GAUSS
from helpers.waiting import wait_until

ROWS, BATCH, GATE = 400, 20, 100
"""The source emits `BATCH` rows at once, with a checkpoint after each, and waits behind row `GATE`."""
STREAM = "numbers"


class SyncCommand:
    """The command, run several times with the same config and data directory."""

    def __init__(self, folder: Path, data_dir: Path | None = None, **sync: Any) -> None:
        """`sync`: the entry of `[[syncs]]`."""
        folder.mkdir(parents=True, exist_ok=True)
        self._file, self._data_dir = folder / "sync.toml", data_dir or folder / "data"
        lines = (f"{key} = {_toml(value)}\n" for key, value in {"name": "tested", **sync}.items())
        self._file.write_text("[[syncs]]\n" + "".join(lines))
        self.events: list[dict[str, Any]] = []
        self.said = ""
        self._process: subprocess.Popen[str] | None = None
        self._reading: threading.Thread | None = None

    def start(self) -> None:
        command = [GAUSS, "sync", str(self._file), "--local", "--json", "--data-dir", str(self._data_dir)]
        self.events = []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._reading = threading.Thread(target=self._read, args=(self._process.stdout, self.events), daemon=True)
        self._reading.start()

    @staticmethod
    def _read(output: Any, events: list[dict[str, Any]]) -> None:
        events.extend(json.loads(line) for line in output)

    def wait_for_checkpoint(self, id: int) -> None:
        """Waits until a batch is committed."""
        self._wait(lambda: any(each["event"] == "checkpoint" and each["id"] >= id for each in self.events))

    def wait_for_retry(self) -> None:
        """Waits until an attempt has failed and is to be repeated."""
        self._wait(lambda: any(each["event"] == "retry" for each in self.events))

    def _wait(self, condition: Any) -> None:
        wait_until(lambda: not self.runs or condition(), 90, lambda: self.events)
        assert self.runs, self.events

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def end(self, seconds: float = 90) -> int:
        """Waits for the end; returns the exit code."""
        assert self._process is not None and self._process.stderr is not None and self._reading is not None
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the sync did not end within {seconds} s: {self.events[-3:]}") from None
        self._reading.join()
        self.said = self._process.stderr.read()
        self._process.stderr.close()
        return code

    def run(self) -> int:
        """Runs the command from its start to its end."""
        self.start()
        return self.end()

    @property
    def error(self) -> dict[str, Any]:
        """The error of a run that failed."""
        found: dict[str, Any] = next(each["error"] for each in self.events if each["event"] == "error")
        return found


class GatedSync(SyncCommand):
    """Numbered rows into a destination."""

    def __init__(
        self,
        folder: Path,
        destination: dict[str, Any],
        *,
        attempts: int = 1,
        data_dir: Path | None = None,
        mode: str = "incremental",
        **sync: Any,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._gate = folder / "gate"
        rows = folder / "rows.arrow"
        write_rows(numbered_rows(), rows)
        gate = {"row": GATE, "file": str(self._gate)}
        source = {"connector": NAME, "files": {STREAM: str(rows)}, "batch_rows": BATCH, "gate": gate}
        stream = {"name": STREAM, "mode": mode, **({"cursor": ID} if mode == "incremental" else {})}
        more = {"streams": [stream], "max_attempts": attempts, "checkpoint": {"rows": BATCH}, **sync}
        super().__init__(folder, data_dir, source=source, destination=destination, **more)

    def wait_for_gate(self) -> None:
        """Waits until what is before the gate is committed."""
        self.wait_for_checkpoint(GATE // BATCH)

    def open_gate(self) -> None:
        self._gate.touch()


def numbered_rows(width: int = 2_000) -> pa.Table:
    """Rows that no page of a disk can hold many of."""
    ids = range(1, ROWS + 1)
    texts = [f"{id} ".ljust(width, "x") for id in ids]
    return pa.table({ID: pa.array(ids, pa.int64()), "text": pa.array(texts, pa.string())})


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
