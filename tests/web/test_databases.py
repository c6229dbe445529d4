"""Pages of database states: of `gauss serve`, over a real engine with real servers."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from playwright.sync_api import Browser

from gauss.clients.dbstates.client import DatabaseStates, running, start
from helpers.dbstates import Prepared, engine, prepare, write_scripts
from helpers.page_checks import CONTRAST, NAMES, visit
from helpers.serving import Serving
from helpers.waiting import wait_until
from web.conftest import Served

pytestmark = pytest.mark.system

HOSTILE = "<img src=x onerror=window.hit=1>"
LANES = "gauss-web/db/lanes.js"


@dataclass
class Site(Served):
    """The pages of a `gauss serve`."""

    data_dir: Path = field(kw_only=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Site]:
    serving = Serving(tmp_path_factory.mktemp("databases") / "data")
    serving.start()
    yield Site(serving.file, browser, data_dir=serving.folder)
    serving.signal(signal.SIGTERM)


@dataclass
class Shop:
    """A chain of three states with two branches."""

    client: DatabaseStates
    folder: Path
    first: Prepared

    def state(self, title: str) -> str:
        return next(str(each["state_id"]) for each in self.client.get("states")["states"] if each["title"] == title)


ARGS = ("-f", "one.sql", "-f", "two.sql", "-f", "three.sql")


@pytest.fixture(scope="module")
def shop(site: Site) -> Iterator[Shop]:
    folder = write_scripts(
        site.data_dir.parent / "scripts",
        one="CREATE TABLE one (a int);\n",
        two="CREATE TABLE two AS SELECT now() AS at;\n",
        three="SELECT 3;\n",
        **{HOSTILE.replace("/", ""): "SELECT 1;\n"},
    )
    with engine(site.data_dir) as client:
        first = prepare(client, folder, *ARGS)
        prepare(client, folder, "-f", "one.sql", "-f", f"{HOSTILE}.sql")
        prepare(client, folder, *ARGS)
        yield Shop(client, folder, first)


def test_without_a_database_the_page_says_what_to_type_and_starts_nothing(site: Site) -> None:
    with site.opened("/") as page:
        page.keyboard.press("g")
        page.keyboard.press("b")
        page.wait_for_selector("h1 >> text=No database has been prepared here")
        assert f"gauss db prepare --data-dir {site.data_dir}" in page.inner_text(".typed")
    assert running(site.data_dir) is None
    assert not (site.data_dir / "dbstates").exists()


def test_a_chain_does_not_indent_and_lines_of_branches_meet_nothing(site: Site) -> None:
    script = """async () => {
      const { lanes, MOST_LANES } = await import("%s");
      const made = (parents) => parents.map((parent, at) => ({ state_id: `s${at}`, base_id: "b", parent_state_id: parent === null ? null : `s${parent}` }));
      const faults = [];
      let seed = 7;
      const random = (most) => (seed = (seed * 48271) %% 2147483647) %% most;
      for (let round = 0; round < 200; round++) {
        const { rows } = lanes(made(Array.from({ length: 30 }, (_, at) => (at ? random(at) : null))));
        if (rows.length !== 31 || new Set(rows.map((row) => row.id)).size !== 31) faults.push("a state is missing");
        for (const row of rows) if (row.lines.some(([kind, lane]) => kind === "pass" && lane === row.lane && lane < MOST_LANES)) faults.push(`a line crosses ${row.id}`);
        const places = new Map(rows.map((row, at) => [row.id, at]));
        for (const row of rows) if (row.state?.parent_state_id && places.get(row.state.parent_state_id) >= places.get(row.id)) faults.push("a state above its parent");
      }
      const chain = lanes(made(Array.from({ length: 100 }, (_, at) => (at ? at - 1 : null)))), fan = lanes(made([null, ...Array(500).fill(0)]));
      return [faults, chain.count, fan.count <= MOST_LANES + 1, fan.rows.filter((row) => row.from).length > 400];
    }"""  # noqa: E501
    with site.opened("/db") as page:
        assert page.evaluate(script % LANES) == [[], 1, True, True]


def test_states_show_lanes_sizes_hits_and_marks(site: Site, shop: Shop) -> None:
    with site.opened("/db") as page:
        said = page.inner_text("h1")
        assert re.fullmatch(r"3 databases are up, 4 of 8 steps came from the cache", said), said
        titles = page.locator(".states tbody tr .name, .states tbody tr.base b").all_inner_texts()
        assert titles[1:] == ["one.sql", "two.sql", "three.sql", f"{HOSTILE}.sql"]
        places = page.evaluate(
            "[...document.querySelectorAll('.lanes i')].map((dot) => dot.style.getPropertyValue('--at'))"
        )
        assert places == ["0.5", "0.5", "0.5", "0.5", "1.5"]
        row = page.locator(f"tr[data-id='{shop.state('two.sql')}']")
        assert "now()" in row.inner_text()
        page.wait_for_selector(f"tr[data-id='{shop.state('three.sql')}'] >> text=/iB/")
        assert page.locator(f"tr[data-id='{shop.state('three.sql')}'] td").nth(3).inner_text() == "1"
        assert page.evaluate("window.hit") is None
        page.fill("[data-filter]", "two")
        wait_until(lambda: page.locator(".states a.name").all_inner_texts() == ["one.sql", "two.sql"], what="two rows")
        assert page.url.endswith("?filter=two")
        page.keyboard.press("Escape")
        page.locator("h1").click()
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_selector("h1 >> text=two.sql")
        page.wait_for_selector(".note >> text=Not reproducible")
        assert page.locator("tr.chosen").count() == 1


def test_a_changed_script_is_prepared_from_the_page_and_watched(site: Site, shop: Shop) -> None:
    (shop.folder / "three.sql").write_text("SELECT pg_sleep(1.5);\n")
    with site.opened("/db") as page:
        page.click("[data-testid=new]")
        page.wait_for_selector(".again .note >> text=1 of 3 steps runs")
        assert "three.sql" in page.inner_text(".again .note")
        page.click("[data-testid=prepare]")
        page.wait_for_selector(".task-list li.running >> text=three.sql")
        page.wait_for_selector("h1 >> text=/three.sql runs, 2 of 3 steps came from the cache/")
        page.wait_for_selector("h1 >> text=/Ready in .*: 2 of 3 steps came from the cache/", timeout=60_000)
        assert page.locator(".task-list li[data-cached=true]").count() == 2
        assert "three.sql:1 was changed" in page.inner_text(".note.warn")
        page.wait_for_selector("[role=log] >> text=psql: three.sql")
        page.click("[data-testid=again]")
        page.wait_for_selector("h1 >> text=/Ready in .*: 3 of 3 steps came from the cache/", timeout=60_000)


def test_a_database_is_connected_to_reset_and_removed(site: Site, shop: Shop) -> None:
    with site.opened(f"/db?open={shop.first.instance}") as page:
        page.click("[data-testid=connect]")
        page.wait_for_selector("[data-testid=dsn]")
        dsn = page.input_value("[data-testid=dsn]")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("DROP TABLE one")
            page.wait_for_selector(".instance-more >> text=1 connection")
            page.click("[data-testid=remove]")
            page.wait_for_selector("dialog >> text=clients are connected to it")
            assert page.is_disabled("[data-testid=really]")
            page.keyboard.press("Escape")
        page.click("[data-testid=reset]")
        page.click("dialog >> text=Reset >> nth=-1")
        page.wait_for_selector(".toast >> text=has the content of its state again")
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SELECT count(*) FROM one").fetchone() == (0,)
        page.click("[data-testid=keep]")
        page.wait_for_selector(f"li[data-id='{shop.first.instance}'] .time >> text=kept")
        page.click("[data-testid=remove]")
        page.wait_for_selector("dialog >> text=1 database would go")
        page.click("[data-testid=really]")
        page.wait_for_selector(f"li[data-id='{shop.first.instance}']", state="detached")
    assert shop.first.instance not in json.dumps(shop.client.get("instances"))


def test_a_removal_shows_its_dry_run_first_and_asks_for_the_id(site: Site, shop: Shop) -> None:
    state = shop.state("two.sql")
    with site.opened(f"/db/states/{state}") as page:
        page.click("[data-testid=remove]")
        page.wait_for_selector("dialog >> text=other states or databases were made of it")
        assert page.evaluate("document.activeElement.innerText") == "Keep it"
        assert page.is_disabled("[data-testid=really]")
        page.check("[data-testid=recurse]")
        page.wait_for_selector("dialog >> text=/[23] states and . databases? would go/")
        assert page.is_disabled("[data-testid=really]")
        assert shop.state("two.sql") == state
        page.fill("[data-testid=typed]", state[:8])
        page.click("[data-testid=really]")
        page.wait_for_url("**/db")
        page.wait_for_selector(f"tr[data-id='{state}']", state="detached")
    assert {each["title"] for each in shop.client.get("states")["states"]} == {"one.sql", f"{HOSTILE}.sql"}


def test_a_viewer_sees_all_and_can_do_nothing(site: Site, shop: Shop) -> None:
    with site.opened("/db", role="viewer") as page:
        assert page.is_disabled("[data-testid=new]")
        page.click(".instance")
        page.wait_for_selector("[data-testid=connect]")
        for name in ("connect", "reset", "keep", "remove"):
            assert page.is_disabled(f"[data-testid={name}]"), name
        visit(page, f"/db/states/{shop.state('one.sql')}")
        assert page.is_disabled("[data-testid=remove]")


def paths(shop: Shop) -> list[str]:
    jobs = shop.client.get("prepare-jobs")["jobs"]
    return [
        "/db",
        f"/db/states/{shop.state('one.sql')}",
        f"/db/jobs/{jobs[-1]['job_id']}",
        "/db/states/%E0%A4",
        "/db/jobs/none",
    ]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_have_contrast_names_and_no_sideways_scroll(site: Site, shop: Shop, dark: bool) -> None:
    with site.opened("/db", dark=dark) as page:
        for path in paths(shop):
            visit(page, path)
            assert page.evaluate(CONTRAST) == [], path
            assert page.evaluate(NAMES) == [], path
        page.set_viewport_size({"width": 390, "height": 844})
        for path in paths(shop):
            visit(page, path)
            assert page.evaluate("document.documentElement.scrollWidth") == 390, path


def test_an_engine_that_dies_is_told_and_started_again(site: Site, shop: Shop) -> None:
    with site.opened("/db") as page:
        page.wait_for_selector("tr[data-id]")
        seen = page.locator("tr[data-id]").count()
        os.kill(start(site.data_dir).place["pid"], signal.SIGKILL)
        page.wait_for_selector(".gone >> text=The engine has ended")
        assert page.locator("tr[data-id]").count() == seen
        page.click("[data-testid=start]")
        page.wait_for_selector(".gone", state="detached", timeout=60_000)
        shop.client.place = start(site.data_dir).place
    os.kill(start(site.data_dir).place["pid"], signal.SIGKILL)
    wait_until(lambda: running(site.data_dir) is None, what="the engine is gone")
    with site.opened("/db") as page:
        page.wait_for_selector("h1 >> text=The engine is not running")
        page.click("[data-testid=start]")
        page.wait_for_selector("tr[data-id]", timeout=60_000)
