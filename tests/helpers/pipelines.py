"""Configs that several system tests run."""

from __future__ import annotations


def example_1(feed: int, out: int, storage: str = "memory", storage_config: str = "{ storage_size = 50000 }") -> str:
    """The seed's first example: bytes pass through a topic, nobody looks inside."""
    return f"""
[[topics]]
name = "quotes.raw"
storage = "{storage}"
storage_config = {storage_config}

[[processors]]
name = "market-feed"
plugin = "tcp-source"
target = {{ topic = "quotes.raw" }}
config = {{ port = {feed}, ack = "count", input = {{ framing = "newline", delimiter = "\\n" }} }}

[[processors]]
name = "realtime-out"
plugin = "tcp-sink"
source = {{ topic = "quotes.raw", read = "offset" }}
config = {{ port = {out}, output = {{ framing = "newline", delimiter = "\\n" }} }}
"""


def doubler(feed: int, raw: str = "file", raw_config: str = "{ }", master: str = "local[2]") -> str:
    """TCP → topic → Spark → file topic: every even `n` comes out with its double."""
    return f"""
[spark]
master = "{master}"

[[formats]]
name = "numbers"
plugin = "json"
config = {{ fields = [{{ name = "n", type = "int64" }}] }}

[[topics]]
name = "numbers"
storage = "{raw}"
storage_config = {raw_config}

[[topics]]
name = "doubles"
storage = "file"

[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "numbers" }}
config = {{ port = {feed}, ack = "count", input = {{ framing = "newline", delimiter = "\\n" }} }}

[[processors]]
name = "doubler"
plugin = "sql"
source = {{ topic = "numbers", read = "offset" }}
target = {{ topic = "doubles" }}
config = {{
    input = {{ format = "numbers" }},
    output = {{ format = "numbers" }},
    query = "SELECT n, n * 2 AS d FROM input WHERE n % 2 = 0",
}}
"""
