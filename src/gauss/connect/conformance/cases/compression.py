"""Batches that a source has compressed."""

from __future__ import annotations

from gauss.connect.conformance.case import CASES, NotApplicable, Role
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.destination_bench import DestinationBench

ROWS, BATCH = 200, 50


def _add(codec: str) -> None:
    def run(bench: DestinationBench) -> None:
        stream, rows = bench.stream_name(codec), plain(ROWS)
        bench.write(rows, stream, generator={"batch_rows": BATCH, "compression": codec})
        try:
            bench.needs_reading()
        except NotApplicable:  # that it came to its end is seen all the same
            return
        bench.must_hold(stream, rows)

    expected = f"Batches that the source has compressed by {codec} are written like others."
    CASES.add(Role.DESTINATION, f"compression.{codec}", expected, run, ("write.rows",))


for _codec in ("lz4", "zstd"):
    _add(_codec)
