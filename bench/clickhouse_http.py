"""CPU time of INSERTs into the embedded ClickHouse: its own HTTP server against the least that uvicorn would do.

Both run in processes of their own on the same engine code. The uvicorn application only gathers the body and gives it
to the engine: sessions, settings, limits and other statements would cost more.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import psutil
import pyarrow as pa
from bench.tables import CREATE, TYPES

from gauss.clients.clickhouse import write as writing
from gauss.clients.clickhouse.connect import connect
from gauss.clients.embedded import ensure
from gauss.clients.endpoint import Endpoint
from gauss.process.ports import free_port
from gauss.process.ready import read_ready, report, spawn

ROUNDS = 3
BLOCKS = {500: 100, 50_000: 20}
"""Rows of an INSERT → INSERTs of a round."""


def rows_of(count: int) -> pa.Table:
    numbers = pa.array(range(count), pa.int64())
    symbols = pa.array([f"SYM{index % 100}" for index in range(count)])
    prices = numbers.cast(pa.float64())
    columns = {"ts_ms": numbers, "symbol": symbols, "bid": prices, "ask": prices, "ts": numbers}
    return pa.table({**columns, "_inc": numbers, "_offset": numbers})


@contextmanager
def own_server(folder: Path) -> Iterator[Endpoint]:
    with ensure("clickhouse", folder) as server:
        yield server.endpoint


@contextmanager
def uvicorn_server(folder: Path) -> Iterator[Endpoint]:
    process, ready = spawn([sys.executable, "-m", "bench.clickhouse_http", str(folder)], stdin=subprocess.PIPE)
    with os.fdopen(ready):
        port = read_ready(ready, 60)["port"]
    yield Endpoint("http", "127.0.0.1", port, "default", "", "default", process.pid)
    process.kill()
    process.wait()


def serve(folder: Path) -> None:
    """The uvicorn application, in a process of its own."""
    import uvicorn

    from gauss.clients.clickhouse.engine import ChdbEngine
    from gauss.clients.clickhouse.http_request import FrontRequest
    from gauss.clients.clickhouse.statement import Statement, read_statement

    engine, port = ChdbEngine(folder), free_port()

    def run(request: FrontRequest, statement: Statement) -> bytes:
        with engine.connection(request.settings(), "", 0.0, check=False) as connection:
            if statement.data_at is None:
                return bytes(connection.query(request.text.decode(), "TabSeparated").bytes())
            place = f"FROM INFILE '/proc/self/fd/{request.rest.fileno()}' COMPRESSION 'none'"
            connection.query(f"{statement.head} {place} {statement.tail} FORMAT {statement.format}", "Null")
        return b""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        params = dict(parse_qsl(scope["query_string"].decode()))
        with os.fdopen(os.memfd_create("insert"), "w+b") as file:
            message = await receive()
            text = message["body"] or params["query"].encode()
            statement = read_statement(text)
            file.write(text[statement.data_at or 0 :])
            while message["more_body"]:
                message = await receive()
                file.write(message["body"])
            file.flush()
            content = await asyncio.to_thread(run, FrontRequest(params, text, file), statement)
        headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    class Reporting(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            report({"ready": True, "port": port})

    Reporting(uvicorn.Config(app, port=port, log_level="critical", lifespan="off", http="h11")).run()


def cpu_seconds(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return float(spent.user + spent.system)


def measure(endpoint: Endpoint, rows: int, count: int, first: int) -> float:
    """CPU milliseconds of the server for one INSERT of so many rows."""
    client, table, server = connect(endpoint), writing.ClickHouseTarget(f"t{rows}", TYPES), psutil.Process(endpoint.pid)
    block = rows_of(rows)
    before = cpu_seconds(server)
    for number in range(count):
        writing.insert(client, table, block, token=f"{rows}-{first + number}")
    return (cpu_seconds(server) - before) / count * 1000


def run() -> list[dict[str, object]]:
    """Rounds of both servers in turn, so that both meet the same load of the machine."""
    found: dict[tuple[str, int], list[float]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        own_server(Path(folder) / "own") as own,
        uvicorn_server(Path(folder) / "uvicorn") as other,
    ):
        servers = {"own": own, "uvicorn": other}
        for endpoint in servers.values():
            for rows in BLOCKS:
                connect(endpoint).command(CREATE.format(f"t{rows}"))
                measure(endpoint, rows, 10, -10)
        for turn in range(ROUNDS):
            for rows, count in BLOCKS.items():
                for name, endpoint in servers.items():
                    found.setdefault((name, rows), []).append(measure(endpoint, rows, count, turn * count))
    return [
        {
            "rows of an INSERT": f"{rows:,}",
            "own server, CPU ms": f"{min(found['own', rows]):.2f}",
            "uvicorn, CPU ms": f"{min(found['uvicorn', rows]):.2f}",
            "uvicorn / own": f"{min(found['uvicorn', rows]) / min(found['own', rows]):.2f}",
        }
        for rows in BLOCKS
    ]


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
