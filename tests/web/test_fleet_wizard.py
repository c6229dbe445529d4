"""The wizard of a fleet by clicks alone, from an empty list to rows in ClickHouse, and the page of a mapping."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import confluent_kafka
import httpx
import pytest
from playwright.sync_api import Browser, FilePayload, Page

from gauss.clients.clickhouse.connect import connect
from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.clients.kafka.admin import Admin
from gauss.fleet.config.clickhouse import ClickHouseConfig
from gauss.scan.program.check import check
from gauss.scan.program.parse import parse
from helpers.kafka import SecuredBroker, settings
from helpers.page_checks import CONTRAST, NAMES, visit
from helpers.serving import Serving
from helpers.waiting import wait_until
from web.conftest import Served

pytestmark = [pytest.mark.system, pytest.mark.spark]

RECORDS, LAST = 60, 59
PASSWORD = "[name=password]"


def record(number: int) -> bytes:
    found: dict[str, Any] = {"id": number, "price": f"{number}.50", "kind": "ab"[number % 2]}
    if number % 3:
        found["ship"] = {"country": "US"}
    return b"{broken" if number == LAST else json.dumps(found).encode()


@dataclass
class Fleet:
    """The pages of `gauss serve`, and the servers that its pipelines use."""

    pages: Served
    serving: Serving
    broker: str
    topic: str
    dsn: str

    def rows(self, table: str) -> Any:
        """Number and distinct ids of the rows of a table."""
        client = connect(ClickHouseConfig(dsn=self.dsn).address())
        try:
            return client.query(f"SELECT count(), uniqExact(id), countIf(ship_country = 'US') FROM {table}").result_rows
        finally:
            client.close()

    @property
    def api(self) -> httpx.Client:
        found = json.loads(self.serving.file.read_text())
        headers = {"Authorization": f"Bearer {found['token']}"}
        return httpx.Client(base_url=found["endpoint"], headers=headers, timeout=60)


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    made = ensure("clickhouse", tmp_path_factory.mktemp("wizard") / "clickhouse")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def fleet(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser, kafka: SecuredBroker, clickhouse: EmbeddedServer
) -> Iterator[Fleet]:
    serving = Serving(tmp_path_factory.mktemp("fleet") / "data")
    serving.start("--with-worker")
    topic = f"shop.{uuid.uuid4().hex[:8]}"
    Admin(settings(kafka.broker.address)).create(topic, 2)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.broker.address})
    for number in range(RECORDS):
        producer.produce(topic, record(number), partition=number % 2)
    producer.flush()
    endpoint = clickhouse.endpoint
    dsn = f"http://{endpoint.user}:{endpoint.password}@{endpoint.host}:{endpoint.port}"
    yield Fleet(Served(serving.file, browser), serving, kafka.broker.address, topic, dsn)
    serving.kill()


@pytest.fixture(scope="module")
def stopped(fleet: Fleet) -> str:
    """The id of a pipeline that is configured and was never started."""
    with fleet.api as api:
        made: str = api.post("/api/pipelines", json={"name": "stopped"}).json()["id"]
        path = f"/api/pipelines/{made}"
        api.put(f"{path}/kafka-config", json={"brokers": fleet.broker, "topic": fleet.topic}).raise_for_status()
        api.put(f"{path}/clickhouse-config", json={"dsn": fleet.dsn, "table": "own"}).raise_for_status()
        mapping = api.get(f"{path}/proposal").json()["mapping"]
        api.put(f"{path}/mapping", json=mapping).raise_for_status()
    return made


def headline(page: Page, text: str) -> None:
    page.wait_for_selector(f"h1 >> text={text}")


def test_clicks_alone_lead_from_an_empty_list_to_rows_in_clickhouse(fleet: Fleet) -> None:
    with fleet.pages.opened() as page:
        headline(page, "No pipelines yet")
        page.click("[data-testid=new]")
        _kafka(page, fleet)
        headline(page, f"{RECORDS} records, 4 fields")
        page.click("[data-testid=next]")
        _mapping(page)
        headline(page, "Where do the rows go?")
        _table(page, fleet)
        headline(page, "is ready to start")
        page.wait_for_selector("text=It reads all 2 partitions")
        page.click("[data-testid=more]")
        page.wait_for_selector("text=all 2 slots")
        page.fill("#replicas", "3")
        page.keyboard.press("Tab")
        page.wait_for_selector("text=1 replica would have nothing to read")
        page.fill("#replicas", "1")
        page.click("[data-testid=start]")
        page.wait_for_url("**/pipelines/*")
        page.wait_for_selector(".tiles >> text=every record became a row", state="detached", timeout=120_000)
        page.wait_for_selector("text=every record is in the table", timeout=120_000)
        assert fleet.rows("orders") == [(LAST, LAST, LAST * 2 // 3)]
        page.click(".tabs >> text=Dead letters")
        page.wait_for_selector("text=bad_json")
        page.click(".crumbs >> text=Pipelines")
        headline(page, "The pipeline runs well")


def _kafka(page: Page, fleet: Fleet) -> None:
    """Each fault is shown at its field, and nothing is made before the brokers have answered."""
    page.click("[data-testid=next]")
    assert page.locator(".fault").count() == 3
    page.fill("[name=name]", "orders")
    page.fill("[name=topic]", "no-such-topic")
    page.fill("[name=brokers]", "localhost")
    page.click("[data-testid=next]")
    page.wait_for_selector("#fault-brokers >> text=host:port")
    page.fill("[name=brokers]", "127.0.0.1:1")
    page.click("[data-testid=next]")
    page.wait_for_selector("#fault-brokers >> text=Nothing listens at 127.0.0.1:1")
    page.fill("[name=brokers]", fleet.broker)
    page.click("[data-testid=next]")
    page.wait_for_selector("#fault-topic >> text=no topic of this name")
    with fleet.api as api:
        assert api.get("/api/pipelines").json() == []
    page.fill("[name=topic]", fleet.topic)
    page.click("[data-testid=next]")


def _mapping(page: Page) -> None:
    """A column that does not fit is marked at its line, in the samples and in the statement; a button mends it."""
    headline(page, f"{LAST} of {RECORDS} sampled rows fit")
    page.click("[aria-label='ship_country may be null']")
    headline(page, "39 of 60 sampled rows fit")
    assert page.inner_text("tr[data-column=ship_country] .fault") == "39"
    assert "ship_country" in page.inner_text(".ddl .err")
    page.wait_for_selector(".samples .bad >> text=ship_country: missing")
    page.click("[data-testid=fix] >> text=Make it nullable")
    headline(page, f"{LAST} of {RECORDS} sampled rows fit")
    page.select_option("[aria-label='Type of kind']", "Int64|")
    page.wait_for_selector(".samples .bad mark:has-text('b')")
    page.click("[data-testid=undo]")
    headline(page, f"{LAST} of {RECORDS} sampled rows fit")
    page.click("[aria-label='Drop kind']")
    page.wait_for_selector(".ddl:not(:has-text('kind'))")
    page.click(".mapping .segments >> text=Rows")
    page.wait_for_selector(".samples :text('ship_country')")
    page.click("[data-testid=next]")


def _table(page: Page, fleet: Fleet) -> None:
    page.fill("[name=server]", "http://127.0.0.1:1")
    page.click("[data-testid=next]")
    page.wait_for_selector("#fault-server")
    address = ClickHouseConfig(dsn=fleet.dsn).address()
    page.fill("[name=server]", f"http://{address.host}:{address.port}")
    page.fill("[name=user]", address.user)
    page.fill(PASSWORD, "wrong")
    page.click("[data-testid=connect]")
    page.wait_for_selector("#fault-password >> text=refuses this user or password")
    page.fill(PASSWORD, address.password)
    page.click("[data-testid=connect]")
    headline(page, "will be made")
    page.fill("[name=table]", "orders")
    page.fill("[name=ttl]", "id")
    headline(page, "The table orders does not fit")
    page.wait_for_selector(".table-pane >> text=TTL expression")
    page.fill("[name=ttl]", "")
    page.select_option("[aria-label='Also sort by']", "price")
    page.wait_for_selector(".ddl >> text=ORDER BY (id, price)")
    headline(page, "The table orders will be made")
    page.wait_for_selector(".table-pane >> text=Exactly once")
    page.click("[data-testid=next]")


def test_rules_write_an_expression_that_is_tried_and_edited_as_text(fleet: Fleet, stopped: str) -> None:
    with fleet.pages.opened(f"/pipelines/{stopped}/mapping") as page:
        page.click("[data-testid=add-filter]")
        page.select_option("[aria-label='Rule 1: condition']", ">=")
        page.fill("[aria-label='Rule 1: value']", "10")
        page.click("[data-testid=add-rule]")
        page.fill("[aria-label='Rule 2: field']", "ship.country")
        page.fill("[aria-label='Rule 2: value']", "US")
        expression = page.locator("[data-testid=expression]")
        assert expression.input_value() == '.id >= 10 and .ship.country == "US"'
        page.wait_for_selector(".filter >> text=It keeps 33 of 60")
        page.fill("[data-testid=filter-sample]", '{"id": 3, "ship": {"country": "US"}}')
        page.click("[data-testid=try-filter]")
        page.wait_for_selector(".filter >> text=left out >> nth=0")
        page.fill("[data-testid=expression]", 'not (.id > 3) or (.kind | contains("b"))')
        wait_until(lambda: page.locator(".rules.nested").count() == 1, what="a group of rules")
        page.fill("[data-testid=expression]", ".id + 1 > 3")
        page.wait_for_selector("text=more than rules can show")
        page.fill("[data-testid=expression]", ".id >")
        page.wait_for_selector(".filter >> text=can't be used")
        assert page.is_disabled("[data-testid=next]")
        page.fill("[data-testid=expression]", ".id > 3")
        page.wait_for_selector(".filter >> text=It keeps 55 of 60")
        page.click("[data-testid=next]")
        page.wait_for_url(f"**/pipelines/{stopped}")
    with fleet.api as api:
        found = api.get(f"/api/pipelines/{stopped}/filters-config").json()
    assert (found["enabled"], found["expression"]) == (True, ".id > 3")


EXPRESSIONS = (
    ".a == 1",
    '.a != "1"',
    '.["a b"].c <= 1.5e3',
    '(.a | contains("x\\"y")) and (.b | test("^a.*"))',
    ".a != null and (.b == true or .c > -2)",
    "not (.a > 1 and .b > 2)",
    "not (.a > 1) or (.b > 2 and (.c > 3 or .d > 4))",
)


def test_what_rules_write_is_read_again_and_is_of_the_scan_language(fleet: Fleet) -> None:
    with fleet.pages.opened() as page:
        for each in EXPRESSIONS:
            again = page.evaluate(
                "async (text) => { const { read, write } = await import('gauss-web/fleet/filter_rules.js');"
                " return write(read(text)); }",
                each,
            )
            assert again == each
            check(parse(again))
        typed = page.evaluate(
            "async () => { const { write, rule } = await import('gauss-web/fleet/filter_rules.js');"
            " const one = { ...rule('zip'), value: '0123' }, other = { ...rule('zip'), value: '12' };"
            " return [write(one), write(other, { zip: 'string' }), write(other, { zip: 'number' })]; }"
        )
        assert typed == ['.zip == "0123"', '.zip == "12"', ".zip == 12"]


def test_a_saved_mapping_is_compared_with_its_table_before_it_changes(fleet: Fleet, stopped: str) -> None:
    client = connect(ClickHouseConfig(dsn=fleet.dsn).address())
    try:
        client.command("CREATE TABLE own (id Int64, price String, kind String) ENGINE = MergeTree ORDER BY id")
        with fleet.pages.opened(f"/pipelines/{stopped}/mapping") as page:
            page.click(".table-pane >> text=Diff")
            page.wait_for_selector(".diff >> text=+ ship_country")
            page.wait_for_selector(".table-pane >> text=At least once")
            page.fill("tr[data-column=kind] .name", "sort")
            page.keyboard.press("Tab")
            page.wait_for_selector(".diff >> text=+ sort")
            page.wait_for_selector("text=no row would be inserted")
            page.wait_for_selector("[data-testid=next] >> text=Save anyway")
            page.click("text=Discard changes")
            page.wait_for_selector("[data-testid=next][disabled]")
            page.click(".table-pane .segments >> text=Create")
            page.fill("tr[data-column=kind] .name", "sort")
            page.keyboard.press("Tab")
            page.wait_for_selector(".ddl .add >> text=sort")
            page.click("[data-testid=next] >> text=Save")
            page.wait_for_selector("text=no row would be inserted")
    finally:
        client.command("DROP TABLE IF EXISTS own")
        client.close()


def test_viewers_see_a_mapping_and_no_wizard(fleet: Fleet, stopped: str) -> None:
    with fleet.pages.opened(role="viewer") as page:
        assert page.is_disabled("text=New pipeline")
        page.goto("/new/kafka")
        headline(page, "Viewers cannot make pipelines")
        assert page.locator("form").count() == 0
        page.goto(f"/pipelines/{stopped}/mapping")
        page.wait_for_selector("text=viewers cannot change them")
        assert page.locator("main input, main select").count() == 0


FILE = """topics = [{ name = "raw", storage = "memory" }]

