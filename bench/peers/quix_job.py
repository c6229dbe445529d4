"""Quix Streams: the two jobs over a file of JSON lines, its dataframe alone without the broker that it needs otherwise.
Arguments: derive | ohlc, the file. Prints records and seconds."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from quixstreams import Application, MessageContext
from quixstreams.context import set_message_context
from quixstreams.dataframe.windows import First, Last, Max, Min
from quixstreams.dataframe.windows.aggregations import Count
from quixstreams.models.topics import Topic, TopicConfig


def derive(frame: Any) -> Any:
    frame = frame[frame["bid"] > 66.6]
    frame["mid"] = (frame["bid"] + frame["ask"]) / 2
    return frame.apply(json.dumps)


def ohlc(frame: Any) -> Any:
    windows = frame.tumbling_window(duration_ms=1000)
    candles = windows.agg(open=First("bid"), high=Max("bid"), low=Min("bid"), close=Last("bid"), volume=Count())
    return candles.final().apply(json.dumps)


def main(job: str, path: str) -> None:
    app = Application(
        broker_address="127.0.0.1:1", state_dir=tempfile.mkdtemp(), use_changelog_topics=False, loglevel=None
    )
    config = {"retention.ms": "1000", "retention.bytes": "-1", "cleanup.policy": "delete"}
    partition = TopicConfig(num_partitions=1, replication_factor=1, extra_config=config)
    topic = Topic("quotes", create_config=partition, value_deserializer="json", key_deserializer="str")
    topic.broker_config = partition
    frame = app.dataframe(topic)
    frame = {"derive": derive, "ohlc": ohlc}[job](frame)
    app._state_manager.on_partition_assign(frame.stream_id, 0, {})
    app._processing_context.init_checkpoint()
    run = frame.compose()["quotes"]
    count = 0
    begun = time.perf_counter()
    with Path(path).open("rb") as lines:
        for line in lines:
            set_message_context(MessageContext(topic="quotes", partition=0, offset=count, size=len(line)))
            row = json.loads(line)
            run(row, row["symbol"], row["ts"], None)
            count += 1
    print(count, time.perf_counter() - begun)


main(*sys.argv[1:])
