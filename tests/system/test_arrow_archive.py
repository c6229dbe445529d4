"""The archive of example 11 can be read by any Arrow reader after the run has stopped."""

from __future__ import annotations

import io
from collections.abc import Callable

import polars as pl
import pyarrow as pa

from helpers.feeds import send
from helpers.run import Run, free_port
from helpers.waiting import wait_until

Make = Callable[[str], Run]


def test_stopped_run_leaves_tables_of_the_format_and_the_topic_gives_its_records(gauss: Make) -> None:
    feed = free_port()
    run = gauss(
        f"""
[[formats]]
name = "arrow-quotes"
plugin = "arrow"
config = {{ schema_file = "quotes.arrow" }}

[[topics]]
name = "quotes"
storage = "memory"
storage_config = {{ storage_size = 1000 }}

[[topics]]
name = "archive"
storage = "file"
storage_config = {{ data_dir = "./archive", format = "arrow-quotes", file_format = "arrow_ipc_file" }}

[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "quotes" }}
config = {{ port = {feed}, input = {{ format = "arrow-quotes", framing = "arrow_ipc_streaming" }} }}

[[processors]]
name = "archiver"
plugin = "passthrough"
source = {{ topic = "quotes", read = "offset" }}
target = {{ topic = "archive" }}
"""
    )
    schema = pa.schema([("symbol", pa.string()), ("price", pa.float64())])
    (run.folder / "quotes.arrow").write_bytes(schema.serialize().to_pybytes())
    run.start()
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, schema) as writer:
        for first in range(3):
            rows = [[f"S{first}", f"T{first}"], [first + 0.5, first + 0.75]]
            writer.write_batch(pa.record_batch(rows, schema=schema))
    send(feed, stream.getvalue())
    wait_until(lambda: run.topic("archive")["end"] == 3, 60, "three batches")
    assert run.stop() == 0
    (path,) = (run.folder / "archive").glob("*.arrow")
    found = pl.read_ipc(path)
    assert found["offset"].to_list() == [0, 0, 1, 1, 2, 2]
    assert found["symbol"].to_list() == ["S0", "T0", "S1", "T1", "S2", "T2"]
    assert found["price"].to_list() == [0.5, 0.75, 1.5, 1.75, 2.5, 2.75]
    assert found["data"].null_count() == 6
    run.start()
    assert run.topic("archive")["records"] == 3
