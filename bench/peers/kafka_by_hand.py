"""`python -m bench.peers.kafka_by_hand BROKER RECORDS PARTITIONS`: filter and derive from topic `given` to topic
`by-hand` as one would write it with PySpark and confluent-kafka: a job over ranges of partitions, `json.loads` per
message. Prints its rate as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

import psutil
from pyspark.sql import SparkSession

Part = tuple[int, int, int]


def main(broker: str, records: int, partitions: int) -> None:
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    each = records // partitions
    step = 100_000
    parts = [(number, begin, min(begin + step, each)) for number in range(partitions) for begin in range(0, each, step)]
    job(session, broker, [(number, 0, 2_000) for number in range(partitions)])
    cpu, clock = cpu_seconds(), time.perf_counter()
    read = job(session, broker, parts)
    seconds, used = time.perf_counter() - clock, cpu_seconds() - cpu
    print(json.dumps({"rate": read / seconds, "per_cpu": read / used}))


def cpu_seconds() -> float:
    own = psutil.Process()
    return sum(sum(process.cpu_times()[:2]) for process in [own, *own.children(recursive=True)])


def job(session: SparkSession, broker: str, parts: list[Part]) -> int:
    def work(given: Iterator[Part]) -> Iterator[int]:
        from confluent_kafka import Consumer, Producer, TopicPartition

        consumer = Consumer({"bootstrap.servers": broker, "group.id": "by-hand", "fetch.queue.backoff.ms": 2})
        producer = Producer({"bootstrap.servers": broker, "compression.codec": "lz4", "enable.idempotence": True})
        for number, begin, end in given:
            consumer.assign([TopicPartition("given", number, begin)])
            read = 0
            while read < end - begin:
                for message in consumer.consume(min(10_000, end - begin - read), 1.0):
                    if message.error():
                        raise RuntimeError(str(message.error()))
                    read += 1
                    record = json.loads(message.value())
                    if record["bid"] > 66.6:
                        record["mid"] = (record["bid"] + record["ask"]) / 2
                        while True:
                            try:
                                producer.produce("by-hand", json.dumps(record))
                                break
                            except BufferError:
                                producer.poll(0.01)
                    producer.poll(0)
            yield read
        producer.flush()
        consumer.close()

    return sum(session.sparkContext.parallelize(parts, len(parts)).mapPartitions(work).collect())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
