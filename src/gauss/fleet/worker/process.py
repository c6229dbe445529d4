"""What the process of a worker has besides its slots: Spark, and a port for metrics."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from gauss.config.spec import SparkSection
from gauss.fleet.logs import log_as_json
from gauss.fleet.worker.ends import Clusters
from gauss.fleet.worker.runner import SparkRunner
from gauss.fleet.worker.worker import FleetWorker
from gauss.model.errors import ConfigError
from gauss.model.files import make_private
from gauss.model.paths import DataDir, unusable
from gauss.process import locks
from gauss.spark.session import Preload, cores_of, start

PRELOAD = Preload(
    early=("gauss.fleet.worker.range_work", "gauss.registry", "gauss.plugins.formats.json.codec"),
    late=("numba", "gauss.spark.machine_code", "gauss.plugins.formats.json.preloaded"),
)


@contextmanager
def start_spark(data_dir: Path) -> Iterator[tuple[SparkRunner, Clusters]]:
    """Spark in a data directory of its own."""
    paths = DataDir(data_dir.absolute())
    try:
        for folder in (paths.root, paths.run, paths.logs, paths.cache):
            make_private(folder)
        lock = locks.take(paths.lock)
    except OSError as error:
        raise unusable(data_dir, error) from error
    log_as_json()
    if lock is None:
        raise ConfigError(f"another process uses the data directory {data_dir}", hint="name another with --data-dir")
    try:
        section = SparkSection()
        cores = cores_of(section.master)
        # Twice as many slots as cores: tasks that wait for servers leave their core to others.
        spark = start(section, paths, standing=cores, preload=PRELOAD)
        try:
            runner = SparkRunner(spark, 2 * cores)
            threading.Thread(target=runner.warm_up, name="warm-up", daemon=True).start()
            yield runner, Clusters()
        finally:
            spark.stop()
    finally:
        os.close(lock)


@contextmanager
def serve_metrics(port: int | None, worker: FleetWorker) -> Iterator[None]:
    """`/metrics` and `/healthz` on loopback."""
    if port is None:
        yield
        return

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = {"/metrics": worker.metrics(), "/healthz": "up\n"}.get(self.path)
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write((found or "not found\n").encode())

        def log_message(self, *_: object) -> None:
            """Requests are not logged."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise ConfigError(f"--metrics-port: {port} can't be bound: {error.strerror}", hint="free it") from error
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
