"""Table topics over HTTP: what the table is, and how it follows its records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from gauss.api.stored import is_stored
from gauss.config.files import with_absolute_files
from gauss.contracts.storage import TopicKind
from gauss.model.errors import ConfigError, NotFound
from gauss.stream.control.run import Running
from gauss.stream.formats import topic_format

if TYPE_CHECKING:
    from gauss.config.spec import TopicDef

EVOLUTION = {
    "evolve": "Columns that the schema gains are added to the table; any other difference stops inserts and names the"
    " statement that resolves it.",
    "freeze": "A table that lacks a column of the schema stops inserts and names the statement that adds it.",
    "reject_row": "A record with a value for a column that the table lacks becomes a dead letter.",
    "drop_value": "Values for columns that the table lacks are dropped.",
}
IN_MEMORY = (
    "A row is the newest record of its key, whole: what new records have beside the old fields is there with them, and"
    " nothing is altered. Every change raises the version."
)

Row = dict[str, Any]


def routes(running: Running) -> APIRouter:
    router = APIRouter(prefix="/api/topics", tags=["topics"])

    @router.get("/{name}/table", summary="The table of a topic: columns, DDL, how it evolves, and the live differences")
    def table(name: str) -> Row:
        topic = next((each for each in running.pipeline.topics if each.name == name), None)
        if topic is None:
            raise NotFound(f'no topic "{name}"', hint="see GET /api/topics")
        if is_stored(running.pipeline, name):
            found = _stored(running, topic)
        elif topic.kind is TopicKind.TABLE:
            found = _in_memory(running, topic)
        else:
            raise ConfigError(
                f'topic "{name}" keeps records in order, and is no table',
                hint="read it with /query, /scan or /tail",
            )
        redacted: Row = running.redactor.redact_data(found)
        return redacted

    return router


def _stored(running: Running, topic: TopicDef) -> Row:
    from gauss.stream.tables import table_topic  # imports the table's client
    from gauss.tables.description import columns, live_differences

    base = running.config.absolute().parent
    found = table_topic(with_absolute_files(running.pipeline, base), topic.name, base, running.held.paths)
    policy = found.config.evolve
    return {
        "system": topic.storage,
        "key": list(found.reader.key),
        "time": found.reader.time,
        "attrs": found.reader.attrs,
        "columns": columns(found),
        "statement": found.store.statement(found.target),
        "evolve": policy,
        "evolution": EVOLUTION[policy],
        **live_differences(found),
    }


def _in_memory(running: Running, topic: TopicDef) -> Row:
    form = topic_format(running.pipeline, topic.name)
    deleted = topic.storage_config.get("delete_when")
    return {
        "system": topic.storage,
        "key": [topic.storage_config["key_field"]],
        "time": "",
        "attrs": {"format": form.name if form is not None else "", "delete_when": deleted or ""},
        "columns": [],
        "statement": "",
        "evolve": "",
        "evolution": IN_MEMORY,
        "differences": None,
        "verdict": f"a record with {deleted} deletes its key" if deleted else "no record deletes a key",
    }
