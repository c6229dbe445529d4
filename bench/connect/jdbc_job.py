"""Spark JDBC → JDBC, with two partitions and batched inserts. Arguments: the URL, rows, the folder for the driver, the
driver, the tables to copy one after the other. Prints the seconds of the last, without the JVM's start.
"""

from __future__ import annotations

import sys
import time
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

BATCH_ROWS = 10_000


def copy(spark: Any, url: str, rows: int, table: str) -> float:
    at = urlsplit(url)
    place = f"jdbc:postgresql://{at.hostname}:{at.port}{at.path}?reWriteBatchedInserts=true"
    settings = {"url": place, "driver": "org.postgresql.Driver"}
    settings |= {"user": at.username or "", "password": unquote(at.password or "")}
    parts = {"partitionColumn": "id", "lowerBound": "1", "upperBound": str(rows), "numPartitions": "2"}
    began = time.perf_counter()
    reading = spark.read.format("jdbc").options(**settings, **parts, dbtable=table, fetchsize=str(BATCH_ROWS))
    writing = reading.load().write.format("jdbc").options(**settings, dbtable=f"landing.{table}")
    writing.option("batchsize", str(BATCH_ROWS)).mode("append").save()
    return time.perf_counter() - began


def main(url: str, rows: str, folder: str, driver: str, *tables: str) -> None:
    made = SparkSession.builder.master("local[2]").config("spark.jars.packages", driver)
    made = made.config("spark.jars.ivy", folder).config("spark.ui.enabled", "false")
    spark = made.config("spark.driver.memory", "2g").getOrCreate()
    print([copy(spark, url, int(rows), table) for table in tables][-1])
    spark.stop()


main(*sys.argv[1:])
