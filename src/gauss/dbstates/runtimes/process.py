"""Servers as processes of this machine. They outlive the engine, and the next one finds them again."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gauss.clients.postgres.binaries import run_as
from gauss.dbstates.planning.plan import Command, Connection
from gauss.dbstates.planning.programs import search_path
from gauss.dbstates.runtimes import installation
from gauss.dbstates.runtimes.installation import Installation
from gauss.dbstates.runtimes.runtime import DATABASE, HOST, STOP_SECONDS, USER, Build, Launch, Server, ToolCall
from gauss.dbstates.runtimes.sockets import Sockets
from gauss.dbstates.runtimes.waiting import wait_ready
from gauss.dbstates.store.metadata import Metadata
from gauss.model.errors import ConfigError, GaussError, StorageError
from gauss.process.identity import boot_id, start_time
from gauss.process.ports import free_port

MARK = "GAUSS_STATES_STORE"
"""In the environment of every process that the engine starts: the identity of its store."""
PORT_TRIES = 5
QUIT_SECONDS = 5.0
SETTINGS: Mapping[str, str] = {
    # An instance is thrown away after a crash of the machine; a crash of the server alone loses nothing.
    "fsync": "off",
    "full_page_writes": "off",
    "wal_init_zero": "off",
    "wal_recycle": "off",
    "autovacuum": "off",
    "shared_buffers": "16MB",
    "max_connections": "100",
    "max_wal_size": "2GB",
    "min_wal_size": "8MB",
    "wal_level": "logical",
    "jit": "off",
    "huge_pages": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "dynamic_shared_memory_type": "mmap",  # its files are in the data directory, and go with it
}
_SINCE_18 = {"io_method": "sync"}
"""Workers for input and output are processes of each server."""
_IPC_RMID = 0


def tuned(version: str) -> dict[str, str]:
    """The parameters of every server, which job settings override."""
    return {**SETTINGS, **(_SINCE_18 if int(version.partition(".")[0]) >= 18 else {})}


class ProcessServer:
    """A server by its pid and start time."""

    def __init__(self, pid: int, started: int, socket: Path, port: int, child: subprocess.Popen[bytes] | None) -> None:
        self.pid, self._started = pid, started
        self.socket, self.port = socket, port
        self.runtime_id = f"{pid}-{started}-{boot_id()}"
        self._child = child
        self.log: Path | None = None

    def died(self) -> str:
        if self._child is not None and self._child.poll() is not None:
            return f"Postgres ended with exit code {self._child.returncode}{_last_words(self.log)}"
        return "" if start_time(self.pid) == self._started else "Postgres is gone"

    def stop(self) -> None:
        self._signal(signal.SIGINT)
        if not self._wait(STOP_SECONDS):
            self.kill()
            raise StorageError(f"Postgres did not stop within {STOP_SECONDS:.0f} s", hint="try again")

    def kill(self) -> None:
        self._signal(signal.SIGQUIT)
        if not self._wait(QUIT_SECONDS):
            self._signal(signal.SIGKILL)
            self._wait(QUIT_SECONDS)

    def _signal(self, number: int) -> None:
        if not self.died():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _wait(self, seconds: float) -> bool:
        """Waits for the end of the process, which may be a child of an engine that is gone."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            deadline = time.monotonic() + seconds
            while not self.died():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                poll.poll(left * 1000)
        finally:
            os.close(descriptor)
        return True


