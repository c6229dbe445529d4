"""Configs shared by system tests."""

from __future__ import annotations


def example_1(feed: int, out: int, storage: str = "memory", storage_config: str = "{ storage_size = 50000 }") -> str:
    """Example 1: bytes pass through a topic without being decoded."""
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
    head = f"""
[spark]
master = "{master}"

[[formats]]
name = "numbers"
plugin = "json"
config = {{ fields = [{{ name = "n", type = "int64" }}] }}
"""
    return head + _doubler("", feed, raw, raw_config)


def doubler_beside(
    name: str, feed: int, raw: str = "file", raw_config: str = "{ }", *, read: str = "offset", numbers: str = "numbers"
) -> str:
    """A second such path in the same run; `.name` is appended to the names of its topics and processors."""
    text = _doubler(f".{name}", feed, raw, raw_config)
    return text.replace('read = "offset"', f'read = "{read}"').replace('format = "numbers"', f'format = "{numbers}"')


def _doubler(suffix: str, feed: int, raw: str, raw_config: str) -> str:
    return f"""
[[topics]]
name = "numbers{suffix}"
storage = "{raw}"
storage_config = {raw_config}

[[topics]]
name = "doubles{suffix}"
storage = "file"

[[processors]]
name = "feed{suffix}"
plugin = "tcp-source"
target = {{ topic = "numbers{suffix}" }}
config = {{ port = {feed}, ack = "count", input = {{ framing = "newline", delimiter = "\\n" }} }}

[[processors]]
name = "doubler{suffix}"
plugin = "sql"
source = {{ topic = "numbers{suffix}", read = "offset" }}
target = {{ topic = "doubles{suffix}" }}
config = {{
    input = {{ format = "numbers" }},
    query = "SELECT n, n * 2 AS d FROM input WHERE n % 2 = 0",
}}
"""
