"""Names that Gauss gives to its own topics, processors, formats and columns. They begin with an underscore, which no
name in a config may."""

from __future__ import annotations

DEAD_TOPIC = "_dead"
"""The topic of dead letters."""
_RETRY = "_retry."
_READS = "_reads."
_TABLE = "_table."
_ROWS = "_rows."
_FEED = "_feed."

TS_MS_COLUMN, DATA_COLUMN = "_ts_ms", "_data"
"""Columns of every batch that a transform reads: a record's time and its bytes."""
KEY_COLUMN, HEADERS_COLUMN = "_key", "_headers"
"""Columns beside those where a topic's records have keys and headers."""
ROW_COLUMN = "_row"
"""Column of a batch that a transform with `passes_bytes` reads: a record's row number. Its result keeps the column
beside `_data`, so that the records need not be sent again."""
INC_COLUMN, OFFSET_COLUMN = "_inc", "_offset"
"""Columns that tell which record a row was made of: the incarnation of its topic, and its offset."""
SOURCE_COLUMN, EVENT_MS = "_source", "_event_ms"
"""Columns that a `PartialTransform` reads beside those: the number of a record's topic, and its event time in ms."""
EVENT, BEAT, END, ORDER = "_event", "_beat", "_end", "_order"
"""Columns of a read by event time: a row's event time (a timestamp, under a watermark), whether the row is a heartbeat
instead of a record, the end of its window, and its rank among rows of the same time."""
TOPIC_COLUMN = "_topic"
"""The column of a result that names the target of a row, where a transform has several."""
REST = "_rest"
"""The column of a result that holds a record's own bytes, into which the other columns are merged."""


def is_internal(name: str) -> bool:
    """Whether a topic, processor or column is one of Gauss's own."""
    return name.startswith("_")


def retry_topic(processor: str, beside: str = "") -> str:
    """The topic through which a processor reads its replayed dead letters, or those of a topic that it reads beside its
    source."""
    return _RETRY + processor + (f"@{beside}" if beside else "")


def is_retry_topic(topic: str) -> bool:
    return topic.startswith(_RETRY)


def retrying_processor(topic: str) -> str:
    """The processor that reads a retry topic; empty for any other topic."""
    return topic.removeprefix(_RETRY).partition("@")[0] if is_retry_topic(topic) else ""


def orders_topic(processor: str) -> str:
    """The topic that holds the orders of a processor that reads a table: one record per read."""
    return _READS + processor


def is_orders_topic(topic: str) -> bool:
    return topic.startswith(_READS)


def table_processor(topic: str) -> str:
    """The processor that inserts the records of a topic into its table."""
    return _TABLE + topic


def is_table_processor(processor: str) -> bool:
    return processor.startswith(_TABLE)


def inserted_topic(processor: str) -> str:
    """The topic whose records a table processor inserts; empty for any other processor."""
    return processor.removeprefix(_TABLE) if is_table_processor(processor) else ""


def feed_writer(writer: str) -> str:
    """The name under which the ledger keeps the position of a writer outside the engine."""
    return _FEED + writer


def rows_format(topic: str) -> str:
    """The format of the rows of a topic's table."""
    return _ROWS + topic
