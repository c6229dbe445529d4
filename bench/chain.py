"""Five stateless processors one behind the other, against one of them: what the four others cost.

All are hosted and follow each other through topics that nobody else writes, so that one task does them all. Measured
from the first topic to the last, by the same records and by turns; and the same five in a task each.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

from bench.spark_json import FIELDS, Bench, fresh, quotes

from gauss.stream.driver.jobs.hosted_units import HostedGroup
from gauss.stream.driver.planning.chains import Chains, find_chains
from gauss.stream.driver.planning.shared_reads import Team
from gauss.stream.graph import build_graph

RECORDS = int(os.environ.get("GAUSS_CHAIN_RECORDS", "2000000"))
WARM_UP = 200_000
ROUNDS = 9
TICK_S = 0.05
MID = "{symbol, bid, ask, mid: (.bid + .ask) / 2, ts}"
STEPS: list[tuple[str, dict[str, Any]]] = [
    ("expression", {"program": MID}),
    ("filter", {"where": ".bid >= 0"}),
    ("symbol-filter", {"symbols": [f"SYM{n:03d}" for n in range(500)]}),
    ("filter", {"where": ".ask > .bid"}),
    ("expression", {"program": "select(.ts > 0)"}),
]
KINDS = {"one": STEPS[:1], "chain": STEPS, "apart": STEPS}


def config() -> dict[str, Any]:
    """Every job has topics of its own: the first and last hold everything, those between as much as topics do."""
    topics, processors = [], []
    for kind, steps in KINDS.items():
        names = [f"{kind}.in", *(f"{kind}.{place}" for place in range(1, len(steps))), f"{kind}.out"]
        sizes = {"storage_size": "unlimited", "storage_bytes": "2GiB"}
        topics += [
            {"name": name, "storage": "memory", "storage_config": sizes if name in (names[0], names[-1]) else {}}
            for name in names
        ]
        processors += [
            {
                "name": f"{kind}-{place}",
                "plugin": plugin,
                "source": {"topic": names[place], "read": "offset"},
                "target": {"topic": names[place + 1]},
                "config": {"input": {"format": "quote"}, **given},
            }
            for place, (plugin, given) in enumerate(steps)
        ]
    formats = [{"name": "quote", "plugin": "json", "config": {"fields": FIELDS}}]
    return {"formats": formats, "topics": topics, "processors": processors}


def groups(bench: Bench, kind: str) -> list[HostedGroup]:
    """The work of one job, as a driver makes it; one task each."""
    graph = build_graph(bench.pipeline)
    chains = find_chains(bench.pipeline, graph) if kind != "apart" else Chains((), {})
    return [
        HostedGroup(bench.context(), chains, Team((entry.name,)), 1)
        for entry in bench.pipeline.processors
        if entry.name.startswith(f"{kind}-") and chains.head(entry.name) == entry.name
    ]


def rounds(bench: Bench, kinds: list[str], records: list[bytes]) -> list[dict[str, float]]:
    """Records per second from the first topic to the last of each job, by turns, after a warm-up."""
    jobs = {kind: groups(bench, kind) for kind in kinds}
    ends = dict.fromkeys(kinds, 0)

    def once(kind: str, given: list[bytes]) -> float:
        bench.send(f"{kind}.in", given)
        ends[kind] += len(given)
        begun = time.perf_counter()
        _until(bench, jobs[kind], f"{kind}.out", ends[kind])
        return len(given) / (time.perf_counter() - begun)

    for kind in kinds:
        once(kind, records[:WARM_UP])
    found = [{kind: once(kind, records) for kind in kinds} for _ in range(ROUNDS)]
    for group in (group for running in jobs.values() for group in running):
        group.close()
    return found


def _until(bench: Bench, running: list[HostedGroup], topic: str, end: int) -> None:
    while bench.end_of(topic) < end:
        for group in running:
            group.tick()
            assert not any(status.failures for status in group.statuses()), group.statuses()
        time.sleep(TICK_S)


def run() -> list[dict[str, object]]:
    """One row per measure."""
    records = quotes(RECORDS)
    with fresh(config()) as bench:
        together = rounds(bench, ["one", "chain"], records)
    with fresh(config()) as bench:
        apart = statistics.median(each["apart"] for each in rounds(bench, ["apart"], records))
    one, chain = (statistics.median(each[kind] for each in together) for kind in ("one", "chain"))
    ratio = statistics.median(each["one"] / each["chain"] for each in together)
    return [
        {"what": "one stateless processor", "measured": f"{one / 1000:.0f}k rec/s", "aim": ""},
        {"what": "five, in one task", "measured": f"{chain / 1000:.0f}k rec/s", "aim": ""},
        {"what": "five, a task each", "measured": f"{apart / 1000:.0f}k rec/s", "aim": ""},
        {"what": "cost of five : one", "measured": f"{ratio:.2f}", "aim": "≤ 1.2"},
        {"what": "cost of five tasks : one", "measured": f"{one / apart:.2f}", "aim": ""},
    ]
