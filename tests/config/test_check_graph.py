"""Faults of the whole graph: names, roles, read modes, ports and cycles."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gauss.config.faults import Fault

    from .conftest import Judge

TABLE_PLUGIN = """
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.storage import Capacity, ReadMode, StorageSpec, WriteFull

class Config(PluginConfig):
    pass

SPEC = StorageSpec(
    name="table", summary="a table", config=Config, implementation="nowhere:Table", durable=False,
    read_modes=lambda _: frozenset({ReadMode.SNAPSHOT, ReadMode.SUBSCRIBE, ReadMode.QUERY}),
    capacity=lambda _: Capacity(None, None, WriteFull.BLOCK),
)
"""


@pytest.fixture
def table_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a storage for tables, which support neither `offset` nor `latest`."""
    (tmp_path / "gauss_test_table.py").write_text(TABLE_PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("gauss_test_table", None)
    return "gauss_test_table:SPEC"


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ('[[topics]]\nname = "quotes"\nstorage = "memory"\n', 'topic "quotes": this topic is defined twice'),
        (
            '[[formats]]\nname = "j"\nplugin = "json"\n[[formats]]\nname = "j"\nplugin = "json"\n',
            'format "j": this format is defined twice',
        ),
        (
            '[[processors]]\nname = "feed"\nplugin = "tcp-source"\ntarget = { topic = "quotes" }\n'
            'config = { port = 9101, input = { framing = "newline" } }\n',
            'processor "feed": this processor is defined twice',
        ),
    ],
)
def test_duplicate_name_points_at_the_first(judge: Judge, sound: str, added: str, message: str) -> None:
    [fault] = judge(sound + added).errors
    assert fault.message.startswith(message)
    assert "first in line" in fault.message


def test_unknown_topic_names_the_nearest(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace('source = { topic = "quotes"', 'source = { topic = "qoutes"')).errors
    assert fault.message == 'processor "out": unknown topic "qoutes"'
    assert fault.hint == 'did you mean "quotes"?'


def test_unknown_format_names_the_nearest(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace("input = {", 'input = { format = "jsn",')).errors
    assert fault.message == 'processor "feed": unknown format "jsn"'
    assert fault.hint == 'did you mean "json"?'


def test_format_plugin_without_an_entry_becomes_one(judge: Judge, sound: str) -> None:
    pipeline = judge(sound.replace("input = {", 'input = { format = "json",')).pipeline
    assert pipeline is not None
    found = pipeline.format("json")
    assert found is not None
    assert found.plugin == "json"


@pytest.mark.parametrize("broken", ["input = { }", "input = { delimiter = '\\n' }", "host = '127.0.0.1'"])
def test_missing_framing_at_a_source_is_said_once(judge: Judge, sound: str, broken: str) -> None:
    faults = judge(sound.replace('input = { framing = "newline" }', broken)).errors
    assert [fault.path for fault in faults] == ["processors[0].config.input.framing"]
    assert "a byte stream needs a framing" in faults[0].message
    assert "newline" in faults[0].expected


def test_missing_framing_at_a_sink_is_refused(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace('output = { framing = "newline" }', 'output = { format = "json" }')).errors
    assert fault.message.startswith('processor "out": "output.framing" is missing')


def test_unknown_framing_names_the_nearest(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace('output = { framing = "newline"', 'output = { framing = "newlin"')).errors
    assert fault.message == 'processor "out": unknown framing "newlin"'
    assert fault.hint == 'did you mean "newline"?'


def test_framing_parameter_that_does_not_belong_is_refused(judge: Judge, sound: str) -> None:
    broken = sound.replace('input = { framing = "newline" }', 'input = { framing = "newline", frame_size = 10 }')
    [fault] = judge(broken).errors
    assert fault.message == (
        'processor "feed": "frame_size" does not belong to framing "newline", which takes delimiter, encoding'
    )
    assert fault.path == "processors[0].config.input.frame_size"


def test_framing_parameter_that_is_missing_is_named(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace('input = { framing = "newline" }', 'input = { framing = "fixed_size" }')).errors
    assert fault.message == 'processor "feed": "frame_size" is missing'


TRANSFORM = """
[[topics]]
name = "calm"
storage = "file"

[[processors]]
name = "step"
plugin = "PLUGIN"
source = { topic = "quotes", read = "offset" }
target = { topic = "calm" }
config = { CONFIG }
"""


