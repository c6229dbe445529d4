"""A local Kafka broker in a directory: format, start, readiness, stop. It does not know which process owns it."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.broker_properties import HOST, Ports, broker_properties
from gauss.clients.kafka.jars import class_path
from gauss.clients.kafka.settings import KafkaSettings
from gauss.model.errors import GaussError, NotFound, StorageError, Unavailable
from gauss.model.files import PRIVATE_FILE, PRIVATE_FOLDER
from gauss.process.identity import alive, start_time
from gauss.process.java import find_java
from gauss.process.ready import last_line

START_SECONDS = 60.0
STOP_SECONDS = 15.0
"""A shutdown that takes longer becomes a kill: Kafka recovers the logs at the next start."""
_PR_SET_PDEATHSIG = 1
_JAVA = (
    *("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto"),
    *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"),
)


def new_cluster_id() -> str:
    """An id as Kafka makes them: none begins with a hyphen, which its tools would take for an option."""
    return base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")


class Broker:
    """One broker of a cluster, and the process that this process started for it.

    It listens on loopback and ends when the thread that called `start` ends, even if that is killed.
    """

    def __init__(
        self, directory: Path, ports: Mapping[int, Ports], node: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.node = node
        self._ports = ports
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`host:port` of the listener without encryption and login."""
        return f"{HOST}:{self._ports[self.node].clients}"

    @property
    def pid(self) -> int:
        """0 before the first start."""
        return self._process.pid if self._process else 0

    def create(self, cluster_id: str, scram: Sequence[str] = ()) -> None:
        """Formats the directory, once. `scram`: users as `SCRAM-SHA-512=[name=…,password=…]`."""
        if (self.directory / "data" / "meta.properties").exists():
            return
        self.directory.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        self._write_properties()
        command = [*self._java("kafka.tools.StorageTool"), "format", "-t", cluster_id, "-c", str(self._file)]
        for user in scram:
            command += ["--add-scram", user]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            why = next((line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()), "no output")
            raise StorageError(
                f"{self.directory} can't be formatted for Kafka: {why}", hint="check the free disk space"
            )

    def start(self, *, wait: bool = True) -> None:
        """Starts the broker and, unless told otherwise, waits until it serves; ends one that an earlier owner left."""
        _end_predecessor(self._pid_file)
        self._write_properties()
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self._java("kafka.Kafka"), str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 (one prctl call, safe between fork and exec)
            )
        self._pid_file.write_text(f"{self._process.pid} {start_time(self._process.pid) or 0}")
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Waits until the broker answers requests for topics."""
        deadline = time.monotonic() + START_SECONDS
        while not _listens(self._ports[self.node].clients) and not self.died() and time.monotonic() < deadline:
            time.sleep(0.02)  # sooner noticed than by a client, which waits longer after each attempt
        settings = KafkaSettings.model_validate({"brokers": [self.address], "request_timeout": "1s"})
        admin = Admin(settings)
        while True:
            try:
                admin.describe("gauss-is-not-a-topic")
            except NotFound:
                return
            except GaussError as error:
                if died := self.died():
                    raise StorageError(f"{died}: {last_line(self._log)}", hint=f"see {self._log}") from error
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"Kafka did not answer within {START_SECONDS:.0f} s: {error.message}", hint=f"see {self._log}"
                    ) from error
            time.sleep(0.05)

    def died(self) -> str:
        """Why the broker is gone; empty while it runs, and before the first start."""
        if self._process is None or self._process.poll() is None:
            return ""
        return f"Kafka ended with exit code {self._process.returncode}"

    def kill(self) -> None:
        """Ends the broker without a shutdown."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Shuts the broker down in order. Idempotent."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._pid_file.unlink(missing_ok=True)

    @property
    def _file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def _pid_file(self) -> Path:
        return self.directory / "broker.pid"

    @property
    def _log(self) -> Path:
        return self.directory / "broker.log"

    def _java(self, main: str) -> list[str]:
        return [find_java("Kafka"), *_JAVA, "-cp", class_path(), main]

    def _write_properties(self) -> None:
        """Private: the settings may hold passwords."""
        text = broker_properties(self.directory, self.node, self._ports, self._settings)
        with open(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE), "w") as file:  # noqa: PTH123
            file.write(text)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _end_with_parent() -> None:
    """In the child: asks the kernel for a shutdown when the parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end_predecessor(pid_file: Path) -> None:
    """Waits for the broker of a killed owner to exit, and kills it after a timeout. It is known by pid and start
    time."""
    try:
        pid, started = map(int, pid_file.read_text().split())
    except (OSError, ValueError):
        return
    deadline = time.monotonic() + STOP_SECONDS
    while alive(pid, started):
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
