"""`python -m bench.peers.kafka_clickhouse_by_hand SETTINGS`: a Kafka topic into the table `by_hand` as one would write
it with PySpark, confluent-kafka and clickhouse-connect: a job over ranges of partitions, `json.loads` per message, an
insert of rows for each range. Prints rows, seconds and CPU seconds as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil
from pyspark.sql import SparkSession

STEP = 10_000
"""Messages of a range, and rows of an insert."""
Part = tuple[int, int, int]


def main(given: dict[str, Any]) -> None:
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    each = given["records"] // given["partitions"]
    numbers = range(given["partitions"])
    parts = [(number, begin, min(begin + STEP, each)) for number in numbers for begin in range(0, each, STEP)]
    job(session, given, [(number, 0, 1_000) for number in numbers])
    cpu, clock = cpu_seconds(given["server"]), time.perf_counter()
    rows = job(session, given, parts)
    seconds, used = time.perf_counter() - clock, cpu_seconds(given["server"]) - cpu
    print(json.dumps({"rows": rows, "seconds": seconds, "cpu": used}))


def cpu_seconds(server: int) -> float:
    own = psutil.Process()
    processes = [own, *own.children(recursive=True), psutil.Process(server)]
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def job(session: SparkSession, given: dict[str, Any], parts: list[Part]) -> int:
    def work(some: Iterator[Part]) -> Iterator[int]:
        import clickhouse_connect
        from confluent_kafka import Consumer, TopicPartition

        conf = {"bootstrap.servers": given["broker"], "group.id": "by-hand", "fetch.queue.backoff.ms": 2}
        consumer, columns = Consumer(conf), given["columns"]
        client = clickhouse_connect.get_client(dsn=given["url"])
        for number, begin, end in some:
            consumer.assign([TopicPartition(given["topic"], number, begin)])
            rows: list[list[Any]] = []
            while len(rows) < end - begin:
                for message in consumer.consume(min(10_000, end - begin - len(rows)), 1.0):
                    if message.error():
                        raise RuntimeError(str(message.error()))
                    record = json.loads(message.value())
                    rows.append([record[name] for name in columns])
            client.insert("by_hand", rows, column_names=columns)
            yield len(rows)
        consumer.close()

    return sum(session.sparkContext.parallelize(parts, len(parts)).mapPartitions(work).collect())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