def transform(plugin: str, config: str, *, read: str = "offset", target: str = "calm") -> str:
    text = TRANSFORM.replace("PLUGIN", plugin).replace("CONFIG", config)
    return text.replace('read = "offset"', f'read = "{read}"').replace('{ topic = "calm"', f'{{ topic = "{target}"')


def test_framing_on_a_transform_is_refused_with_the_reason(judge: Judge, sound: str) -> None:
    config = 'input = { format = "json", framing = "newline" }, where = ".bid > 1"'
    [fault] = judge(sound + transform("filter", config)).errors
    assert '"framing" has no place on a transform' in fault.message
    assert "reframe" in fault.message
    assert fault.path == "processors[2].config.input.framing"


def test_reframe_takes_an_output_framing(judge: Judge, sound: str) -> None:
    text = sound + transform("reframe", 'output = { framing = "fixed_size", frame_size = 10 }')
    assert judge(text).errors == []


def test_reframe_without_its_framing_is_refused(judge: Judge, sound: str) -> None:
    [fault] = judge(sound + transform("reframe", "")).errors
    assert '"output.framing" is missing' in fault.message


def test_unknown_read_mode_names_the_nearest(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace('read = "offset"', 'read = "ofset"')).errors
    assert fault.message == 'processor "out": unknown read mode "ofset"'
    assert fault.hint == 'did you mean "offset"?'


def test_read_mode_that_the_storage_lacks_names_topic_processor_asked_and_supported(
    judge: Judge, sound: str, table_storage: str
) -> None:
    [fault] = judge(sound.replace('storage = "memory"', f'storage = "{table_storage}"')).errors
    assert fault.message.startswith('processor "out": topic "quotes"')
    assert 'can\'t be read by "offset"' in fault.message
    assert "a table keeps the newest row of each key" in fault.message
    assert fault.expected == "one of snapshot, subscribe"
    assert fault.found == '"offset"'


def test_read_mode_that_the_processor_lacks_is_refused(judge: Judge, sound: str) -> None:
    text = sound + transform("reframe", 'output = { framing = "fixed_size", frame_size = 10 }', read="latest")
    [fault] = judge(text).errors
    assert fault.message == 'processor "step": reframe can\'t read topic "quotes" by "latest"'
    assert fault.expected == "one of offset, query"


STORAGES = {
    "ring": 'storage = "memory"',
    "file": 'storage = "file"',
    "captures": 'storage = "file"\nstorage_config = { framing = "none" }',
    "table": 'storage = "memory"\nstorage_config = { mode = "table", format = "json", key_field = "k" }',
    "clickhouse": 'storage = "clickhouse"\nstorage_config = { format = "rows" }',
    "postgres": 'storage = "postgres"\nstorage_config = { format = "rows" }',
}
READERS = {
    "tcp-sink": 'port = 9300, output = { framing = "newline" }',
    "ws-sink": "port = 9300",
    "passthrough": "",
    "reframe": 'output = { framing = "newline" }',
    "filter": 'input = { format = "json" }, where = ".k > 1"',
    "sql": 'input = { format = "rows" }, query = "SELECT k FROM input"',
    "ohlc": 'input = { format = "rows" }, key_field = "k", price_field = "p", intervals = ["1m"]',
}
MODES = ("offset", "latest", "query", "snapshot", "subscribe", "raw", "ofset")


def read_faults(judge: Judge, plugin: str, storage: str, mode: str) -> list[Fault]:
    fields = 'fields = [{ name = "k", type = "string" }, { name = "p", type = "double" }]'
    text = f'[[formats]]\nname = "rows"\nplugin = "json"\nconfig = {{ {fields} }}\n'
    text += f'[[topics]]\nname = "t"\n{STORAGES[storage]}\n[[topics]]\nname = "out"\nstorage = "memory"\n'
    text += f'[[processors]]\nname = "p"\nplugin = "{plugin}"\nsource = {{ topic = "t", read = "{mode}" }}\n'
    text += "" if plugin.endswith("sink") else 'target = { topic = "out" }\n'
    text += f"config = {{ {READERS[plugin]} }}\n"
    return [fault for fault in judge(text).errors if fault.path == "processors[0].source.read"]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("plugin", READERS)
def test_a_wrong_read_mode_lists_exactly_the_modes_that_would_do(judge: Judge, plugin: str, storage: str) -> None:
    found = {mode: read_faults(judge, plugin, storage, mode) for mode in MODES}
    usable = [mode for mode, faults in found.items() if not faults]
    for faults in found.values():
        for fault in faults:
            elsewhere = storage in ("clickhouse", "postgres") and "keeps rows" in fault.message
            listed = [mode for mode in MODES if f'"{mode}"' in fault.hint] if elsewhere else fault.expected
            assert listed == (usable if elsewhere else f"one of {', '.join(usable)}" if usable else "")


