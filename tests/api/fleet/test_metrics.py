"""Metrics are what Prometheus reads, and the dashboard shows all of them and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from api.fleet.conftest import Fleet
from gauss.fleet.leases.claims import End, Intent, Outcome
from gauss.fleet.leases.owner import Owner
from gauss.fleet.store.letters import DeadLetter
from gauss.fleet.worker.ends import Clusters
from gauss.fleet.worker.instance import Surroundings
from gauss.fleet.worker.worker import FleetWorker, Settings

DASHBOARD = Path(__file__).parents[3] / "docs" / "fleet-dashboard.json"
METRIC = re.compile(r"gauss_(?:fleet|worker)_[a-z_]+")


@pytest.fixture
def samples(fleet: Fleet, api: httpx.Client, pipeline: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The metrics of a pipeline that has committed a range, lost a slot once, and is behind; and those of a worker."""
    id, store = pipeline.rpartition("/")[2], fleet.store
    store.pipelines.change_state(id, "me", desired="started", replicas=2)
    (lease,) = store.leases.acquire("w", [(id, 0)], 60_000)
    store.leases.release("w", [lease])
    (lease,) = store.leases.acquire("v", [(id, 0)], 60_000)
    owner = Owner("v", id, lease)
    (claim,) = store.claims.take(owner, "t", "id", [4], {4: 0})
    (claim,) = store.claims.intend(owner, [(claim, Intent(100, 1))])
    letters = [DeadLetter(offset, "map", "bad", "", "", b"", 0) for offset in range(25)]
    (claim,) = store.claims.advance(owner, [Outcome(claim, 75, 1_500, letters, 500)])
    store.claims.report_ends(owner, {claim: End(110, behind_ms=7_000)})
    store.workers.seen("v", host="h", pid=1, mode="leases", version="1", ttl_ms=60_000)

    around = Surroundings(store, None, Clusters(), 60_000)  # type: ignore[arg-type]
    text = api.get("/metrics").text + FleetWorker(around, Settings()).metrics()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_metrics_have_the_figures_of_the_store(samples: dict[str, list[tuple[dict[str, str], float]]]) -> None:
    figures = {name: value for name, ((labels, value), *_) in samples.items() if labels.get("partition") == "4"}
    assert 7.0 <= figures.pop("gauss_fleet_lag_seconds") < 60.0
    assert figures == {
        "gauss_fleet_rows_total": 75,
        "gauss_fleet_bytes_total": 1_500,
        "gauss_fleet_batches_total": 1,
        "gauss_fleet_insert_seconds_total": 0.5,
        "gauss_fleet_dead_letters_total": 25,
        "gauss_fleet_lag_messages": 10,
        "gauss_fleet_partitions_claimed_total": 1,
    }
    assert {name: samples[f"gauss_fleet_{name}"][0][1] for name in ("slots_desired", "slots_held", "alert")} == {
        "slots_desired": 2,
        "slots_held": 1,
        "alert": 1,
    }
    assert samples["gauss_fleet_slots_acquired_total"][0][1] == 2
    assert samples["gauss_fleet_dead_letter_ratio"][0][1] == 0.25
    assert {labels["mode"]: value for labels, value in samples["gauss_fleet_workers"]} == {"leases": 1, "no-leases": 0}
    assert sum(value for _, value in samples["gauss_fleet_state"]) == 1


def test_the_dashboard_shows_every_metric_and_no_other(samples: dict[str, Any]) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [each["query"] for each in dashboard["templating"]["list"]]
    assert {name for each in asked for name in METRIC.findall(each)} == set(samples)


def test_the_dashboard_filters_and_names_by_labels_that_exist(samples: dict[str, Any]) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            known = set.intersection(*(set(samples[name][0][0]) for name in METRIC.findall(target["expr"])))
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            named |= set(re.findall(r"\{(\w+)=~", target["expr"]))
            named |= {each.strip() for by in re.findall(r"by \(([^)]*)\)", target["expr"]) for each in by.split(",")}
            assert named <= known, (panel["title"], target["expr"])


def test_panels_fit_beside_each_other() -> None:
    places = [panel["gridPos"] for panel in json.loads(DASHBOARD.read_text())["panels"]]
    cells = [(x, y) for each in places for x in range(each["x"], each["x"] + each["w"]) for y in (each["y"],)]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
