"""Spark's Python processes without their start-up: forked from one process that has loaded everything already.

Between a start and the first record stand seven Python processes of Spark's, one after the other, each half a second
of imports. Here they are forks, which begin within milliseconds and share the memory of what is loaded.

`python -m gauss.stream.driver.zygote LISTENER TITLE_ROOM LATER MODULES…`: takes requests of `launcher.py` from the
socket LISTENER until its standard input ends, which is the driver's end. It never runs anything itself: no thread, no
connection.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from gauss.stream.driver.launcher import ENDED, SOCKET

REQUEST_SECONDS = 5.0
TITLE_ROOM = "." * 200
"""An argument that is only there to be overwritten: what `ps` shows of a forked child is its parent's line."""

LOADED = (
    *("msgspec", "numpy", "pyarrow.compute", "pyarrow.flight", "polars", "pyspark.sql", "pyspark.worker"),
    *("pyspark.sql.worker.lookup_data_sources", "pyspark.sql.worker.create_data_source"),
    *("pyspark.sql.worker.plan_data_source_read", "pyspark.sql.worker.write_into_data_source"),
    *("pyspark.sql.worker.python_streaming_sink_runner", "pyspark.sql.streaming.python_streaming_source_runner"),
    *("gauss.stream.driver.source", "gauss.stream.driver.sink", "gauss.registry"),
    *("gauss.stream.driver.hosted_loop", "gauss.plugins.formats.json.codec"),
)
LATER = ("gauss.stream.driver.preloaded", "numba", "gauss.stream.driver.machine_code")
"""What workers under load need, but not the first of Spark's processes: loaded while Java still starts."""


