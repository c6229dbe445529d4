"""A hundred started pipelines without records on one worker: what they cost."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.fleet.world import cpu_of, family, fleet_world

PIPELINES = 100
SETTLE_SECONDS, MEASURED_SECONDS = 20.0, 60.0


def run() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder, fleet_world(Path(folder)) as world:
        for number in range(PIPELINES):
            world.pipeline(f"idle-{number}", {"id": "Int64"}, partitions=1)
        with world.worker("worker") as worker:
            began = time.perf_counter()
            while world.running() < PIPELINES:
                time.sleep(0.5)
            up = time.perf_counter() - began
            time.sleep(SETTLE_SECONDS)
            cpu, at = cpu_of(worker), time.perf_counter()
            time.sleep(MEASURED_SECONDS)
            share = (cpu_of(worker) - cpu) / (time.perf_counter() - at)
            memory = sum(each.memory_full_info().pss for each in family(worker))
    what = f"{PIPELINES} idle pipelines on one worker"
    return [
        {"what": f"{what}: processor", "measured": f"{share:.1%} of a core", "aim": "< 25 %"},
        {"what": f"{what}: memory", "measured": f"{memory / 1e9:.2f} GB", "aim": "< 1.5 GB"},
        {"what": f"{what}: from the start to all running", "measured": f"{up:.0f} s", "aim": ""},
    ]
