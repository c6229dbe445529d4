"""The table engines and types of ClickHouse, to detect misspelled names without a server."""

from __future__ import annotations

from gauss.config.validate import did_you_mean


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FAMILY = ("", "Replacing", "Summing", "Aggregating", "Collapsing", "VersionedCollapsing", "Graphite", "Coalescing")
ENGINES = _words(
    """Log TinyLog StripeLog Memory Null Set Join Buffer Distributed Merge Dictionary EmbeddedRocksDB KeeperMap
    TimeSeries File FileLog URL S3 S3Queue GCS OSS COSN HDFS AzureBlobStorage AzureQueue Kafka NATS RabbitMQ PostgreSQL
    MySQL SQLite MongoDB Redis ODBC JDBC DeltaLake Iceberg Hudi Paimon YTsaurus BigQuery Remote RemoteSecure
    ArrowStream"""
) | {f"{prefix}{kind}MergeTree" for prefix in ("", "Replicated", "Shared") for kind in _FAMILY}
TYPES = _words(
    """AggregateFunction Array BFloat16 Bool Boolean Date Date32 DateTime DateTime32 DateTime64 Decimal Decimal32
    Decimal64 Decimal128 Decimal256 Dynamic Enum Enum8 Enum16 FixedString Float32 Float64 Geometry IPv4 IPv6 Int8 Int16
    Int32 Int64 Int128 Int256 JSON LineString LowCardinality Map MultiLineString MultiPoint MultiPolygon Nested Nothing
    Nullable Object Point Polygon QBit Ring SimpleAggregateFunction String Time Time64 Tuple UInt8 UInt16 UInt32 UInt64
    UInt128 UInt256 UUID Variant"""
)
_SQL_TYPES = _words(
    """BIGINT BINARY BIT BLOB BYTE BYTEA CHAR CHARACTER CLOB DEC DOUBLE FIXED FLOAT INET4 INET6 INT INT1 INTEGER
    LONGBLOB LONGTEXT MEDIUMBLOB MEDIUMINT MEDIUMTEXT NATIONAL NCHAR NUMERIC NVARCHAR REAL SET SIGNED SINGLE SMALLINT
    TEXT TIMESTAMP TINYBLOB TINYINT TINYTEXT UNSIGNED VARBINARY VARCHAR VARCHAR2 YEAR BOOL BOOLEAN"""
)
"""Type names of other systems that ClickHouse accepts in any case; the first word of each."""


def engine_fault(engine: str) -> str:
    """The fault of an engine's name, with the closest known one; empty if it is valid."""
    name = engine.partition("(")[0].strip()
    if name in ENGINES:
        return ""
    near = did_you_mean(name, ENGINES) or 'write for example "MergeTree" or "ReplacingMergeTree"'
    return f'ClickHouse has no table engine "{name}": {near}'


def is_type(name: str) -> bool:
    """Whether ClickHouse has a type of this name."""
    return name in TYPES or name.startswith("Interval") or name.split(" ", maxsplit=1)[0].upper() in _SQL_TYPES
