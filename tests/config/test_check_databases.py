"""Faults of `[[databases]]` and of references to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gauss.clients.postgres.server import PostgresServer, address_of
from gauss.config.database_refs import databases_of, databases_of_sync, with_addresses
from gauss.config.spec import Pipeline
from gauss.connect.schedule import embedded_systems
from gauss.model.errors import Unavailable
from gauss.stream.graph import build_graph

if TYPE_CHECKING:
    from .conftest import Judge

DATABASE = """
[[databases]]
name = "shop"
prepare = { kind = "psql", args = ["-f", "schema.sql"] }
"""
SOUND = f"""{DATABASE}
[[formats]]
name = "row"
plugin = "json"
config = {{ fields = [{{ name = "id", type = "int64" }}] }}

[[topics]]
name = "orders"
storage = "postgres"
storage_config = {{ database = "shop", format = "row" }}

[[topics]]
name = "customers"
storage = "memory"

[[processors]]
name = "read"
plugin = "pg-source"
target = {{ topic = "customers" }}
config = {{ database = "shop", table = "customers" }}

[[syncs]]
name = "copy"
source = {{ connector = "postgres", database = "shop" }}
destination = {{ connector = "postgres", host = "db.example", database = "shop", sslmode = "require" }}
streams = [{{ name = "public.customers" }}]
"""


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "schema.sql").write_text("CREATE TABLE customers (id int);\n")


def test_topics_sources_and_syncs_refer_to_a_database(judge: Judge) -> None:
    checked = judge(SOUND)
    assert checked.errors == [] and checked.pipeline is not None
    pipeline = checked.pipeline
    assert databases_of(pipeline) == databases_of_sync(pipeline.syncs[0]) == {"shop"}
    assert Pipeline.model_validate_json(pipeline.model_dump_json()) == pipeline
    addressed = with_addresses(pipeline, {"shop": "postgresql://x/y"})
    assert addressed.topics[0].storage_config == {"dsn": "postgresql://x/y", "format": "row"}
    assert addressed.processors[0].config == {"dsn": "postgresql://x/y", "table": "customers"}
    assert addressed.syncs[0].source.config == {"dsn": "postgresql://x/y"}
    assert addressed.syncs[0].destination == pipeline.syncs[0].destination  # a server of its own


def test_a_database_without_an_address_is_not_taken_for_the_embedded_server(judge: Judge) -> None:
    pipeline = judge(SOUND).pipeline
    assert pipeline is not None
    graph = build_graph(pipeline)
    assert not graph.topics["orders"].embedded and not graph.processors["read"].embedded
    assert embedded_systems(pipeline.syncs) == []
    with pytest.raises(Unavailable, match='"shop" is not up'):
        address_of(PostgresServer(database="shop"), None)


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('"read"\nplugin = "pg-source"\ntarget = { topic = "customers" }\nconfig = { database = "shop"',
         '"read"\nplugin = "pg-source"\ntarget = { topic = "customers" }\nconfig = { database = "shpo"',
         24, 'processor "read": unknown database "shpo"'),
        ('"schema.sql"', '"missing.sql"', 4, "names a file that does not exist"),
        ('["-f", "schema.sql"]', "[]", 4, "psql has nothing to prepare"),
        ('kind = "psql"', 'kind = "flyway"', 4, "kind"),
        ('kind = "psql", args = ["-f", "schema.sql"]', 'kind = "migrations", args = ["none"]', 4, "a folder that does"),
        ('name = "shop"', 'name = "shop"\nowner = "me"', 4, 'unknown key "owner"'),
        (DATABASE, DATABASE + DATABASE, 7, "defined twice"),
        ('source = { connector = "postgres", database = "shop" }',
         'source = { connector = "postgres", database = "s" }',
         28, 'sync "copy": unknown database "s"'),
    ],
)  # fmt: skip
def test_a_fault_is_reported_with_its_line(judge: Judge, old: str, new: str, line: int, said: str) -> None:
    assert old in SOUND
    errors = judge(SOUND.replace(old, new, 1)).errors
    assert [(fault.line, said in fault.message) for fault in errors] == [(line, True)], errors


def test_a_database_without_references_is_a_warning(judge: Judge) -> None:
    [warning] = judge(DATABASE).warnings
    assert 'database "shop": nothing refers to it' in warning.message


def test_an_unknown_database_without_any_entry_says_how_to_name_a_server(judge: Judge) -> None:
    [fault] = judge(SOUND.replace(DATABASE, "", 1).replace('source = { connector = "postgres", database = "shop" }',
        'source = { connector = "postgres" }').replace('database = "shop", format', "format")).errors  # fmt: skip
    assert fault.expected == "a [[databases]] entry" and "host or dsn" in fault.hint
