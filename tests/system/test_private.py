"""Only its owner can read a data directory, whatever the umask and whichever process wrote a file."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

import pytest

from helpers.feeds import send
from helpers.run import Run, free_port
from helpers.waiting import wait_until

Make = Callable[[str], Run]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_every_file_of_a_run_with_spark_and_both_servers_is_private(gauss: Make) -> None:
    feed = free_port()
    tables = "".join(
        f"""
[[topics]]
name = "{name}"
storage = "{name}"
storage_config = {{ format = "numbers", flush_interval = "200ms" }}

[[processors]]
name = "to-{name}"
plugin = "filter"
source = {{ topic = "raw", read = "offset" }}
target = {{ topic = "{name}" }}
config = {{ input = {{ format = "numbers" }}, where = ".n > 1" }}
"""
        for name in ("clickhouse", "postgres")
    )
    run = gauss(
        f"""
[spark]
master = "local[2]"

[[formats]]
name = "numbers"
plugin = "json"
config = {{ fields = [{{ name = "n", type = "int64" }}] }}

[[topics]]
name = "raw"
storage = "file"

[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "raw" }}
config = {{ port = {feed}, input = {{ framing = "newline", delimiter = "\\n" }} }}
{tables}"""
    )
    before = os.umask(0)
    try:
        run.start()
    finally:
        os.umask(before)
    send(feed, b"".join(b'{"n": %d}\n' % number for number in range(100)))
    wait_until(lambda: all(run.topic(name)["end"] == 98 for name in ("clickhouse", "postgres")), 180, "rows")
    seen = 0
    for folder, _, names in os.walk(run.data_dir):
        for path in [folder, *(os.path.join(folder, name) for name in names)]:  # noqa: PTH118
            try:
                mode = os.lstat(path).st_mode
            except FileNotFoundError:
                continue  # the server has removed it meanwhile
            if not stat.S_ISLNK(mode):
                seen += 1
                assert not mode & 0o077, f"{path}: {stat.filemode(mode)}"
    assert seen > 500  # Postgres alone has about a thousand files
