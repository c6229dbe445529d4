"""An instance of a pipeline that is a whole file: `gauss run` as a child process, as long as the lease holds."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

from gauss.fleet.config.file import NAME, PipelineFile
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.leases.keeper import HeldLease
from gauss.fleet.leases.slots import Wanted
from gauss.fleet.logs import about
from gauss.fleet.store.configs import Kind
from gauss.model.errors import ConfigError, GaussError, NotFound, Unavailable
from gauss.model.files import make_private
from gauss.process.ready import last_line

LOOK_SECONDS = 0.2
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
STEADY_SECONDS = 60.0
log = logging.getLogger("gauss.fleet")


class FileInstance:
    """Runs until it is stopped or its lease is lost. A new version of the file replaces the run."""

    def __init__(self, store: FleetStore, worker_id: str, held: HeldLease, wanted: Wanted, data_dir: Path) -> None:
        """`data_dir`: where the data of the pipelines of this worker are."""
        self.held, self.wanted = held, wanted
        self._store, self._worker_id = store, worker_id
        self._id = held.lease.pipeline_id
        self._folder = data_dir / self._id
        self._stopping = threading.Event()
        self._shown = ("", "")
        self._thread = threading.Thread(target=self._run, name=f"{self._id[:8]}/file", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks the run to drain."""
        self._stopping.set()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def join(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return self.is_done

    @property
    def _is_over(self) -> bool:
        return self._stopping.is_set() or self.held.is_lost

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._is_over:
            began, version = time.monotonic(), self.wanted.version
            try:
                self._one_run(version)
            except GaussError as error:
                self._report("failing", error.message)
            except Exception as error:
                log.exception("the pipeline failed", extra=about(self._id, self.held.lease.slot))
                self._report("failing", f"unexpected: {type(error).__name__}: {error}")
            if self.wanted.version != version:
                continue
            pause = FIRST_PAUSE if time.monotonic() - began > STEADY_SECONDS else min(pause * 2, LONGEST_PAUSE)
            until = time.monotonic() + pause
            while not self._is_over and time.monotonic() < until and self.wanted.version == version:
                self.held.beat()
                self._stopping.wait(LOOK_SECONDS)

    def _one_run(self, version: int) -> None:
        """Raises Unavailable if the run ends by itself."""
        if not self.held.is_usable:
            raise Unavailable("the lease was not renewed in time")
        file = self._written(version)
        output = self._folder / "output.log"
        command = [sys.executable, "-m", "gauss.cli.main", "run", str(file), "--json"]
        command += ["--data-dir", str(self._folder / "data")]
        with output.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "gauss.fleet.worker.leased_run", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # signals of a terminal are for the worker
            )
        threading.Thread(target=self._follow, args=(process,), name=f"{self._id[:8]}/status", daemon=True).start()
        self._report("starting", "")
        assert process.stdin is not None
        try:
            while process.poll() is None and not self._is_over and self.wanted.version == version:
                self.held.beat()
                process.stdin.write(f"{self.held.stop_at}\n".encode())
                process.stdin.flush()
                self._stopping.wait(LOOK_SECONDS)
        except BrokenPipeError:
            pass  # it has ended
        finally:
            with contextlib.suppress(OSError):
                process.stdin.close()
            code = process.wait()
        if not self._is_over and self.wanted.version == version:
            raise Unavailable(f"the run has ended with exit code {code}: {last_line(output)}")

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        """Reads the status of the run, which it prints once it is up."""
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                with contextlib.suppress(ValueError):
                    json.loads(line)
                    self._report("running", "")

    def _written(self, version: int) -> Path:
        config = self._store.configs.as_of(self._id, version).get(Kind.FILE)
        if config is None:
            raise ConfigError("the pipeline has no file", hint="save it, then it starts")
        make_private(self._folder)
        file = self._folder / NAME
        file.write_text(PipelineFile.model_validate(config.document).text)
        return file

    def _report(self, state: str, reason: str) -> None:
        if (state, reason) == self._shown or self._stopping.is_set():
            return
        with contextlib.suppress(GaussError, NotFound):  # told again when it changes
            self._store.leases.report(self._worker_id, self.held.lease, state, reason[:2_000])
            self._shown = (state, reason)
            log.info("%s", f"{state}: {reason}" if reason else state, extra=about(self._id, self.held.lease.slot))
