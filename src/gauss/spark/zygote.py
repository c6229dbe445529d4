"""The zygote: a preloaded process from which Spark's Python processes are forked, off with `spark.zygote = false`.

Spark starts seven Python processes one after the other before the first record, each with half a second of imports.
Forks start within milliseconds and share the memory of the loaded modules.

`python -m gauss.spark.zygote LISTENER LATER MODULES…`: takes requests of `launcher.py` from the socket LISTENER until
its standard input ends, that is when the driver ends. It starts no thread and opens no connection itself, since forks
would inherit them.
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

from gauss.spark.launcher import ENDED, SOCKET

REQUEST_SECONDS = 5.0
NAME_CHARS = 15
"""The longest process name that the kernel keeps."""

LOADED = (
    *("msgspec", "numpy", "pyarrow.compute", "pyarrow.flight", "polars", "pyspark.sql", "pyspark.worker"),
    *("pyspark.sql.worker.lookup_data_sources", "pyspark.sql.worker.create_data_source"),
    *("pyspark.sql.worker.plan_data_source_read", "pyspark.sql.worker.write_into_data_source"),
    *("pyspark.sql.worker.python_streaming_sink_runner", "pyspark.sql.streaming.python_streaming_source_runner"),
)
"""The modules that every Python process of Spark loads."""


def start(folder: Path, modules: tuple[str, ...] = LOADED, later: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """Starts a zygote with its socket in the folder; it takes requests at once and ends when its `stdin` is closed.
    Modules in `later` are loaded while there are no requests."""
    folder.mkdir(parents=True, exist_ok=True)
    where = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    path = folder / SOCKET
    path.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "0",  # Spark sets it for every worker, and a fork can't change it
        "PYTHONUNBUFFERED": "YES",
        # Threads that a library starts would be missing in the forks.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{where}/{SOCKET}")
        path.chmod(0o600)
        listener.listen(64)
        os.close(where)
        return subprocess.Popen(
            [sys.executable, "-m", __name__, str(listener.fileno()), ",".join(later), *modules],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env=environment,
        )


@dataclass(frozen=True)
class ForkRequest:
    """The arguments, folder, environment and standard streams of a launcher."""

    arguments: list[str]
    folder: str
    environment: dict[bytes, bytes]
    streams: list[int]

    @classmethod
    def receive(cls, connection: socket.socket) -> ForkRequest:
        """Raises OSError or EOFError if the request is incomplete."""
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
    """The listening socket, and the launchers with living children."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.path = [entry for entry in sys.path if entry not in _python_path(os.environ.get("PYTHONPATH", ""))]
        self.launchers: dict[int, tuple[socket.socket, int, int]] = {}
        """Connection, pid and pidfd by the descriptor of the connection."""
        self.children: dict[int, int] = {}
        """From a pidfd to the descriptor of its launcher's connection."""
        self.poll = select.poll()

    def serve(self, later: list[str]) -> None:
        """Serves until standard input ends; loads modules while there are no requests."""
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
                    # A launcher sends nothing after its request: it was killed.
                    signal.pidfd_send_signal(self.launchers[descriptor][2], signal.SIGKILL)
                    self.poll.unregister(descriptor)

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        try:
            request = ForkRequest.receive(connection)
        except (OSError, EOFError):
            connection.close()
            return
        pid = os.fork()
        if pid == 0:
            # First of all: a launcher that gets no pid assumes that nothing was started.
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
        traceback.print_exc()  # the process that needs the module will report it
    gc.freeze()


def _tell(connection: socket.socket, number: int) -> None:
    try:
        connection.sendall(number.to_bytes(4, "little"))
    except OSError:
        pass  # the poll notices a launcher that is gone


def _python_path(text: str) -> list[str]:
    return [str(Path(entry).absolute()) for entry in text.split(os.pathsep) if entry]


def _become(request: ForkRequest, path: list[str]) -> None:
    """In the fork: runs what the launcher was started for. Does not return."""
    code = 1
    try:
        for number, stream in enumerate(request.streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environb.clear()
        os.environb.update(request.environment)
        os.chdir(request.folder)
        sys.path[:] = [request.folder, *_python_path(os.environ.get("PYTHONPATH", "")), *path[1:]]
        _name_process(request.arguments)
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()  # forks would draw equal numbers; `random` reseeds itself
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
            sys.modules.pop(what, None)  # it runs as __main__, as if it had not been loaded
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


def _name_process(arguments: list[str]) -> None:
    """Sets the name that `ps` and `top` show, to tell the forks apart; the command line stays that of the zygote."""
    name = arguments[1].rpartition(".")[2] if arguments[0] == "-m" else "python"
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name[:NAME_CHARS])


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    for module in sys.argv[3:]:
        importlib.import_module(module)
    # Objects that no fork's collector visits stay on shared pages.
    gc.collect()
    gc.freeze()
    Zygote(listener).serve([module for module in sys.argv[2].split(",") if module])


if __name__ == "__main__":
    main()
