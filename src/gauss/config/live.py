"""What a config needs of this machine: Java, free ports, disk and peers. Looked at, never changed."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from gauss.config.listeners import Address
from gauss.model.units import human_bytes

JAVA_MIN = 17
_CONNECT_SECONDS = 2.0


class Mark(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Phase:
    """One thing that was looked at."""

    name: str
    mark: Mark
    detail: str
    hint: str = ""

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def check_java() -> Phase:
    """Spark needs a JVM: JAVA_HOME's, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = f"install Java {JAVA_MIN} or newer (a JRE is enough), or set JAVA_HOME"
    if program is None:
        return Phase("java", Mark.FAIL, "there is no java on the PATH, and Spark needs it", hint)
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else "it does not answer"
        return Phase("java", Mark.FAIL, f"{program} can't be run: {reason}", hint)
    said = answer.stderr + answer.stdout
    found = re.search(r'version "(?:1\.)?(\d+)[^"]*"', said)
    if found is None:
        return Phase("java", Mark.WARN, f"{program} does not say its version", hint)
    version = int(found[1])
    if version < JAVA_MIN:
        return Phase("java", Mark.FAIL, f"expected Java {JAVA_MIN} or newer, found {version} ({program})", hint)
    return Phase("java", Mark.OK, f"Java {version}")


def check_ports(addresses: list[Address]) -> Iterator[Phase]:
    """Every port to be bound must be free and allowed."""
    wanted = [address for address in addresses if address.listens and address.port]
    for address in wanted:
        problem = _bind_problem(address)
        if problem:
            place = f"{address.host}:{address.port}"
            yield Phase("ports", Mark.FAIL, f"{address.who} can't listen on {place}: {problem[0]}", problem[1])
            continue
        yield Phase("ports", Mark.OK, f"{address.host}:{address.port} is free for {address.who}")


def _bind_problem(address: Address) -> tuple[str, str] | None:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        return "the host is not known", "use an address of this machine, such as 127.0.0.1"
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            # Not listening: a peer that waits for this port would connect to the probe, and be reset.
            probe.bind(place)
        except OSError as error:
            hints = {
                errno.EADDRINUSE: "stop what listens there, or choose another port",
                errno.EACCES: "ports below 1024 need rights: choose a higher one",
                errno.EADDRNOTAVAIL: "use an address of this machine, such as 127.0.0.1",
            }
            return str(error.strerror), hints.get(error.errno or 0, "")
    return None


def check_disk(folder: Path, min_free_bytes: int) -> Phase:
    """Below `min_free_bytes` sources would stop reading at once."""
    there = folder.absolute()
    while not there.exists() and not there.is_symlink():
        there = there.parent
    if not there.is_dir():
        return Phase("disk", Mark.FAIL, f"{there} is not a directory", "choose another --data-dir")
    free = shutil.disk_usage(there).free
    said = f"{human_bytes(free)} free in {there}"
    if free < min_free_bytes:
        hint = "free some space, choose another --data-dir, or lower engine.min_free_bytes"
        return Phase("disk", Mark.FAIL, f"{said}, expected at least {human_bytes(min_free_bytes)}", hint)
    if not os.access(there, os.W_OK):
        return Phase("disk", Mark.FAIL, f"{there} can't be written", "choose another --data-dir")
    return Phase("disk", Mark.OK, said)


def check_connections(addresses: list[Address]) -> Iterator[Phase]:
    """Peers may come up later, so one that does not answer is a warning."""
    for address in addresses:
        if address.listens:
            continue
        place = f"{address.host}:{address.port}"
        try:
            socket.create_connection((address.host, address.port), timeout=_CONNECT_SECONDS).close()
        except OSError as error:
            reason = error.strerror or str(error)
            hint = "it will be tried again and again while running"
            yield Phase("connections", Mark.WARN, f"{address.who} can't reach {place} now: {reason}", hint)
        else:
            yield Phase("connections", Mark.OK, f"{address.who} reaches {place}")
