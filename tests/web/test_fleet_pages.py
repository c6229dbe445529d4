"""The pages of a pipeline that runs: its slots, replicas, versions, dead letters and live tail; workers and audit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from gauss.clients.embedded import ensure
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.configs import Kind
from helpers.fleet import LocalRunner, World
from helpers.kafka import SecuredBroker
from helpers.page_checks import CONTRAST, NAMES, visit
from helpers.serving import Serving
from helpers.waiting import wait_until
from web.conftest import Served

pytestmark = pytest.mark.system

RECORDS, LEFT_OUT = 30, 5
LONG = json.dumps({"pad": "y" * 2_000, "id": "seven"})
"""A record whose fault is not in the part of it that lists have."""


@dataclass
class Fleet:
    """The pages of `gauss serve`, and a pipeline that a worker of this process runs."""

    pages: Served
    world: World

    @property
    def store(self) -> FleetStore:
        return self.world.store

    def path(self, part: str = "") -> str:
        return f"/pipelines/{self.world.id}{part}"

    def worker(self, *, leases: bool = True) -> None:
        self.world.work(LocalRunner(), leases=leases)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, browser: Browser, kafka: SecuredBroker) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    clickhouse = ensure("clickhouse", folder / "clickhouse")
    serving = Serving(folder / "data")
    serving.start()
    store = FleetStore(serving.folder / "fleet.db", folder / "fleet.key")
    world = World(store, kafka.broker.address, clickhouse.endpoint, partitions=2)
    world.put(Kind.FILTERS, {"enabled": True, "expression": f".id >= {LEFT_OUT}"})
    store.pipelines.update(world.id, "me", alert_ratio=0.5)
    world.ids(0, RECORDS)
    world.produce(b"{broken", LONG.encode())
    found = Fleet(Served(serving.file, browser), world)
    found.worker()
    world.want()
    world.wait_rows(RECORDS - LEFT_OUT)
    wait_until(lambda: len(store.letters.list(world.id)) == 2)
    yield found
    world.stop()
    store.close()
    serving.kill()
    clickhouse.stop()


def headline(page: Page, text: str) -> None:
    page.wait_for_selector(f"h1 >> text={text}")


def test_the_run_page_shows_partitions_and_who_held_the_slots(fleet: Fleet) -> None:
    with fleet.pages.opened(fleet.path()) as page:
        page.wait_for_selector("text=every record is in the table")
        first = page.inner_text(".slot-list [data-slot='0'] b.clip")
        page.wait_for_selector(".slot-list [data-slot='0'] >> text=partitions 0–1 · epoch 1")
        assert page.locator(".lags > div").count() == 2
        page.wait_for_selector("dd >> text=exactly once")
        page.wait_for_selector(".timeline [data-slot='0'] [data-epoch='1']")
        fleet.world.stop()
        page.wait_for_selector(".slot-list >> text=no worker")
        fleet.worker()
        page.wait_for_selector(".timeline [data-slot='0'] [data-epoch='2']")
        second = page.inner_text(".slot-list [data-slot='0'] b.clip")
        said = page.get_attribute(".timeline [data-slot='0'] > div", "aria-label") or ""
        assert f"epoch 1 by {first} from" in said
        assert f"epoch 2 by {second} from" in said
        assert page.inner_text(".owners").split() == [first, second]


def test_the_editor_says_what_a_change_does_applies_it_and_takes_it_back(fleet: Fleet) -> None:
    with fleet.pages.opened(fleet.path()) as page:
        page.click("[data-testid=more]")
        page.wait_for_selector(".desired .note >> text=1 → 2.")
        page.click("[data-testid=apply]")
        page.wait_for_selector(".toast >> text=orders: started, 2 replicas")
        page.wait_for_selector(".slot-list [data-slot='1'] >> text=epoch")
        assert fleet.store.pipelines.get(fleet.world.id).replicas == 2
        page.click(".toast button >> text=Undo")
        wait_until(lambda: fleet.store.pipelines.get(fleet.world.id).replicas == 1)
        page.wait_for_selector(".slot-list [data-slot='1']", state="detached")
        page.click(".desired .segments >> text=Stopped")
        page.wait_for_selector(".desired .note >> text=What is in hand is committed")
        page.click(".desired >> text=Reset")
        page.wait_for_selector("[data-testid=apply]", state="detached")
        assert fleet.store.pipelines.get(fleet.world.id).desired == "started"


def test_versions_show_what_they_changed_and_lead_back(fleet: Fleet) -> None:
    world = fleet.world
    before = fleet.store.pipelines.get(world.id).version
    world.put(Kind.CLICKHOUSE, {**world.clickhouse, "batchSize": 60})
    with fleet.pages.opened(fleet.path("/versions")) as page:
        page.wait_for_selector(f"h2 >> text=What version {before + 1} changed")
        page.wait_for_selector(".diff .add")
        assert page.inner_text(".diff").split("\n") == ["clickhouse.batchSize", "− 50", "+ 60"]
        assert page.locator("[data-testid=rollback]").count() == 0
        page.click(f".pick >> text=Version {before}")
        page.click("[data-testid=rollback]")
        page.wait_for_selector(f"dialog >> text=a new version {before + 2} equals version {before}")
        page.click("dialog >> text=Leave it")
        page.wait_for_selector("dialog", state="detached")
        page.click("[data-testid=rollback]")
        page.click("dialog button >> text=Go back")
        page.wait_for_selector(f".toast >> text=Version {before + 2} equals version {before}")
        page.wait_for_selector(f".pick >> text=rollback to {before}")
    config = fleet.store.configs.get(world.id, Kind.CLICKHOUSE)
    assert config is not None
    assert config.document["batchSize"] == 50


def test_the_live_tail_shows_records_raw_filtered_and_mapped(fleet: Fleet) -> None:
    with fleet.pages.opened(fleet.path("/tail")) as page:
        page.wait_for_selector("h2 >> text=2 of the newest 20 do not fit")
        page.wait_for_selector(".pair.bad >> text=can't be judged >> nth=1")
        page.wait_for_selector(".pair:has-text('✓ kept') >> text=29 >> nth=1")  # raw and mapped
        fleet.world.produce(b'{"id": 1}')
        page.wait_for_selector("h2 >> text=the filter leaves 1 out")
        assert page.inner_text(".pair.out").split("\n")[-2:] == ["− left out", "no row"]
        page.click("text=Pause")
        page.wait_for_selector("text=Go on")


def test_a_dead_letter_is_corrected_replayed_or_discarded(fleet: Fleet) -> None:
    world = fleet.world
    with fleet.pages.opened(fleet.path("/dead")) as page:
        page.wait_for_selector("h2 >> text=2 dead letters for 2 reasons")
        page.click(".pick >> text=wrong_type")
        page.wait_for_selector(".letter mark >> text=seven")
        page.click("[data-testid=edit]")
        assert page.input_value("[data-testid=draft]") == LONG
        page.fill("[data-testid=draft]", '{"id": "eight"}')
        page.click("[data-testid=replay]")
        page.wait_for_selector("text=Refused again")
        page.fill("[data-testid=draft]", '{"id": 77}')
        page.click("[data-testid=replay]")
        page.wait_for_selector(".toast >> text=1 dead letter is a row now")
        assert 77 in world.rows()
        page.wait_for_selector("h2 >> text=1 dead letter, all for one reason")
        page.click("[data-testid=discard]")
        page.wait_for_selector("text=No dead letters")
        page.click(".toast button >> text=Undo")
        page.wait_for_selector("h2 >> text=1 dead letter, all for one reason")
        assert len(fleet.store.letters.list(world.id)) == 1
        page.keyboard.press("x")
        page.wait_for_selector("text=No dead letters")
        wait_until(lambda: fleet.store.letters.list(world.id) == [])


def test_workers_and_the_audit_log_name_who_does_what(fleet: Fleet) -> None:
    other = fleet.store.pipelines.create("another", "", "ann").id
    with fleet.pages.opened("/workers") as page:
        headline(page, "1 of 1 worker has room")
        page.wait_for_selector("td:has-text('1') >> text=orders 0")
        page.wait_for_selector(".chip >> text=up")
        visit(page, "/audit")
        page.wait_for_selector("tr:has-text('orders') >> text=changed the filters config")
        page.wait_for_selector("tr:has-text('ann') >> text=made the pipeline")
        visit(page, f"/audit?pipeline={other}")
        page.wait_for_selector("p >> text=1 change shown")
        assert page.locator("tbody tr").count() == 1
    fleet.store.pipelines.delete(other, "ann")


def test_schemas_are_given_in_the_wizard_and_checked(fleet: Fleet) -> None:
    schema = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'
    with fleet.pages.opened("/new/kafka") as page:
        for name, text in (("name", "of avro"), ("topic", fleet.world.topic), ("brokers", fleet.world.brokers)):
            page.fill(f"[name={name}]", text)
        page.select_option("[name=format]", "protobuf")
        page.wait_for_selector("[name=proto_text]")
        page.select_option("[name=format]", "avro")
        page.fill("[name=schema_text]", schema[:-1])
        page.click("[data-testid=next]")
        page.wait_for_selector(".note.bad")
        assert "of avro" not in [each.name for each in fleet.store.pipelines.list()]
        page.fill("[name=schema_text]", schema)
        page.click("[data-testid=next]")
        page.wait_for_url("**/new/sample*")
    made = fleet.store.pipelines.list()[-1]
    config = fleet.store.configs.get(made.id, Kind.KAFKA)
    fleet.store.pipelines.delete(made.id, "me")
    assert config is not None
    assert config.document["formatConfig"] == {"schema_text": schema}


DELETE = "[data-testid=delete]"
PAGES = {"": ".timeline", "/tail": ".pair", "/dead": "main h2", "/versions": ".diff", "/settings": DELETE}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_each_page_has_contrast_names_and_no_sideways_scroll(fleet: Fleet, dark: bool) -> None:
    shown: dict[str, str] = {fleet.path(part): selector for part, selector in PAGES.items()}
    with fleet.pages.opened(dark=dark) as page:
        for path, selector in {**shown, "/workers": "tbody", "/audit": "tbody"}.items():
            visit(page, path)
            page.wait_for_selector(selector)
            assert page.evaluate(CONTRAST) == [], path
            assert page.evaluate(NAMES) == [], path
            page.set_viewport_size({"width": 390, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth") == 390, path
            page.set_viewport_size({"width": 1280, "height": 844})


def test_viewers_see_all_of_it_and_change_nothing(fleet: Fleet) -> None:
    with fleet.pages.opened(fleet.path(), role="viewer") as page:
        page.wait_for_selector("text=Viewers cannot change anything")
        controls: Any = page.locator("[data-testid=stop], #replicas, [data-testid=more]")
        assert [control.is_disabled() for control in controls.all()] == [True] * 3
        for part, selector in PAGES.items():
            visit(page, fleet.path(part))
            page.wait_for_selector(selector)
        assert page.is_disabled(DELETE)


def test_workers_without_leases_are_told_and_replicas_can_not_be_placed(fleet: Fleet) -> None:
    with fleet.pages.opened(fleet.path()) as page:
        page.wait_for_selector(".slot-list >> text=epoch")
        fleet.worker(leases=False)
        page.wait_for_selector(".banner >> text=1 worker runs with --no-leases")
        assert page.is_enabled("#replicas")
        fleet.world.stop()
        fleet.worker(leases=False)
        page.wait_for_selector(".desired >> text=All workers run with --no-leases")
        assert page.is_disabled("#replicas")
        assert page.is_disabled("[data-testid=more]")