def test_start_with_latest_is_refused(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace('read = "offset"', 'read = "latest", start = "end"')).errors
    assert fault.message.startswith('processor "out": "start" does not apply to read = "latest"')


def test_sink_start_with_latest_is_refused(judge: Judge, sound: str) -> None:
    broken = sound.replace('read = "offset"', 'read = "latest"').replace("port = 9300", 'port = 9300, start = "end"')
    [fault] = judge(broken).errors
    assert '"start" does not apply to read = "latest"' in fault.message


def test_start_that_is_no_place_is_refused(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace('read = "offset"', 'read = "offset", start = "earlyest"')).errors
    assert fault.expected == '"earliest", "end" or an offset >= 0'
    assert fault.hint == 'did you mean "earliest"?'


def test_two_listeners_on_one_port_are_refused(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace("9300", "9100")).errors
    assert fault.message == 'processor "out": port 9100 is used by processor "feed" in line 9'
    assert fault.line == 15


def test_listener_on_every_interface_clashes_with_one_on_loopback(judge: Judge, sound: str) -> None:
    wide = 'host = "0.0.0.0", allow = ["10.0.0.0/8"], port = 9100'
    [fault] = judge(sound.replace("port = 9300", wide)).errors
    assert "port 9100 is used" in fault.message


def test_api_port_clashes_too(judge: Judge, sound: str) -> None:
    [fault] = judge(sound + "[api]\nport = 9300\n").errors
    assert fault.message == '[api]: port 9300 is used by processor "out" in line 15'


def test_free_ports_and_clients_never_clash(judge: Judge, sound: str) -> None:
    assert judge(sound.replace("9300", "0").replace("9100", "0")).errors == []
    client = 'transport = "tcp-client", host = "127.0.0.1", port = 9100'
    assert judge(sound.replace("port = 9300", client)).errors == []


CYCLE = """
[[topics]]
name = "a"
storage = "memory"
[[topics]]
name = "b"
storage = "memory"
storage_config = { write_full = "FULL" }
[[processors]]
name = "there"
plugin = "passthrough"
source = { topic = "a", read = "offset" }
target = { topic = "b" }
[[processors]]
name = "back"
plugin = "passthrough"
source = { topic = "b", read = "READ" }
target = { topic = "a" }
"""


def test_cycle_of_blocking_topics_is_refused_once(judge: Judge) -> None:
    [fault] = judge(CYCLE.replace("FULL", "block").replace("READ", "offset")).errors
    assert fault.message.startswith('processor "back": it closes a cycle of topics that block when full: a → b → a')
    assert "write_full" in fault.hint


@pytest.mark.parametrize(("full", "read"), [("drop", "offset"), ("overwrite", "offset"), ("block", "latest")])
def test_cycle_that_gives_way_somewhere_is_allowed(judge: Judge, full: str, read: str) -> None:
    assert judge(CYCLE.replace("FULL", full).replace("READ", read)).errors == []


def test_topic_that_feeds_itself_is_a_cycle(judge: Judge, sound: str) -> None:
    text = (sound + transform("passthrough", "")).replace(
        'target = { topic = "calm" }', 'target = { topic = "quotes" }'
    )
    assert "quotes → quotes" in judge(text).errors[0].message


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ('target = { topic = "quotes" }\n', "", '"target" is missing: a source (tcp-source) needs one'),
        (
            'target = { topic = "quotes" }\n',
            'target = { topic = "quotes" }\nsource = { topic = "quotes", read = "offset" }\n',
            'a source (tcp-source) has no "source": it only writes to a topic',
        ),
        ('source = { topic = "quotes", read = "offset" }\n', "", '"source" is missing: a sink (tcp-sink) needs one'),
        (
            'plugin = "tcp-sink"\n',
            'plugin = "tcp-sink"\ntarget = { topic = "quotes" }\n',
            'a sink (tcp-sink) has no "target": it only reads from a topic',
        ),
    ],
)
def test_role_decides_source_and_target(judge: Judge, sound: str, good: str, bad: str, message: str) -> None:
    [fault] = judge(sound.replace(good, bad)).errors
    assert fault.message.endswith(message)


