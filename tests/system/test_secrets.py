"""Secrets are planted wherever a config takes one, and searched for in everything that a run writes, prints or
answers."""

from __future__ import annotations

import json
import re
import secrets
import stat
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from helpers.certificates import Authority
from helpers.feeds import send
from helpers.run import GAUSS, Run, free_port
from helpers.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(800)]

MARK = f"hunter{secrets.token_hex(6)}"
"""Part of every secret in the config. It is random, since the command lines of all processes of the machine are
searched."""
CONFIG = """
[spark]
master = "local[1]"
[spark.conf]
"spark.hadoop.fs.s3a.secret.key" = "${{SPARK_SECRET}}"
"spark.hadoop.fs.s3a.session.token" = "{mark}-written-out"

[[formats]]
name = "quote"
plugin = "json"
config = {{ fields = [{{ name = "symbol", type = "string" }}, {{ name = "bid", type = "double" }}] }}

[[topics]]
name = "quotes"
storage = "file"
[[topics]]
name = "twice"
storage = "clickhouse"
storage_config = {{ format = "quote", password = "${{file:clickhouse.secret}}" }}
[[topics]]
name = "kept"
storage = "postgres"
storage_config = {{ format = "quote", password = "${{PG_SECRET}}" }}

[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "quotes" }}
config = {{ port = {feed}, input = {{ framing = "newline" }} }}
[[processors]]
name = "closed"
plugin = "tcp-source"
target = {{ topic = "quotes" }}
config = {{ port = {tls}, tls = {{ cert = "one.pem", key = "one.key" }}, input = {{ framing = "newline" }} }}
[[processors]]
name = "doubler"
plugin = "sql"
source = {{ topic = "quotes", read = "offset" }}
target = {{ topic = "twice" }}
config = {{ input = {{ format = "quote" }}, query = "SELECT symbol, bid * 2 AS bid FROM input" }}
[[processors]]
name = "keeper"
plugin = "passthrough"
source = {{ topic = "quotes", read = "offset" }}
target = {{ topic = "kept" }}
[[processors]]
name = "live"
plugin = "ws-sink"
source = {{ topic = "quotes", read = "offset" }}
config = {{ port = {ws}, token = "${{file:ws.secret}}" }}
"""
BAD_DSN = """
[[topics]]
name = "t"
storage = "postgres"
storage_config = { format = "json", dsn = "postgresql://user:12#MARK-dsn@127.0.0.1/db" }
"""
WRONG_PASSWORD = """
[[formats]]
name = "quote"
plugin = "json"
config = {{ fields = [{{ name = "symbol", type = "string" }}] }}
[[topics]]
name = "t"
storage = "postgres"
storage_config = {{ format = "quote", dsn = "postgresql://postgres:{mark}-wrong@127.0.0.1:{port}/postgres" }}
[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "t" }}
config = {{ port = 0, input = {{ framing = "newline" }} }}
"""


@contextmanager
def command_lines() -> Iterator[set[str]]:
    """Collects the command lines of all processes of the machine while the context lasts."""
    seen: set[str] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.1):
            for each in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(each.read_bytes().decode(errors="replace"))
                except OSError:
                    continue

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def answers(run: Run) -> str:
    """The answers of the API to every GET that needs only names, and to bad requests."""
    found = json.loads((run.data_dir / "engine.json").read_text())
    paths = run.api("/openapi.json")["paths"]
    wanted = [path for path, methods in paths.items() if "get" in methods and "tail" not in path]
    named = {"{name}": "quotes", "{topic}": "quotes", "{processor}": "doubler"}
    told = []
    for path in [*wanted, "/api/topics/none", "/api/topics/quotes/query?format=os", "/metrics"]:
        filled = re.sub(r"\{\w+\}", lambda hole: named.get(hole[0], "none"), path)
        request = urllib.request.Request(found["endpoint"] + filled)
        request.add_header("Authorization", f"Bearer {found['token']}")
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                told.append(reply.read(4 << 20).decode(errors="replace"))
        except urllib.error.HTTPError as error:
            told.append(error.read().decode(errors="replace"))
    return "\n".join(told)


def commands(run: Run) -> str:
    """The output of commands, valid and invalid ones."""
    told = []
    for words in (
        *(["topics"], ["processors", "ls"], ["query", "quotes"], ["query", "kept"], ["query", "none"], ["dlq", "ls"]),
        *(["scan", "quotes", ".symbol"], ["schema", str(run.config), "kept"]),
    ):
        done = run.cli(*words, check=False)
        told.append(done.stdout + done.stderr)
    for words in (["check"], ["check", "--json"], ["graph"], ["explain"]):
        told.append(printed(run, *words, str(run.config)))
    return "\n".join(told)


