"""Streaming tools beside Gauss, same job, same records, same run: each in the venv of its own that this makes once.

Each runs as two processes with half of the keys each, reads lines from a file, writes nowhere and keeps no checkpoint:
their best case on two cores, while Gauss moves the records from topic to topic, exactly once.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
VENV = HERE.parents[1] / ".cache" / "peers"
PEERS = {"Bytewax": "bytewax_job.py", "Pathway": "pathway_job.py", "Quix Streams": "quix_job.py"}
RECORDS = 100_000


def rates(job: str, records: list[bytes]) -> dict[str, float]:
    """Records per second of each peer at `derive` or `ohlc`, both processes together."""
    _install()
    halves = [records[:RECORDS][side::2] for side in (0, 1)]  # quotes() deals symbols out in turn
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{side}.jsonl" for side in (0, 1)]
        for path, half in zip(paths, halves, strict=True):
            path.write_bytes(b"".join(record + b"\n" for record in half))
        return {name: _rate(HERE / script, job, paths) for name, script in PEERS.items()}


def _rate(script: Path, job: str, paths: list[Path]) -> float:
    command = [str(VENV / "bin" / "python"), str(script), job]
    running = [
        subprocess.Popen([*command, str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for path in paths
    ]
    printed = [process.communicate()[0].decode().splitlines()[-1].split() for process in running]
    return sum(int(count) / float(seconds) for count, seconds in printed)


def _install() -> None:
    """The venv, unless an earlier run made it for the same versions."""
    wanted = (HERE / "requirements.txt").read_text()
    done = VENV / "installed.txt"
    if done.exists() and done.read_text() == wanted:
        return
    print("  installs the peers into .cache/peers, once", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(HERE / "requirements.txt")]
    subprocess.run([str(VENV / "bin" / "python"), *install], check=True)
    done.write_text(wanted)


def compared(job: str, records: list[bytes], gauss: float) -> list[dict[str, object]]:
    """A row per peer, and one with Gauss against the best of them."""
    found = rates(job, records)
    best = max(found, key=lambda name: found[name])
    rows: list[dict[str, object]] = [
        {"what": f"{name}, two processes", "measured": f"{rate / 1000:.0f}k rec/s", "aim": ""}
        for name, rate in found.items()
    ]
    return [*rows, {"what": f"Gauss : {best}", "measured": f"{gauss / found[best]:.2f}", "aim": "> 1"}]
