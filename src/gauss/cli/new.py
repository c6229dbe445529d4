"""`gauss new`: a starter that passes the check and runs, with the reason beside each line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauss.cli.output import JsonOption, Output
from gauss.config.load import FILE_NAME
from gauss.model.errors import ConfigError

STARTER = """\
# A pipeline: records come in by TCP, live in topics, pass through Spark and go out by TCP.
#   gauss check {file}     judges this file
#   gauss run {file}       runs it
#   gauss graph {file}     draws it
# Try it: printf '{{"symbol":"BTC","bid":100.5}}\\n' | gauss send 127.0.0.1:7100
#   and see it come out: gauss tap quotes.high

# A format turns a record's bytes into fields. Only what looks inside a record needs one.
[[formats]]
name = "quote"
plugin = "json"
config = {{ fields = [
    {{ name = "symbol", type = "string" }},
    {{ name = "bid", type = "double" }},
] }}

# A topic keeps records as opaque bytes. `memory` is the fastest; `file` survives a crash.
[[topics]]
name = "quotes.raw"
storage = "memory"
storage_config = {{ storage_size = 50000, write_full = "block" }} # when full: block, drop or overwrite

[[topics]]
name = "quotes.high"
storage = "file"
storage_config = {{ fsync = "interval" }} # never, interval or always

# A source takes bytes and must say how they are cut into records.
[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "quotes.raw" }}
config = {{ port = 7100, input = {{ framing = "newline", delimiter = "\\n" }} }}

# A transform reads one topic and writes another. Remove this one, and no Java is needed.
[[processors]]
name = "high"
plugin = "sql"
source = {{ topic = "quotes.raw", read = "offset" }} # offset: every record; latest: only the newest
target = {{ topic = "quotes.high" }}
config = {{
    input = {{ format = "quote" }},
    query = "SELECT symbol, bid FROM input WHERE bid > 100",
}}

# A sink sends a topic's records to everybody who connects.
[[processors]]
name = "out"
plugin = "tcp-sink"
source = {{ topic = "quotes.high", read = "offset" }}
config = {{ port = 7300, output = {{ framing = "newline", delimiter = "\\n" }} }}

# Secrets come from outside and are never printed: "${{PASSWORD}}" or "${{file:secret.txt}}"; "$${{" is a plain "${{".
"""


def command(
    path: Annotated[Path, typer.Argument(help="A name, a folder or a .toml file to write.")] = Path(FILE_NAME),
    json: JsonOption = False,
) -> None:
    """Write a commented starter pipeline. An existing file is never overwritten."""
    file = path if path.suffix == ".toml" else path / FILE_NAME
    if file.exists():
        raise ConfigError(f"{file} exists already", hint="choose another name: gauss new NAME")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(STARTER.format(file=file))
    except OSError as error:
        raise ConfigError(f"can't write {file}: {error.strerror}", hint="choose another place") from error
    out = Output(json=json)
    out.data({"file": str(file)})
    out.line(f"wrote {file}")
    out.line(f"next: gauss check {file} && gauss run {file}", style="dim")
