"""Checks for what a config needs: Java, free ports, disk space, peers and topics elsewhere. Changes nothing."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Set
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import cast

from gauss import registry
from gauss.config.check import Checked
from gauss.config.faults import Faults
from gauss.config.files import with_absolute_files
from gauss.config.listeners import Address
from gauss.config.spec import Pipeline
from gauss.contracts.shared_log import LiveCheck, TopicToCheck
from gauss.contracts.storage import ReadMode, StorageSpec
from gauss.model.units import human_bytes

JAVA_MIN = 17
_CONNECT_SECONDS = 2.0


class CheckMark(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Phase:
    """The result of one check."""

    name: str
    mark: CheckMark
    detail: str
    hint: str = ""

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def check_java() -> Phase:
    """Checks the JVM for Spark: that of JAVA_HOME, or the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = f"install Java {JAVA_MIN} or newer (a JRE is enough), or set JAVA_HOME"
    if program is None:
        return Phase("java", CheckMark.FAIL, "Spark needs Java, and there is none on the PATH", hint)
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else "it does not respond"
        return Phase("java", CheckMark.FAIL, f"{program} can't be run: {reason}", hint)
    said = answer.stderr + answer.stdout
    found = re.search(r'version "(?:1\.)?(\d+)[^"]*"', said)
    if found is None:
        return Phase("java", CheckMark.WARN, f"{program} prints no version", hint)
    version = int(found[1])
    if version < JAVA_MIN:
        return Phase("java", CheckMark.FAIL, f"expected Java {JAVA_MIN} or newer, found {version} ({program})", hint)
    return Phase("java", CheckMark.OK, f"Java {version}")


def check_ports(addresses: list[Address]) -> Iterator[Phase]:
    """Checks that every port can be bound."""
    wanted = [address for address in addresses if address.listens and address.port]
    for address in wanted:
        problem = _bind_problem(address)
        if problem:
            place = f"{address.host}:{address.port}"
            yield Phase("ports", CheckMark.FAIL, f"{address.who} can't listen on {place}: {problem[0]}", problem[1])
            continue
        yield Phase("ports", CheckMark.OK, f"{address.host}:{address.port} is available for {address.who}")


def _bind_problem(address: Address) -> tuple[str, str] | None:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        return "unknown host", "use an address of this machine, such as 127.0.0.1"
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            # Bind without listening, so that a waiting peer does not connect to the probe.
            probe.bind(place)
        except OSError as error:
            hints = {
                errno.EADDRINUSE: "stop the process that uses it, or choose another port",
                errno.EACCES: "ports below 1024 need privileges: choose a higher one",
                errno.EADDRNOTAVAIL: "use an address of this machine, such as 127.0.0.1",
            }
            return str(error.strerror), hints.get(error.errno or 0, "")
    return None


def check_disk(folder: Path, min_free_bytes: int) -> Phase:
    """Checks for at least `min_free_bytes` of disk: below it, sources stop reading."""
    there = folder.absolute()
    while not there.exists() and not there.is_symlink():
        there = there.parent
    if not there.is_dir():
        return Phase("disk", CheckMark.FAIL, f"{there} is not a directory", "choose another --data-dir")
    free = shutil.disk_usage(there).free
    said = f"{human_bytes(free)} free in {there}"
    if free < min_free_bytes:
        hint = "free some space, choose another --data-dir, or lower engine.min_free_bytes"
        return Phase("disk", CheckMark.FAIL, f"{said}, expected at least {human_bytes(min_free_bytes)}", hint)
    if not os.access(there, os.W_OK):
        return Phase("disk", CheckMark.FAIL, f"{there} can't be written", "choose another --data-dir")
    return Phase("disk", CheckMark.OK, said)


def check_connections(addresses: list[Address]) -> Iterator[Phase]:
    """Checks connections to peers. A failure is a warning, since a peer may start later."""
    for address in addresses:
        if address.listens:
            continue
        place = f"{address.host}:{address.port}"
        try:
            socket.create_connection((address.host, address.port), timeout=_CONNECT_SECONDS).close()
        except OSError as error:
            reason = error.strerror or str(error)
            hint = "the run retries until it succeeds"
            yield Phase("connections", CheckMark.WARN, f"{address.who} can't reach {place} now: {reason}", hint)
        else:
            yield Phase("connections", CheckMark.OK, f"{address.who} can reach {place}")


def check_topics(checked: Checked, pipeline: Pipeline, written: Set[str]) -> Iterator[Phase]:
    """Asks outside systems about their topics. `written`: those to which Spark's tasks write."""
    faults = Faults(checked.file, checked.positions)
    place = {topic.name: number for number, topic in enumerate(pipeline.topics)}
    by_check: dict[str, list[TopicToCheck]] = {}
    sources = [each.source for each in pipeline.processors if each.source is not None]
    snapshots = {source.topic for source in sources if source.read == ReadMode.SNAPSHOT}
    for topic in with_absolute_files(pipeline, checked.base_dir).topics:
        storage = registry.spec(StorageSpec, topic.storage)
        if storage.live_check:
            config = storage.validate(topic.storage_config)
            asked = TopicToCheck(topic.name, config, topic.name in written, topic.name in snapshots)
            by_check.setdefault(storage.live_check, []).append(asked)
    marks = {"success": CheckMark.OK, "warning": CheckMark.WARN, "failed": CheckMark.FAIL}
    for function, topics in by_check.items():
        for found in cast(LiveCheck, registry.load_path(function, "check"))(topics):
            said = f'topic "{found.topic}": {found.message}'
            if found.status != "success":
                at = faults.position(("topics", place[found.topic], "storage_config", found.key))
                said = f"{checked.file}:{at.line}:{at.column}: {said}"
            yield Phase("topics", marks[found.status], said, found.hint)
