"""The "python" that Spark starts in local mode: lets the zygote fork the child, and represents it to Spark.

`python -I -S launcher.py SOCKET_FOLDER PYTHON ARGUMENTS…`. It imports built-in modules only, and so starts in some
15 ms. It sends its standard streams, arguments, folder and environment to the zygote, which forks the child; it
forwards signals to the child and exits with the child's exit code. Without a zygote it becomes an ordinary Python.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` and `socket` load enum and more: twice the start-up
import _socket
import marshal
import os
import sys

SOCKET = "zygote.sock"
ENDED = 1 << 31
"""Flag in an answer: the number is an exit code, not a pid."""
LOOK_SECONDS = 1.0
FORWARDED = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)


def hand_over(folder: str, arguments: list[str]) -> tuple[_socket.socket, int] | None:
    """The connection and the child's pid; None if there is no zygote."""
    try:
        # Through the folder's descriptor, since the path of a socket has at most 107 bytes.
        where = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.connect(f"/proc/self/fd/{where}/{SOCKET}")
        os.close(where)
        request = marshal.dumps((arguments, os.getcwd(), dict(os.environb)))  # noqa: PTH109
        message = len(request).to_bytes(4, "little") + request
        streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
        sent = connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
        connection.sendall(message[sent:])
        answer = connection.recv(4)
    except OSError:
        return None
    # Without an answer nothing was started: a child sends its pid before it does anything else.
    return (connection, int.from_bytes(answer, "little")) if len(answer) == 4 else None


def stand_in(connection: _socket.socket, pid: int) -> int:
    """Waits for the child's end and returns its exit code; forwards signals meanwhile."""
    if pid & ENDED:  # it was killed before it sent its pid
        return pid - ENDED
    try:
        child = os.pidfd_open(pid)
    except ProcessLookupError:
        child = -1
    for number in FORWARDED:
        _signal.signal(number, lambda signal, _: _forward(child, signal))
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, FORWARDED)
    for stream in (0, 1, 2):
        os.close(stream)  # they are the child's: their readers see EOF when the child closes them
    answer = _last_answer(connection)
    if len(answer) == 4:
        return int.from_bytes(answer, "little") - ENDED
    if child >= 0:  # the zygote is gone; the child goes on
        import select

        waiting = select.poll()
        waiting.register(child, select.POLLIN)
        while not waiting.poll(LOOK_SECONDS * 1000):
            pass  # as below: signals that arrived just before are handled now
    return 1


def _last_answer(connection: _socket.socket) -> bytes:
    """The zygote's last answer. A signal that arrives just before the wait is handled only after it, so the wait ends
    now and then."""
    connection.settimeout(LOOK_SECONDS)
    while True:
        try:
            return connection.recv(4)
        except TimeoutError:
            continue


def _forward(child: int, number: int) -> None:
    try:
        _signal.pidfd_send_signal(child, number)
    except OSError:
        pass  # it has ended, and the zygote is about to report it


def main() -> None:
    folder, python, *arguments = sys.argv[1:]
    # Signals that arrive while the child is made are forwarded later.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, FORWARDED)
    handed = hand_over(folder, arguments) if arguments[:1] in (["-m"], ["-c"]) else None
    if handed is None:
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, FORWARDED)
        os.execv(python, [python, *arguments])
    os._exit(stand_in(*handed))


if __name__ == "__main__":
    main()
