"""Tools that do the same work, each in a venv of its own that is made once. One that can't be installed or run here is
`Absent`, with the reason."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from bench.connect.world import HERE, ROOT, World

from gauss.clients.endpoint import Endpoint

VENVS = ROOT / ".cache" / "connect-peers"
ADBC = ("adbc-driver-postgresql==1.13.0", "adbc-driver-manager==1.13.0", "pyarrow==26.0.1")
REQUIREMENTS = {
    "adbc": ADBC,
    "dlt": ("dlt[postgres,clickhouse,parquet]==1.31.0", "sqlalchemy==2.0.44", "connectorx==0.4.6", *ADBC[:2]),
    # Later wheels of these two hold no program, but fetch it when they are run.
    "ingestr": ("ingestr==0.15.9",),
    "sling": (f"sling-linux-{'arm64' if os.uname().machine == 'aarch64' else 'amd64'}==1.4.11",),
}
QUIET = {"RUNTIME__DLTHUB_TELEMETRY": "false", "DISABLE_TELEMETRY": "true", "SLING_DISABLE_TELEMETRY": "true"}
JDBC_DRIVER = "org.postgresql:postgresql:42.7.8"
TIMEOUT_S = 600
REASON_CHARACTERS = 120


class Absent(Exception):
    """Why a peer has no figures."""


class Peer(NamedTuple):
    """A tool with its version, as a row names it."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def peer(name: str, shown: str) -> Peer:
    """A peer with the version that is installed for it."""
    return Peer(shown, REQUIREMENTS[name][0].rsplit("==", 1)[1])


def venv(name: str) -> Path:
    """The folder of a peer's programs. pip's own words are not repeated: they name where packages come from."""
    folder, wanted = VENVS / name, "\n".join(REQUIREMENTS[name])
    done = folder / "installed.txt"
    if done.exists() and done.read_text() == wanted:
        return folder / "bin"
    print(f"  installs {REQUIREMENTS[name][0]} into .cache/{VENVS.name}, once", flush=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS[name]]
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, capture_output=True)
        subprocess.run([str(folder / "bin" / "python"), *install], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Absent("can't be installed here") from error
    done.write_text(wanted)
    return folder / "bin"


def output(command: list[str], *secrets: str) -> str:
    """What a peer prints; raises Absent with its last words, without secrets."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env={**os.environ, **QUIET}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Absent(f"did not run: {type(error).__name__}") from error
    if done.returncode:
        words = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        reason = words[-1] if words else f"exit code {done.returncode}"
        for secret in secrets:
            reason = reason.replace(secret, "…")
        raise Absent(f"did not run: {reason[:REASON_CHARACTERS]}")
    return done.stdout


def _seconds(world: World, command: list[str]) -> float:
    """Seconds that a job prints in its last line; the rows are counted."""
    world.clear()
    found = float(output(command, world.server.endpoint.password).splitlines()[-1])
    if world.landed() != world.rows:
        raise Absent(f"landed {world.landed():,} of {world.rows:,} rows")
    return found


def _command_seconds(world: World, command: list[str], idle: list[str]) -> float:
    """Seconds of a program less those of its start, for which `idle` stands: the others are timed without theirs."""
    world.clear()
    began = time.perf_counter()
    output(idle)
    middle = time.perf_counter()
    output(command, world.server.endpoint.password)
    found = time.perf_counter() - middle - (middle - began)
    if world.landed() != world.rows:
        raise Absent(f"landed {world.landed():,} of {world.rows:,} rows")
    return found


def adbc(world: World) -> float:
    return _seconds(world, [str(venv("adbc") / "python"), str(HERE / "adbc_job.py"), world.url, "warm", "people"])


def dlt(world: World, backend: str) -> float:
    job = [str(venv("dlt") / "python"), str(HERE / "dlt_job.py"), world.url, "postgres", world.url, backend]
    return _seconds(world, [*job, "warm", "people"])


def dlt_clickhouse(world: World, clickhouse: Endpoint, backend: str) -> float:
    """The rows are in a database of ClickHouse then: the caller counts them."""
    job = [str(venv("dlt") / "python"), str(HERE / "dlt_job.py"), world.url, "clickhouse", clickhouse.url, backend]
    return float(output([*job, "warm", "people"], world.server.endpoint.password, clickhouse.password).split()[-1])


def ingestr(world: World) -> float:
    program, url = str(venv("ingestr") / "ingestr"), f"{world.url}?sslmode=disable"
    ends = ["--source-uri", url, "--dest-uri", url, "--source-table", "public.people", "--dest-table", "landing.people"]
    return _command_seconds(world, [program, "ingest", *ends, "--yes", "--progress", "log"], [program, "--version"])


def sling(world: World) -> float:
    found = list(venv("sling").parent.glob("lib/python*/site-packages/sling_linux_*/bin/sling-linux-*"))
    if not found:
        raise Absent("its wheel has no program")
    program, url = str(found[0]), f"{world.url}?sslmode=disable"
    ends = ["--src-conn", url, "--src-stream", "public.people", "--tgt-conn", url, "--tgt-object", "landing.people"]
    return _command_seconds(world, [program, "run", *ends, "--mode", "full-refresh"], [program, "--version"])


def spark_jdbc(world: World) -> float:
    """Spark fetches the driver, where it can."""
    job = [sys.executable, str(HERE / "jdbc_job.py"), world.url, str(world.rows), str(VENVS / "ivy"), JDBC_DRIVER]
    return _seconds(world, [*job, "warm", "people"])
