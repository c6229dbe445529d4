"""The pipelines that `gauss new` writes."""

from __future__ import annotations

STARTER = """\
# A pipeline: receives records over TCP, stores them in topics, filters them on Spark and sends them over TCP.
#   gauss check {file}     checks this file
#   gauss run {file}       runs it
#   gauss graph {file}     draws it
# Try it: printf '{{"symbol":"BTC","bid":100.5}}\\n' | gauss send 127.0.0.1:7100
#   and read the result: gauss tap quotes.high

# A format decodes a record's bytes into fields. Processors that do not look inside records need none.
[[formats]]
name = "quote"
plugin = "json"
config = {{ fields = [
    {{ name = "symbol", type = "string" }},
    {{ name = "bid", type = "double" }},
] }}

# A topic stores records as opaque bytes. `memory` is the fastest; `file` survives a crash.
[[topics]]
name = "quotes.raw"
storage = "memory"
storage_config = {{ storage_size = 50000, write_full = "block" }} # when full: block, drop or overwrite

[[topics]]
name = "quotes.high"
storage = "file"
storage_config = {{ fsync = "interval" }} # never, interval or always

# A source receives bytes; its framing splits them into records.
[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "quotes.raw" }}
config = {{ port = 7100, input = {{ framing = "newline", delimiter = "\\n" }} }}

# A transform reads a topic and writes another. Without transforms no Java is needed.
[[processors]]
name = "high"
plugin = "sql"
source = {{ topic = "quotes.raw", read = "offset" }} # offset: every record; latest: only the newest
target = {{ topic = "quotes.high" }}
config = {{
    input = {{ format = "quote" }},
    query = "SELECT symbol, bid FROM input WHERE bid > 100",
}}

# A sink sends the records of a topic to every client that connects.
[[processors]]
name = "out"
plugin = "tcp-sink"
source = {{ topic = "quotes.high", read = "offset" }}
config = {{ port = 7300, output = {{ framing = "newline", delimiter = "\\n" }} }}

# Secrets are read from the environment or a file and never printed: "${{PASSWORD}}" or "${{file:secret.txt}}".
# Write "$${{" for a literal "${{".
"""


KAFKA_STARTER = """\
# A pipeline whose topics are in Kafka: large trades are filtered on Spark, and others read and write the topics too.
#   gauss dev kafka                                 starts a local broker; leave it running in another terminal
#   export KAFKA_BROKERS="$(gauss db url kafka)"    names it for the commands below
#   gauss check {file}     checks this file, and asks the broker about the topics
#   gauss run {file}       runs it
# Try it: echo '{{"symbol":"BTC","price":100.5,"size":20}}' | gauss send trades
#   and read the result: gauss tap trades.large --start earliest

# A format decodes a record's bytes into fields.
[[formats]]
name = "trade"
plugin = "json"
config = {{ fields = [
    {{ name = "symbol", type = "string" }},
    {{ name = "price", type = "double" }},
    {{ name = "size", type = "double" }},
] }}

# A topic of the Kafka cluster, created if it is missing. A run on Spark reads its partitions in parallel.
[[topics]]
name = "trades"
storage = "kafka"
storage_config = {{
    brokers = ["${{KAFKA_BROKERS:-{brokers}}}"], # the address after :- is used if the variable is not set
    partitions = 4,
    format = "trade",
}}

# Trades of one symbol have one key, and so are in one partition. Kafka deletes them after a day.
[[topics]]
name = "trades.large"
storage = "kafka"
storage_config = {{
    brokers = ["${{KAFKA_BROKERS:-{brokers}}}"],
    partitions = 4,
    topic_config = {{ "retention.ms" = "86400000" }},
    format = "trade",
    key_field = "symbol",
}}

# Each epoch is one Kafka transaction: consumers with isolation.level=read_committed see every record once.
[[processors]]
name = "large"
plugin = "expression"
source = {{ topic = "trades", read = "offset" }} # group = "…": the consumer group that shows its position
target = {{ topic = "trades.large" }}
config = {{
    input = {{ format = "trade" }},
    output = {{ format = "trade" }},
    program = "select(.price * .size >= 1000) | {{symbol, price, size}}",
}}

# With a login: security_protocol = "sasl_ssl", username = "…", password = "${{KAFKA_PASSWORD}}" beside the brokers.
"""