class ProcessRuntime:
    """Implements `Runtime`."""

    name = "process"

    def __init__(self, metadata: Metadata, store: str, programs: str = "") -> None:
        """`store`: the identity of the store; `programs`: the folder that jobs without an image use."""
        self.user = run_as()
        self.sockets = Sockets(metadata, self.user)
        self._store = store
        self._programs = programs
        self._found: dict[str, Installation] = {}

    def resolve(self, image: str) -> Build:
        name = image or self._programs
        found = self._found.get(name)
        if found is None or found.has_changed():
            self._found[name] = found = installation.find(name, self.user)
        return found.build

    def has_digest(self, image: str) -> bool:
        del image
        return True  # the programs themselves are read

    def create_base(self, build: Build, data: Path) -> None:
        self.user.give(data)
        data.chmod(0o700)
        with _folder(data) as folder:
            command = [f"{build.place}/initdb", "-D", f"/proc/self/fd/{folder}", *installation.INITDB]
            made = subprocess.run(
                command, cwd="/", pass_fds=[folder], capture_output=True, text=True, check=False,
                stdin=subprocess.DEVNULL, env=self._environment(), **self.user.options(),
            )  # fmt: skip
        if made.returncode:
            why = (made.stderr.strip().splitlines() or ["no error output"])[0]
            raise StorageError(f"initdb failed: {why}", hint="check the free space on the disk")

    def start(self, build: Build, launch: Launch) -> Server:
        for _ in range(PORT_TRIES):
            server = self._spawn(build, launch, free_port(wanted=launch.port))
            try:
                wait_ready(server.socket, server.port, launch.password, server.died)
                return server
            except GaussError:
                server.kill()
                if not server.port_taken():
                    raise
        raise StorageError(f"no free port after {PORT_TRIES} tries", hint="end programs that hold ports")

    def resume(self, build: Build, launch: Launch, server: Server) -> Server:
        again = self._spawn(build, launch, server.port)
        try:
            wait_ready(again.socket, again.port, launch.password, again.died)
        except GaussError:
            again.kill()
            if again.port_taken():
                return self.start(build, launch)
            raise
        return again

    def attach(self, instance: str, runtime_id: str, port: int) -> Server | None:
        pid, _, rest = runtime_id.partition("-")
        started, _, boot = rest.partition("-")
        if not pid.isdigit() or not started.isdigit() or boot != boot_id() or start_time(int(pid)) != int(started):
            return None
        return ProcessServer(int(pid), int(started), self.sockets.folder(instance), port, None)

    def tool(self, build: Build, server: Server, command: Command, files: Iterable[Path]) -> ToolCall:
        del server, files
        return host_tool(command, build.place, self._store)

    def connection(self, server: Server, passfile: Path, *, network: bool) -> Connection:
        return Connection(HOST if network else str(server.socket), server.port, USER, DATABASE, passfile)

    def end_leftovers(self, kept: set[str]) -> list[str]:
        pids = {int(each.partition("-")[0]) for each in kept if "-" in each}  # the others are containers
        ended = end_marked(self._store, pids)
        return [str(pid) for pid in ended]

    def forget(self, instance: str) -> None:
        self.sockets.remove(instance)

    def forget_others(self, kept: set[str]) -> None:
        self.sockets.remove_others(kept)

    def _spawn(self, build: Build, launch: Launch, port: int) -> _Spawned:
        socket = self.sockets.make(launch.instance, build.version)
        settings = {
            **tuned(build.version),
            **launch.settings,
            "listen_addresses": HOST,
            "unix_socket_directories": str(socket),
            "hba_file": str(socket / "pg_hba.conf"),
            "ident_file": str(socket / "pg_ident.conf"),
        }
        # The user that runs Postgres may have no access to the store's folders; a descriptor needs none.
        with _folder(launch.data) as folder, launch.log.open("wb") as log:
            command = [f"{build.place}/postgres", "-D", f"/proc/self/fd/{folder}", "-p", str(port)]
            for name, value in settings.items():
                command += ["-c", f"{name}={value}"]
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", pass_fds=[folder],
                start_new_session=True, env=self._environment(), **self.user.options(),
            )  # fmt: skip
        return _Spawned(child, socket, port, launch.log)

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC", MARK: self._store}


class _Spawned(ProcessServer):
    """A server that this engine started."""

    def __init__(self, child: subprocess.Popen[bytes], socket: Path, port: int, log: Path) -> None:
        super().__init__(child.pid, start_time(child.pid) or 0, socket, port, child)
        self.log = log

    def port_taken(self) -> bool:
        assert self.log is not None
        return "Address already in use" in self.log.read_text(errors="replace")


def host_tool(command: Command, programs: str, store: str) -> ToolCall:
    """A tool of this machine; that of the server's own programs comes first."""
    path = os.pathsep.join(filter(None, (programs, search_path(command.env))))
    program = shutil.which(command.argv[0], path=path)
    if program is None:
        raise ConfigError(f"{command.argv[0]} is not installed", hint=f"looked in {path}")
    env = {**command.env, "PATH": path, MARK: store}
    return ToolCall([program, *command.argv[1:]], env, command.cwd, command.stdin)


def end_marked(store: str, kept: set[int]) -> list[int]:
    """Ends the processes with the mark of a store, and the servers' own processes with them."""
    mark = f"{MARK}={store}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in (os.getpid(), *kept):
            continue
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0") and not _child_of(int(entry.name), kept):
                found.append(int(entry.name))
    for number, seconds in ((signal.SIGQUIT, QUIT_SECONDS), (signal.SIGKILL, QUIT_SECONDS)):
        living = [pid for pid in found if start_time(pid) is not None]
        for pid in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while any(start_time(pid) is not None for pid in living) and time.monotonic() < deadline:
            time.sleep(0.005)
    return found


def _child_of(pid: int, parents: set[int]) -> bool:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[1]) in parents


def release_memory(data: Path) -> None:
    """Removes the shared memory segment that a killed server has left; call it only when the server has ended."""
    try:
        words = (data / "postmaster.pid").read_text().split("\n")[6].split()
        ctypes.CDLL(None).shmctl(int(words[1]), _IPC_RMID, None)
    except (OSError, IndexError, ValueError):
        pass  # it ended in good order


def _last_words(log: Path | None) -> str:
    """The reason in a server's log."""
    try:
        lines = log.read_text(errors="replace").splitlines() if log is not None else []
    except OSError:
        lines = []
    fatal = [line for line in lines if "FATAL:" in line or "PANIC:" in line]
    return f": {fatal[-1].partition(':  ')[2]}" if fatal else ""


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
