"""Records into tables: Gauss's query from an inbox into ClickHouse and Postgres, against the same job by hand in
PySpark, against one plain process with polars, and against `psql \\copy`.

All write to the same embedded servers. The whole takes about three minutes; ten million records, for the engine's
memory, are half a minute of them.
"""

from __future__ import annotations

import io
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import psutil
import pyarrow as pa
from bench.spark_json import Bench, Standing, plain_java
from clickhouse_connect.driver.exceptions import DatabaseError

from gauss.clients.clickhouse import write as writing
from gauss.clients.clickhouse.connect import connect
from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.clients.engine.task_messages import Claim
from gauss.clients.postgres.binaries import bin_folder, run_as
from gauss.clients.postgres.connect import connect as connect_postgres
from gauss.contracts.format import FieldType
from gauss.stream.driver.jobs.table_unit import TableUnit
from gauss.stream.driver.planning.reads import ReadRecords
from gauss.stream.graph import table_queries

RECORDS = 2_000_000
MEMORY_RECORDS = 10_000_000
MEMORY_STEP = 250_000
WARM_UP = 1_500_000
"""Until each of Spark's four Python processes has machine code for its decoder, and Java for its own."""
LOOK_SECONDS = 0.05
BLOCK = 65_536
PROTO = 'syntax = "proto3"; message Quote { string symbol = 1; double bid = 2; double ask = 3; int64 ts = 4; }'
DDL = "symbol string, bid double, ask double, ts bigint"
FIELDS = [{"name": part.split()[0], "type": part.split()[1].replace("bigint", "int64")} for part in DDL.split(", ")]
ARROW = pa.schema([("symbol", pa.string()), ("bid", pa.float64()), ("ask", pa.float64()), ("ts", pa.int64())])
CREATE = (
    "CREATE TABLE {} (ts_ms Int64, symbol Nullable(String), bid Nullable(Float64), ask Nullable(Float64), "
    "ts Nullable(Int64), _inc Int64, _offset Int64) ENGINE = MergeTree ORDER BY ts_ms"
)
"""As Gauss makes it."""
TYPES = {
    **dict.fromkeys(("ts_ms", "_inc", "_offset"), FieldType("Int64")),
    "symbol": FieldType("String"),
    "bid": FieldType("Float64"),
    "ask": FieldType("Float64"),
    "ts": FieldType("Int64"),
}


def config(proto: Path) -> dict[str, Any]:
    formats = [
        {"name": "quote", "plugin": "json", "config": {"fields": FIELDS}},
        {"name": "proto", "plugin": "protobuf", "config": {"proto": str(proto), "message": "Quote"}},
    ]
    tables = {"json_ch": ("clickhouse", "quote"), "proto_ch": ("clickhouse", "proto"), "json_pg": ("postgres", "quote")}
    topics: list[dict[str, Any]] = [
        {"name": name, "storage": system, "storage_config": {"format": kind, "storage_bytes": "4GiB"}}
        for name, (system, kind) in tables.items()
    ]
    quick = {"format": "quote", "flush_interval": "50ms"}
    topics += [{"name": "quick_ch", "storage": "clickhouse", "storage_config": quick}]
    topics += [{"name": name, "storage": "file"} for name in ("by_hand", "nowhere")]
    by_hand = {"name": "by_hand", "plugin": "sql", "source": {"topic": "by_hand", "read": "offset"}}
    by_hand |= {"target": {"topic": "nowhere"}, "config": {"input": {"format": "quote"}, "query": "SELECT 1"}}
    return {"formats": formats, "topics": topics, "processors": [by_hand]}


def quotes(first: int, count: int) -> list[bytes]:
    """JSON lines of about 65 bytes."""
    return [
        b'{"symbol":"SYM%03d","bid":%.4f,"ask":%.4f,"ts":%d}'
        % (i % 500, i % 1000 / 10, i % 1000 / 10 + 0.05, 1700000000000 + i)
        for i in range(first, first + count)
    ]


