"""`make bench`: every benchmark of this folder in one run, as ratios; the last results stay in bench/results.md."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

BENCHMARKS = {
    "framing": "Framing, one core",
    "tcp": "TCP → topic → TCP",
    "zerocopy": "Zero copy: sendfile, splice, tee beside loops that copy",
    "formats": "Formats, one core: million records/s of four fields",
    "table": "Tables: a million keys in the engine",
    "tables": "Records into ClickHouse and Postgres",
    "pg_copy": "COPY BINARY out of Postgres: the compiled libpq loop beside psycopg",
    "connect": "Syncs between Postgres, ClickHouse and modules",
    "kafka": "Kafka: reading a topic, one core",
    "kafka_topics": "Kafka topic → Spark → Kafka topic",
    "kafka_tables": "Kafka topic → ClickHouse table",
    "fleet": "A fleet: Kafka → ClickHouse as a service",
    "clickhouse_http": "INSERTs into the embedded ClickHouse: its own HTTP server beside uvicorn",
    "dbstates": "Database states: clones of prepared databases",
    "scan": "Scans: a million records of a log",
    "spark_json": "JSON filter + derive through Spark",
    "ohlc": "One-second candles through Spark",
    "joins": "Joins and dedup through Spark",
    "chain": "Five stateless processors through Spark beside one",
    "standing": "Standing tasks: many, idle, large records",
    "latency": "TCP → Spark → TCP latency, start-up, idle cost",
    "sockets": "JSON filter + derive from socket to socket",
    "pages": "Pages of a run: closed, open, and of hundreds of topics",
}
RESULTS = Path(__file__).with_name("results.md")


def table(rows: list[dict[str, object]]) -> str:
    """Rows of one benchmark as Markdown; all rows have the columns of the first."""
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(row.get(column, "")) for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def machine() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "polars", "numpy"))
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {system}, {packages}"


def kept() -> dict[str, str]:
    """The sections of the last results, by title."""
    text = RESULTS.read_text() if RESULTS.exists() else ""
    return {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() for part in text.split("\n## ")[1:]}


def main(names: list[str]) -> int:
    """Runs all benchmarks, or those named; each result replaces its section at once."""
    for name, title in BENCHMARKS.items():
        if names and name not in names:
            continue
        print(f"\n{title}", flush=True)
        text = table(importlib.import_module(f"bench.{name}").run())
        print(text, flush=True)
        sections = {**kept(), title: f"{datetime.now(UTC):%Y-%m-%d}\n\n{text}"}
        parts = [f"# Results\n\n{machine()}. Timings here are noisy: read the ratios."]
        parts += [f"## {each}\n\n{sections[each]}" for each in BENCHMARKS.values() if each in sections]
        RESULTS.write_text("\n\n".join(parts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