def test_topic_in_kafka_that_nobody_here_writes_is_no_warning(judge: Judge, sound: str) -> None:
    topic = '[[topics]]\nname = "of-others"\nstorage = "kafka"\nstorage_config = { brokers = ["127.0.0.1:9092"] }\n'
    assert judge(sound + topic).faults == []


def test_topic_that_nobody_writes_is_a_warning(judge: Judge, sound: str) -> None:
    checked = judge(sound + '[[topics]]\nname = "lonely"\nstorage = "memory"\n')
    assert checked.errors == []
    assert [fault.message for fault in checked.warnings] == ['topic "lonely": no processor writes to it']
    assert checked.pipeline is not None


def test_latest_reader_that_feeds_a_table_is_a_warning(judge: Judge, sound: str, table_storage: str) -> None:
    text = sound + transform("passthrough", "", read="latest").replace(
        'storage = "file"', f'storage = "{table_storage}"'
    )
    checked = judge(text)
    assert checked.errors == []
    assert 'the table "calm" would miss keys' in checked.warnings[0].message


def test_select_star_without_fields_is_refused_at_the_query(judge: Judge, sound: str) -> None:
    config = 'input = { format = "json" }, query = "SELECT * FROM input"'
    [fault] = judge(sound + transform("sql", config)).errors
    assert "SELECT *" in fault.message
    assert fault.path == "processors[2].config.query"


def test_select_star_with_fields_is_allowed(judge: Judge, sound: str) -> None:
    formats = '[[formats]]\nname = "q"\nplugin = "json"\nconfig = { fields = [{ name = "a", type = "int64" }] }\n'
    config = 'input = { format = "q" }, query = "SELECT * FROM input"'
    assert judge(formats + sound + transform("sql", config)).errors == []


def test_unknown_schema_map_is_refused(judge: Judge, sound: str) -> None:
    broken = sound.replace('storage = "memory"', 'storage = "memory"\nstorage_config = { schema_map = "m" }')
    assert any("schema_map" in fault.message for fault in judge(broken).errors)


def test_empty_config_is_a_fault(judge: Judge) -> None:
    [fault] = judge("").errors
    assert fault.message == "there is no [[processors]] entry, so nothing would run"
    assert fault.hint == "create one with gauss new"


def test_tables_alone_are_not_said_to_do_nothing(judge: Judge) -> None:
    checked = judge('[[topics]]\nname = "t"\nstorage = "clickhouse"\n')
    assert checked.errors == []
    assert [warning.message for warning in checked.warnings if "nothing would run" in warning.message] == []


def test_cluster_that_cannot_reach_the_engine_is_a_warning(judge: Judge, sound: str) -> None:
    checked = judge(sound + '[spark]\nmaster = "spark://10.0.0.5:7077"\n')
    assert checked.errors == []
    assert "can't reach the topics on 127.0.0.1" in checked.warnings[0].message
    assert judge(sound + '[spark]\nmaster = "spark://127.0.0.1:7077"\n').warnings == []


def test_two_topics_in_one_folder_are_refused(judge: Judge) -> None:
    topic = '[[topics]]\nname = "NAME"\nstorage = "file"\nstorage_config = { data_dir = "FOLDER" }\n'
    text = topic.replace("NAME", "a").replace("FOLDER", "logs") + topic.replace("NAME", "b")
    [fault] = judge(text.replace("FOLDER", "./x/../logs")).errors
    assert fault.message == 'topic "b": it uses the folder of topic "a"'
    assert judge(text.replace("FOLDER", "other")).errors == []


def test_a_name_that_is_given_twice_is_offered_once(judge: Judge, sound: str) -> None:
    twice = sound.replace("[[processors]]", '[[topics]]\nname = "quotes"\nstorage = "memory"\n\n[[processors]]', 1)
    faults = judge(twice.replace('source = { topic = "quotes"', 'source = { topic = "other"')).errors
    assert [fault.expected for fault in faults if "unknown topic" in fault.message] == ["one of quotes"]


def test_framing_auto_is_for_sources_alone(judge: Judge, sound: str) -> None:
    assert judge(sound.replace('input = { framing = "newline" }', 'input = { framing = "auto" }')).errors == []
    [fault] = judge(sound.replace('output = { framing = "newline" }', 'output = { framing = "auto" }')).errors
    assert fault.message.endswith('framing "auto" can only read; a sink needs one that can write')
    assert "newline" in fault.hint


def test_a_buffer_budget_below_two_records_is_refused(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace("port = 9100,", 'port = 9100, max_buffer_bytes = "16MiB",')).errors
    assert "expected at least twice max_record_bytes" in fault.message