def messages(count: int) -> list[bytes]:
    """The same as protobuf."""
    import struct

    def varint(number: int) -> bytes:
        made = bytearray()
        while number > 127:
            made.append(number & 127 | 128)
            number >>= 7
        return bytes([*made, number])

    return [
        b"\x0a\x06SYM%03d\x11" % (i % 500)
        + struct.pack("<d", i % 1000 / 10)
        + b"\x19"
        + struct.pack("<d", i % 1000 / 10 + 0.05)
        + b"\x20"
        + varint(1700000000000 + i)
        for i in range(count)
    ]


class Tables:
    """The servers, the engine and Spark over one throw-away data directory."""

    def __init__(self, root: Path, servers: dict[str, EmbeddedServer]) -> None:
        proto = root.parent / "quote.proto"
        proto.write_text(PROTO)
        self.bench = Bench(root, config(proto))
        self.servers = servers

    def count(self, table: str) -> int:
        if table.endswith("_pg"):
            with connect_postgres(self.servers["postgres"].endpoint) as connection:
                row = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
                return int(row[0]) if row else 0
        with connect(self.servers["clickhouse"].endpoint) as client:
            return int(client.query(f"SELECT count() FROM {table}").result_rows[0][0])

    def start(self, name: str) -> Standing:
        """The standing job that empties a table's inbox."""
        entry = next(each for each in table_queries(self.bench.pipeline) if each.source and each.source.topic == name)
        return Standing(self.bench, TableUnit(self.bench.context(), entry, 2), 2)

    def throughput(self, name: str, records: list[bytes]) -> float:
        """Records per second from an inbox that holds them all into the table, after a warm-up."""
        query = self.start(name)
        self.bench.send(name, records[:WARM_UP])
        self._wait(name, WARM_UP, query)
        query.stop()
        self.bench.send(name, records)
        return self._rate(name, self.start(name), WARM_UP + len(records))

    def latency(self, name: str, records: list[bytes]) -> float:
        """Median milliseconds from a record's append until a query of the table finds its row."""
        job, found = self.start(name), []
        with connect(self.servers["clickhouse"].endpoint) as client:
            for number, record in enumerate(records):
                begun = time.perf_counter()
                self.bench.send(name, [record])
                while not _has_row(client, name, number):
                    time.sleep(0.002)
                found.append((time.perf_counter() - begun) * 1000)
                time.sleep(0.05)
        job.stop()
        return statistics.median(found[len(found) // 4 :])

    def _rate(self, name: str, running: Any, end: int) -> float:
        """From the end of a query's first batch to that of its last, by what it has committed: to ask the table all
        the time would slow it down."""
        while (already := reached(name, running)) <= WARM_UP:
            time.sleep(LOOK_SECONDS)
        begun = time.perf_counter()
        self._wait(name, end, running)
        seconds = time.perf_counter() - begun
        running.stop()
        assert self.count(name) == end
        return (end - already) / seconds

    @staticmethod
    def _wait(name: str, end: int, running: Any) -> None:
        while reached(name, running) < end:
            assert running.isActive, running.exception()
            time.sleep(LOOK_SECONDS)

    def by_hand(self, records: list[bytes]) -> float:
        """from_json, and Arrow blocks inserted by foreachBatch: what one would write with PySpark alone."""
        from pyspark.sql import DataFrame
        from pyspark.sql import functions as F

        bench, endpoint = self.bench, self.servers["clickhouse"].endpoint
        with connect(endpoint) as client:
            client.command(CREATE.format("by_hand"))
        claimed = bench.client.claim(Claim("by_hand", "bench", ["by_hand"], ["nowhere"]))
        read = ReadRecords(
            str(bench.data_dir.flight_json),
            "by_hand",
            claimed.generation,
            start=claimed.start,
            target_ms=1_000,
        )

        def insert(batch: DataFrame, _: int) -> None:
            with connect(endpoint) as client:
                client.insert_arrow("by_hand", batch.toArrow())

        frame = bench.spark.readStream.format("gauss").option("plan", read.option()).load()
        parsed = frame.select("_ts_ms", F.from_json(F.col("_data").cast("string"), DDL).alias("r"))
        rows = parsed.select(F.col("_ts_ms").alias("ts_ms"), "r.*")
        folder = str(bench.data_dir.checkpoints / "by_hand")
        job = rows.writeStream.foreachBatch(insert).option("checkpointLocation", folder)
        query = job.start()
        bench.send("by_hand", records[:WARM_UP])
        self._wait("by_hand", WARM_UP, query)
        query.stop()
        bench.send("by_hand", records)
        return self._rate("by_hand", job.start(), WARM_UP + len(records))

    def close(self) -> None:
        self.bench.close()


def _has_row(client: Any, table: str, offset: int) -> bool:
    try:
        return bool(client.query(f"SELECT count() FROM {table} WHERE _offset = {offset}").result_rows[0][0])
    except DatabaseError:  # the table comes with its first block
        return False


def reached(topic: str, running: Any) -> int:
    """How far the last batch of a query, or the last epoch of a standing job, went."""
    if isinstance(running, Standing):
        return running.reached(topic)
    progress = running.lastProgress
    ends = progress["sources"][0]["endOffset"] if progress else None
    found = json.loads(ends) if isinstance(ends, str) else ends or {}
    return int(found[topic]["off"]) if topic in found else 0


def plain_process(server: EmbeddedServer, decoded: Callable[[int], pa.Table], table: str) -> float:
    """Records per second of one process that decodes block by block and inserts each."""
    target, now = writing.ClickHouseTarget(table, TYPES), int(time.time() * 1000)
    with connect(server.endpoint) as client:
        client.command(CREATE.format(table))
        begun = time.perf_counter()
        for first in range(0, RECORDS, BLOCK):
            rows = decoded(first)
            marks = {"ts_ms": np.full(len(rows), now), "_inc": np.ones(len(rows), np.int64)}
            for name, values in (marks | {"_offset": np.arange(first, first + len(rows))}).items():
                rows = rows.append_column(name, pa.array(values))
            writing.insert(client, target, rows, token=f"{table}{first}")
        return RECORDS / (time.perf_counter() - begun)


def decoded_json(records: list[bytes]) -> Callable[[int], pa.Table]:
    schema = {"symbol": pl.String, "bid": pl.Float64, "ask": pl.Float64, "ts": pl.Int64}

    def decode(first: int) -> pa.Table:
        text = b"\n".join(records[first : first + BLOCK])
        return pl.read_ndjson(io.BytesIO(text), schema=schema).to_arrow().cast(ARROW)

    return decode


def decoded_protobuf(records: list[bytes], proto: Path) -> Callable[[int], pa.Table]:
    """polars knows no protobuf: the same library as Gauss's."""
    from gauss import registry
    from gauss.contracts.format import FormatSpec

    spec = registry.spec(FormatSpec, "protobuf")
    format_ = registry.build(spec, spec.validate({"proto": str(proto), "message": "Quote"}))

    def decode(first: int) -> pa.Table:
        block = pa.array(records[first : first + BLOCK], pa.binary())
        return pa.Table.from_batches([format_.decode_batch(block, ARROW).rows])

    return decode


def psql_copy(server: EmbeddedServer, records: list[bytes], folder: Path) -> float:
    """Records per second of `psql \\copy` from a file of the same rows."""
    rows = msgspec.json.decode(b"[" + b",".join(records) + b"]")
    file = folder / "quotes.csv"
    now = int(time.time() * 1000)
    file.write_text("".join(f"{now},{r['symbol']},{r['bid']},{r['ask']},{r['ts']},1,{i}\n" for i, r in enumerate(rows)))
    with connect_postgres(server.endpoint, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE by_psql (ts_ms BIGINT, symbol TEXT, bid DOUBLE PRECISION, ask DOUBLE PRECISION, ts BIGINT, "
            "_inc BIGINT, _offset BIGINT)"
        )
    psql = bin_folder(run_as()) / "psql"
    begun = time.perf_counter()
    command = [str(psql), server.endpoint.url, "-qc", f"\\copy by_psql FROM '{file}' CSV"]
    subprocess.run(command, check=True, cwd="/")
    return len(records) / (time.perf_counter() - begun)


@contextmanager
def fresh(servers: dict[str, EmbeddedServer], root: Path) -> Iterator[Tables]:
    made = Tables(root, servers)
    try:
        yield made
    finally:
        made.close()


def memory(tables: Tables, records: list[bytes]) -> dict[str, object]:
    """The engine's own memory around the first million records through an inbox, and at the end of ten. The runs
    before have filled its allocators, and the pages of mapped files, which the kernel may take back at any time, do
    not count."""
    process = psutil.Process(tables.bench.engine.pid)
    query = tables.start("json_ch")
    begun = tables.count("json_ch")
    sizes: dict[int, int] = {}
    for done in range(MEMORY_STEP, MEMORY_RECORDS + 1, MEMORY_STEP):
        tables.bench.send("json_ch", records[:MEMORY_STEP])
        tables._wait("json_ch", begun + done, query)
        found = process.memory_info()
        sizes[done] = found.rss - found.shared
    query.stop()
    first = statistics.median(size for done, size in sizes.items() if 500_000 < done <= 1_500_000)
    last = statistics.median(size for done, size in sizes.items() if done > MEMORY_RECORDS - 1_000_000)
    told = f"{first / 2**20:.0f} → {last / 2**20:.0f} MiB"
    return row("engine's memory once warm, from 1M to 10M records", told, "", last / first, "≤ 1.1")


def row(work: str, gauss: str, other: str = "", ratio: float | None = None, aim: str = "") -> dict[str, object]:
    shown = "" if ratio is None else f"{ratio:.2f}"
    return {"work": work, "Gauss": gauss, "compared with": other, "ratio": shown, "aim": aim}


def compared(work: str, mine: float, name: str, other: float, aim: str) -> dict[str, object]:
    return row(work, f"{mine / 1000:.0f}k rec/s", f"{name} {other / 1000:.0f}k rec/s", mine / other, aim)


def run() -> list[dict[str, object]]:
    records, protos = quotes(0, RECORDS), messages(RECORDS)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        systems = {name: ensure(name, root / "data" / name) for name in ("clickhouse", "postgres")}
        with systems["clickhouse"], systems["postgres"]:
            with plain_java(), fresh(systems, root / "hand") as tables:
                hand = tables.by_hand(records)
            with fresh(systems, root / "data") as tables:
                seen_ms = tables.latency("quick_ch", records[:80])
                json_ch = tables.throughput("json_ch", records)
                proto_ch = tables.throughput("proto_ch", protos)
                json_pg = tables.throughput("json_pg", records)
                engine = memory(tables, records)
            plain_json = plain_process(systems["clickhouse"], decoded_json(records), "plain_json")
            plain_proto = plain_process(
                systems["clickhouse"], decoded_protobuf(protos, root / "quote.proto"), "plain_proto"
            )
            copy = psql_copy(systems["postgres"], records, root)
    return [
        compared("JSON → ClickHouse", json_ch, "PySpark by hand", hand, "≥ 2"),
        row("JSON → ClickHouse, two cores", f"{json_ch / 1000:.0f}k rec/s", aim="≥ 1000k rec/s"),
        row("record → row, flush_interval 50 ms, p50", f"{seen_ms:.0f} ms", aim="≤ 150 ms"),
        compared("protobuf → ClickHouse", proto_ch, "PySpark by hand, JSON", hand, "≥ 2"),
        compared("JSON → ClickHouse", json_ch, "polars in one process", plain_json, "≥ 0.5"),
        compared("protobuf → ClickHouse", proto_ch, "ptars in one process", plain_proto, "≥ 0.5"),
        compared("JSON → Postgres", json_pg, "psql \\copy of CSV", copy, "≥ 0.6"),
        engine,
    ]
