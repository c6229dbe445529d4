from __future__ import annotations

import os
import re
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption, RunClient
from gauss.cli.output import CommandOutput, JsonOption
from gauss.model.errors import ConfigError, Unavailable
from gauss.model.units import counted, human_bytes

PIECE_BYTES = 1 << 20
_ADDRESS = re.compile(r"^(?P<host>\[[^]]+\]|[^:]+):(?P<port>\d{1,5})$")


def command(
    target: Annotated[
        str, typer.Argument(help="A topic of the run, or HOST:PORT of a source.", autocompletion=complete.topics)
    ],
    file: Annotated[str, typer.Argument(help="The file to send; - for standard input.")] = "-",
    *,
    framing: Annotated[
        str, typer.Option(help="The framing that splits the bytes into records (topics only).")
    ] = "newline",
    delimiter: Annotated[str | None, typer.Option(help="Delimiter of newline framing. Default: a newline.")] = None,
    prefix_type: Annotated[
        str | None, typer.Option(help="Prefix of length_prefixed framing: u16be, u32be or varint.")
    ] = None,
    frame_size: Annotated[int | None, typer.Option(help="Record size of fixed_size framing, in bytes.")] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Send a file or standard input to a topic, or unframed to a socket.

    Examples: gauss send quotes.raw quotes.jsonl · seq 1000 | gauss send numbers · gauss send 127.0.0.1:7100 feed.bin
    """
    output = CommandOutput(json=json)
    began = time.monotonic()
    with _opened(file) as source:
        if address := _ADDRESS.match(target):
            result: dict[str, Any] = {"bytes": _to_socket(address["host"].strip("[]"), int(address["port"]), source)}
            what = human_bytes(result["bytes"])
        else:
            options = {"delimiter": delimiter, "prefix_type": prefix_type, "frame_size": frame_size}
            client = RunClient(data_dir, timeout=None)
            client.get("topics", target)  # an empty input needs an existing topic too
            result = _to_topic(client, target, source, framing, options)
            what = f"{counted(result['accepted'], 'record')}, {human_bytes(result['bytes'])},"
    seconds = time.monotonic() - began
    output.data({**result, "seconds": round(seconds, 3)})
    output.line(f"sent {what} to {target} in {seconds:.1f} s")
    if refused := result.get("refused"):
        why = "the topic is full, or rejected them: see gauss dlq ls"
        output.note(f"{target} refused {refused:,} records: {why}", style="yellow")


def _opened(file: str) -> BinaryIO:
    if file == "-":
        return sys.stdin.buffer
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise ConfigError(
            f"can't read {file}: {error.strerror}", hint="pass a file, or - for standard input"
        ) from error


def _pieces(source: BinaryIO) -> Iterator[bytes]:
    """Reads the available bytes, up to 1 MiB, with a progress bar on a terminal if the size is known."""
    total = os.fstat(source.fileno()).st_size
    if not (sys.stderr.isatty() and total > PIECE_BYTES):
        while piece := source.read1(PIECE_BYTES):  # type: ignore[attr-defined]
            yield piece
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("sending", total=total)
        while piece := source.read1(PIECE_BYTES):  # type: ignore[attr-defined]
            yield piece
            progress.advance(task, len(piece))


def _to_socket(host: str, port: int, source: BinaryIO) -> int:
    if port > 65535:
        raise ConfigError(f"invalid port {port}", hint="use a port from 1 to 65535")
    try:
        peer = socket.create_connection((host, port), timeout=10)
    except OSError as error:
        raise Unavailable(
            f"{host}:{port} can't be reached: {error}", hint="check that the source is running"
        ) from error
    sent = 0
    with peer:
        peer.settimeout(None)  # back-pressure is not a failure
        try:
            for piece in _pieces(source):
                peer.sendall(piece)
                sent += len(piece)
        except (ConnectionError, OSError) as error:
            raise Unavailable(
                f"{host}:{port} closed the connection after {human_bytes(sent)}: {error}",
                hint="see the log of the run; earlier records may have arrived",
            ) from error
    return sent


def _to_topic(client: RunClient, topic: str, source: BinaryIO, framing: str, options: dict[str, Any]) -> dict[str, Any]:
    """Sends newline-framed input in requests of whole lines, and other framings in one streamed request."""
    accepted = refused = sent = 0

    def counted(pieces: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal sent
        for piece in pieces:
            sent += len(piece)
            yield piece

    if framing == "newline":
        bodies: Iterator[Any] = counted(_whole_lines(source, options.get("delimiter") or "\n"))
    else:
        bodies = iter([counted(_pieces(source))])
    for body in bodies:
        done = client.post("topics", topic, "records", body=body, framing=framing, **options)
        accepted += done["accepted"]
        refused += done.get("refused", 0)
    return {"topic": topic, "accepted": accepted, "bytes": sent} | ({"refused": refused} if refused else {})


def _whole_lines(source: BinaryIO, delimiter: str) -> Iterator[bytes]:
    end = delimiter.encode()
    rest = b""
    for piece in _pieces(source):
        whole, found, rest_of_piece = (rest + piece).rpartition(end)
        rest = rest_of_piece
        if found:
            yield whole + found
    if rest:
        yield rest
