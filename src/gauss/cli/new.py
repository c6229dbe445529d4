"""`gauss new`: writes a commented pipeline that passes the check and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauss.cli.output import CommandOutput, JsonOption
from gauss.config.load import FILE_NAME
from gauss.model.errors import ConfigError

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


def command(
    path: Annotated[Path, typer.Argument(help="The folder or .toml file to write.")] = Path(FILE_NAME),
    json: JsonOption = False,
) -> None:
    """Write a commented starter pipeline. An existing file is never overwritten."""
    file = path if path.suffix == ".toml" else path / FILE_NAME
    if file.exists():
        raise ConfigError(f"{file} already exists", hint="choose another name: gauss new NAME")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(STARTER.format(file=file))
    except OSError as error:
        raise ConfigError(f"can't write {file}: {error.strerror}", hint="choose another location") from error
    out = CommandOutput(json=json)
    out.data({"file": str(file)})
    out.line(f"wrote {file}")
    out.line(f"next: gauss check {file} && gauss run {file}", style="dim")