def start(folder: Path, modules: tuple[str, ...] = LOADED, later: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """A zygote with its socket in the folder, which takes requests from now on; it ends when its `stdin` is closed.
    Modules for `later` are loaded whenever nobody asks for anything."""
    folder.mkdir(parents=True, exist_ok=True)
    where = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    path = folder / SOCKET
    path.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "0",  # Spark asks it of every worker, and a fork can't choose another
        "PYTHONUNBUFFERED": "YES",
        # A thread of a library would be missing in the forks.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{where}/{SOCKET}")
        path.chmod(0o600)
        listener.listen(64)
        os.close(where)
        return subprocess.Popen(
            [sys.executable, "-m", __name__, str(listener.fileno()), TITLE_ROOM, ",".join(later), *modules],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env=environment,
        )


@dataclass(frozen=True)
class Request:
    """What a launcher was started with."""

    arguments: list[str]
    folder: str
    environment: dict[bytes, bytes]
    streams: list[int]

    @classmethod
    def receive(cls, connection: socket.socket) -> Request:
        """Raises OSError or EOFError when the launcher does not say it all."""
        connection.settimeout(REQUEST_SECONDS)
        data, streams, *_ = socket.recv_fds(connection, 1 << 16, 3)
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
            more = connection.recv(1 << 16)
            if not more:
                raise EOFError
            data += more
        arguments, folder, environment = marshal.loads(data[4:])
        return cls(arguments, folder, environment, streams)


class Zygote:
    """The listening socket, and the launchers whose children live."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.path = [entry for entry in sys.path if entry not in _python_path(os.environ.get("PYTHONPATH", ""))]
        self.launchers: dict[int, tuple[socket.socket, int, int]] = {}
        """Connection, pid and pidfd by the descriptor of the connection."""
        self.children: dict[int, int] = {}
        """From a pidfd to the descriptor of its launcher's connection."""
        self.poll = select.poll()

    def serve(self, later: list[str]) -> None:
        """Until standard input ends; loads modules while nobody asks for anything."""
        self.poll.register(0, select.POLLIN)
        self.poll.register(self.listener, select.POLLIN)
        while True:
            ready = self.poll.poll(0 if later else None)
            if not ready:
                _load(later.pop(0))
            for descriptor, _ in ready:
                if descriptor == 0:
                    return
                if descriptor == self.listener.fileno():
                    self._accept()
                elif descriptor in self.children:
                    self._ended(descriptor)
                elif descriptor in self.launchers:
                    # It tells nothing after its request: this is its end, and only a kill ends it before the child.
                    signal.pidfd_send_signal(self.launchers[descriptor][2], signal.SIGKILL)
                    self.poll.unregister(descriptor)

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        try:
            request = Request.receive(connection)
        except (OSError, EOFError):
            connection.close()
            return
        pid = os.fork()
        if pid == 0:
            # By itself, before it does anything: a launcher that hears nothing may take it that nothing was started.
            _tell(connection, os.getpid())
            for descriptor in (*self.children, *self.launchers, self.listener.fileno(), connection.fileno()):
                os.close(descriptor)
            _become(request, self.path)
        for stream in request.streams:
            os.close(stream)
        child = os.pidfd_open(pid)
        self.launchers[connection.fileno()] = connection, pid, child
        self.children[child] = connection.fileno()
        self.poll.register(child, select.POLLIN)
        self.poll.register(connection, select.POLLIN)

    def _ended(self, child: int) -> None:
        connection, pid, _ = self.launchers.pop(self.children.pop(child))
        self.poll.unregister(child)
        os.close(child)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        _tell(connection, ENDED | (code if code >= 0 else 128 - code))
        with contextlib.suppress(KeyError):  # its launcher was killed first
            self.poll.unregister(connection)
        connection.close()


def _load(module: str) -> None:
    try:
        importlib.import_module(module)
    except Exception:
        traceback.print_exc()  # whoever needs it will tell it better
    gc.freeze()


def _tell(connection: socket.socket, number: int) -> None:
    try:
        connection.sendall(number.to_bytes(4, "little"))
    except OSError:
        pass  # a launcher that is gone is seen by the poll


def _python_path(text: str) -> list[str]:
    return [str(Path(entry).absolute()) for entry in text.split(os.pathsep) if entry]


def _become(request: Request, path: list[str]) -> None:
    """In the fork: the process that the launcher was meant to be. Does not return."""
    code = 1
    try:
        for number, stream in enumerate(request.streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environb.clear()
        os.environb.update(request.environment)
        os.chdir(request.folder)
        sys.path[:] = [request.folder, *_python_path(os.environ.get("PYTHONPATH", "")), *path[1:]]
        _set_title([sys.executable, *request.arguments])
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()  # else every fork would draw the same numbers; `random` sees to itself
        code = _run(request.arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        for printed in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # closed by what ran
                printed.flush()
        os._exit(code)


def _run(arguments: list[str]) -> int:
    option, what, *rest = arguments
    try:
        if option == "-m":
            sys.argv = [what, *rest]
            sys.modules.pop(what, None)  # it is about to run as __main__, as if it had never been loaded
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            sys.argv = ["-c", *rest]
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return (exit_.code or 0) & 0xFF
        print(exit_.code, file=sys.stderr)
        return 1
    return 0


def _set_title(command: list[str]) -> None:
    """Writes the command line over that of the zygote, so that `ps` tells the children apart."""
    with Path("/proc/self/stat").open("rb") as stat:
        begin, end = (int(field) for field in stat.read().rpartition(b")")[2].split()[45:47])
    title = "\0".join(command).encode()[: end - begin - 1]
    try:
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            memory.seek(begin)
            memory.write(title.ljust(end - begin, b"\0"))
    except OSError:
        pass  # a hardened kernel: the title says less, no more


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    for module in sys.argv[4:]:
        importlib.import_module(module)
    # Objects that no fork's collector visits stay on shared pages.
    gc.collect()
    gc.freeze()
    Zygote(listener).serve([module for module in sys.argv[3].split(",") if module])


if __name__ == "__main__":
    main()
