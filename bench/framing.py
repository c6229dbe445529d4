"""How fast each framing cuts and joins, beside the count of line feeds in the same bytes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from gauss import registry
from gauss.contracts.chunk import Chunk
from gauss.contracts.framing import Framing, FramingSpec

CHUNK_BYTES = 256 << 10
"""What a socket gives at once."""

CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("newline", {"delimiter": "\n"}, True),
    ("newline", {"delimiter": "\r\n"}, True),
    ("length_prefixed", {"prefix_type": "u16be"}, True),
    ("length_prefixed", {"prefix_type": "u32be"}, False),
    ("length_prefixed", {"prefix_type": "u32be"}, True),
    ("length_prefixed", {"prefix_type": "varint"}, True),
    ("fixed_size", {}, False),
]
"""Framing, parameters, whether record sizes vary."""


def rate(work: Callable[[], object], size: int, seconds: float = 0.15) -> float:
    """MiB per second of the fastest run: the others were disturbed."""
    work()
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return size / best / (1 << 20)


def sample(size: int, vary: bool) -> pa.BinaryArray:
    """A chunk's worth of records of about `size` bytes."""
    random = np.random.default_rng(1)
    count = CHUNK_BYTES // size
    lengths = random.integers(size // 2, size * 3 // 2 + 1, count) if vary else np.full(count, size)
    return pa.array([b"x" * int(length) for length in lengths], pa.binary())


def build(name: str, config: dict[str, Any]) -> Framing:
    spec = registry.spec(FramingSpec, name)
    made: Framing = registry.build(spec, spec.validate(config))
    return made


def compile_walk() -> None:
    """Measures the compiled walk, as a busy stream has it after its first second."""
    from gauss.plugins.framings.length_prefixed.walk import WALKER

    WALKER.start_compiling().join()


def run() -> list[dict[str, object]]:
    """A row per framing and record size; rates in MiB/s of framed bytes, `cut` also as a share of the count."""
    compile_walk()
    rows: list[dict[str, object]] = []
    for size in (100, 10):
        for name, config, vary in CASES:
            framing = build(name, {"frame_size": size} if name == "fixed_size" else config)
            data = sample(size, vary)
            stream = framing.joiner().join(data)
            splitter = framing.splitter(16 << 20)
            lines = b"\n".join(data.to_pylist())
            counted = rate(lambda lines=lines: lines.count(b"\n"), len(lines))  # type: ignore[misc]
            cut = rate(lambda splitter=splitter, stream=stream: splitter.feed(stream), len(stream))  # type: ignore[misc]
            chunk = Chunk(stream, len(data), 0, framing)
            rows.append(
                {
                    "framing": " ".join([name, *(repr(value) for value in config.values())]),
                    "records": f"{size} bytes{', varying' if vary else ''}",
                    "cut": round(cut),
                    "bytes.count": round(counted),
                    "cut / bytes.count": round(cut / counted, 2),
                    "to Arrow": round(rate(chunk.data, len(stream))),
                    "from Arrow": round(rate(lambda f=framing, d=data: f.joiner().join(d), len(stream))),  # type: ignore[misc]
                }
            )
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
