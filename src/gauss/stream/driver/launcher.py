"""The "python" that Spark starts in local mode: hands its own start over to the zygote and stands in for the child.

`python -I -S launcher.py SOCKET_FOLDER PYTHON ARGUMENTS…`. It imports nothing but built-in modules, so that it costs
some 15 ms, and nothing of Gauss. Its standard streams, arguments, folder and environment go to the zygote, which
forks the child; signals go on to the child, and the child's exit code becomes its own. Without a zygote it becomes
an ordinary Python.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` and `socket` load enum and more: twice the start-up
import _socket
import marshal
import os
import sys

SOCKET = "zygote.sock"
ENDED = 1 << 31
"""In what is told: the number is an exit code, not a pid."""
LOOK_SECONDS = 1.0
FORWARDED = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)


def hand_over(folder: str, arguments: list[str]) -> tuple[_socket.socket, int] | None:
    """The connection and the child's pid; None when there is no zygote to take it."""
    try:
        # By way of the folder's descriptor, since a socket's path may have 107 bytes only.
        where = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.connect(f"/proc/self/fd/{where}/{SOCKET}")
        os.close(where)
        request = marshal.dumps((arguments, os.getcwd(), dict(os.environb)))  # noqa: PTH109
        message = len(request).to_bytes(4, "little") + request
        streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
        sent = connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
        connection.sendall(message[sent:])
        told = connection.recv(4)
    except OSError:
        return None
    # Without an answer nothing was started, and nothing has read the streams: a child tells its pid before all else.
    return (connection, int.from_bytes(told, "little")) if len(told) == 4 else None


def stand_in(connection: _socket.socket, pid: int) -> int:
    """Waits for the child's end and gives its exit code; passes signals on meanwhile."""
    if pid & ENDED:  # it was killed before it could say anything
        return pid - ENDED
    try:
        child = os.pidfd_open(pid)
    except ProcessLookupError:
        child = -1
    for number in FORWARDED:
        _signal.signal(number, lambda signal, _: _forward(child, signal))
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, FORWARDED)
    for stream in (0, 1, 2):
        os.close(stream)  # they are the child's: whoever reads them sees their end when the child ends them
    told = _told(connection)
    if len(told) == 4:
        return int.from_bytes(told, "little") - ENDED
    if child >= 0:  # the zygote is gone, the child is not: it goes on as if nothing had happened
        import select

        waiting = select.poll()
        waiting.register(child, select.POLLIN)
        while not waiting.poll(LOOK_SECONDS * 1000):
            pass  # as below: a signal that came just before is handled now
    return 1


def _told(connection: _socket.socket) -> bytes:
    """What the zygote says at last. Python runs a handler only between its own steps: a signal that comes just before
    the wait would lie until its end, so the wait ends now and then."""
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
        pass  # it has ended meanwhile, and the zygote is about to say so


def main() -> None:
    folder, python, *arguments = sys.argv[1:]
    # What comes while the child is being made waits until it can be passed on.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, FORWARDED)
    handed = hand_over(folder, arguments) if arguments[:1] in (["-m"], ["-c"]) else None
    if handed is None:
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, FORWARDED)
        os.execv(python, [python, *arguments])
    os._exit(stand_in(*handed))


if __name__ == "__main__":
    main()
