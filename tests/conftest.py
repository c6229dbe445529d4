"""Settings of every test run."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from helpers.cases import cases

if TYPE_CHECKING:
    from gauss.spark.session import Spark
    from helpers.kafka import SecuredBroker

# All JVMs that tests start share one class archive; otherwise each data directory would train its own.
os.environ.setdefault("GAUSS_CACHE_DIR", str(Path(__file__).parents[1] / ".cache"))

# Hundreds of processes import the same modules: let Python cache their bytecode whatever the environment says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# By default Hypothesis tries the same cases in every run, so that a failure can be repeated. With GAUSS_CASES it tries
# new ones. There is no deadline per case, since the machine may be busy.
hypothesis.settings.register_profile(
    "gauss",
    max_examples=cases(100),
    derandomize="GAUSS_CASES" not in os.environ,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
)
hypothesis.settings.load_profile("gauss")

# nohup makes this process ignore SIGHUP. Child processes would inherit that, and `gauss run` respects it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

UMASK = os.umask(0o022)
os.umask(UMASK)

SERVERS = {"any_clickhouse", "clickhouse", "kafka", "postgres", "server", "servers"}
SLOW = ("system", "fault", "spark")


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """Restores the umask, which a run that is started in this process changes."""
    yield
    os.umask(UMASK)


@pytest.fixture(scope="session")
def started_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """A Spark session for all tests of this process, since a process can have only one JVM."""
    from gauss.config.spec import SparkSection
    from gauss.model.paths import DataDir
    from gauss.spark import session
    from gauss.stream.driver.preload import PRELOAD

    data_dir = DataDir(tmp_path_factory.mktemp("spark"))
    made = session.start(SparkSection(), data_dir, standing=8, preload=PRELOAD)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def spark(started_spark: Spark) -> Any:
    """The SQL session of the shared Spark."""
    return started_spark.session


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A Kafka broker for all tests of this process, with listeners for all security protocols."""
    from helpers.kafka import SecuredBroker

    found = SecuredBroker(tmp_path_factory.mktemp("kafka"))
    found.broker.start()
    yield found
    found.broker.kill()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that need a server as `system`, and sorts slow tests first, so that parallel workers end at about the
    same time."""
    for item in items:
        if SERVERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.system)
    place = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in items))}

    def order(item: pytest.Item) -> tuple[bool, int]:
        return not any(item.get_closest_marker(name) for name in SLOW), -place[item.path]

    items.sort(key=order)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--failures", type=Path, help="write what failed, and why, to this file as JSON")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--failures")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(path))


class Failures:
    """Writes the failed tests of this run, with their output, for `.ci/rerun.py`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failed: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.setdefault(report.nodeid, report.longreprtext)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.setdefault(report.nodeid, report.longreprtext)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps({"exit": int(exitstatus), "failed": self.failed}))