[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "raw" }
config = { port = 0, max_record_bytes = 1000, input = { framing = "newline", delimiter = "\\n" } }
"""


def test_a_whole_file_is_a_pipeline_with_its_faults_shown_in_the_editor(fleet: Fleet) -> None:
    with fleet.pages.opened(role="admin") as page:
        page.click("[data-testid=new-file]")
        headline(page, "Take a file of gauss run")
        wrong = FILE.replace("source", "sorce").encode()
        given = FilePayload(name="market.toml", mimeType="text/plain", buffer=wrong)
        page.set_input_files("[data-testid=upload]", files=[given])
        headline(page, "The file has 1 error")
        assert 'unknown processor "tcp-sorce"' in page.inner_text("[data-line='5'].err")
        assert page.input_value("[name=name]") == "market"
        assert page.is_disabled("[data-testid=next]")
        page.click(".faults button")
        assert page.evaluate("document.activeElement.dataset.testid") == "file"
        assert page.evaluate(NAMES) == []
        assert page.evaluate(CONTRAST) == []
        page.fill("[data-testid=file]", FILE)
        headline(page, "The file has no faults")
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.set_viewport_size({"width": 1280, "height": 844})
        page.click("[data-testid=next]")
        page.wait_for_url("**/pipelines/*")
        page.wait_for_selector("text=It is a whole file")
        path = page.url
    with fleet.pages.opened() as page:
        page.goto(f"{path}/file")
        page.wait_for_selector("text=Only admins change files")
        wait_until(lambda: page.input_value("[data-testid=file]") == FILE)  # it is read after the page is there
        page.click("[data-testid=start]")
        page.wait_for_selector(".chip >> text=running", timeout=60_000)


STEPS = {
    "kafka": "form",
    "sample": ".samples",
    "mapping": ".samples > div",
    "table": ".table-pane .note",
    "start": ".desired .note",
}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_each_step_has_contrast_names_and_no_sideways_scroll(fleet: Fleet, stopped: str, dark: bool) -> None:
    with fleet.pages.opened(dark=dark) as page:
        for step, shown in STEPS.items():
            visit(page, f"/new/{step}?pipeline={stopped}")
            page.wait_for_selector(f".steps .here >> text={step.title()}")
            page.wait_for_selector(shown)
            if step == "mapping":
                page.select_option("[aria-label='Type of kind']", "Int64|")
                page.click("[data-testid=add-rule]" if page.locator(".rules").count() else "[data-testid=add-filter]")
                page.wait_for_selector("[data-testid=fix]")
            page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
            assert page.evaluate(CONTRAST) == [], step
            assert page.evaluate(NAMES) == [], step
            page.set_viewport_size({"width": 390, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth") == 390, step
            page.set_viewport_size({"width": 1280, "height": 844})