def printed(run: Run, *words: str) -> str:
    done = subprocess.run(
        [GAUSS, *words], cwd=run.folder, env=run.environment, capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout + done.stderr


def faulty(run: Run) -> str:
    """Configs with an invalid DSN and with a wrong password."""
    port = json.loads((run.data_dir / "postgres" / "endpoint.json").read_text())["port"]
    told = []
    for name, text in {
        "bad": BAD_DSN.replace("MARK", MARK),
        "wrong": WRONG_PASSWORD.format(port=port, mark=MARK),
    }.items():
        file = run.folder / f"{name}.toml"
        file.write_text(text)
        told.append(printed(run, "check", str(file)))
        told.append(printed(run, "run", str(file), "--data-dir", str(run.folder / name), "--for", "15s"))
        file.unlink()
    assert "dsn" in told[0] and "password" in "".join(told[2:]), told
    return "\n".join(told)


def made_secrets(run: Run) -> dict[str, str]:
    """Secrets that the run generated, by the file that may contain them."""
    root = run.data_dir
    found = {"full.token": (root / "full.token").read_text(), "read.token": (root / "read.token").read_text()}
    found["flight.json"] = json.loads((root / "run" / "flight.json").read_text())["token"]
    for system in ("clickhouse", "postgres"):
        known = json.loads((root / system / "identity.json").read_text())
        found[f"{system} password"] = known["password"]
    return {name: value.strip() for name, value in found.items()}


def files_with(folder: Path, wanted: list[bytes]) -> set[str]:
    """Files that contain a secret. Postgres and ClickHouse do not store passwords as text, so their files are searched
    too."""
    found = set()
    for path in folder.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink():
                data = path.read_bytes()
                found |= {str(path.relative_to(folder))} if any(secret in data for secret in wanted) else set()
        except OSError:  # removed meanwhile, or a socket
            continue
    return found


MAY_HOLD = re.compile(
    r"(full\.token|read\.token|engine\.json|run/(pipeline|flight)\.json|(postgres|clickhouse)/(identity|endpoint)\.json)"
)


def test_no_secret_is_written_printed_answered_or_shown(gauss: Callable[[str], Run]) -> None:
    feed = free_port()
    run = gauss(CONFIG.format(mark=MARK, feed=feed, tls=free_port(), ws=free_port()))
    authority: Any = Authority(run.folder)
    authority.issue("one")
    for name in ("clickhouse", "ws"):
        (run.folder / f"{name}.secret").write_text(f"{MARK}-of-{name}\n")
    run.environment |= {
        "SPARK_SECRET": f"{MARK}-of-spark",
        "PG_SECRET": f"{MARK}-of-postgres",
        "AWS_SECRET_ACCESS_KEY": f"{MARK}-of-the-user",
    }
    key = "".join((run.folder / "one.key").read_text().splitlines()[1:3])
    with command_lines() as lines:
        run.start()
        send(feed, b'{"symbol":"BTC","bid":1.5}\nnonsense\n{"symbol":"ETH","bid":2.5}\n')
        wait_until(lambda: run.cli("query", "kept").stdout.count("BTC") == 1, 180, "rows are in Postgres")
        wait_until(lambda: run.cli("query", "twice").stdout.count("BTC") == 1, 180, "rows are in ClickHouse")
        own = made_secrets(run)
        told = answers(run) + commands(run) + faulty(run)
        live = files_with(run.data_dir, [value.encode() for value in (MARK, key, *own.values())])
        servers = [each for each in run.tree() if "clients." in " ".join(each.cmdline())]
        below = [child for each in servers for child in each.children(recursive=True)]
        environments = str([each.environ() for each in (*servers, *below) if each.is_running()])
        assert run.stop(60) == 0
    planted = [MARK, key, *own.values()]
    told += run.output.read_text()
    assert len(servers) >= 2 and MARK not in environments
    for secret in planted:
        assert secret not in told, told[max(0, told.index(secret) - 300) :][:600]
        shown = [line for line in lines if secret in line]
        assert not shown, shown
    # The search does find secrets where they belong.
    assert {"full.token", "run/pipeline.json"} <= live and any("SparkSubmit" in line for line in lines)
    strangers = {name for name in live if not MAY_HOLD.fullmatch(name)}
    assert not strangers, strangers
    for name in live:
        path = run.data_dir / name
        assert not path.exists() or stat.S_IMODE(path.stat().st_mode) == 0o600, name
    # Secrets of the run are deleted when it ends.
    left = files_with(run.data_dir, [value.encode() for value in (MARK, key)])
    assert not left, left
