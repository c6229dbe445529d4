"""Types and plugins: faults of single entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gauss.config.check import check_or_raise
from gauss.config.spec import Pipeline
from gauss.model.errors import ConfigError

if TYPE_CHECKING:
    from .conftest import Judge


def test_sound_config_has_no_faults_and_a_pipeline(judge: Judge, sound: str) -> None:
    checked = judge(sound)
    assert checked.faults == []
    assert checked.pipeline is not None
    assert [topic.name for topic in checked.pipeline.topics] == ["quotes"]


def test_pipeline_survives_json(judge: Judge, sound: str) -> None:
    text = sound + '[engine]\nmin_free_bytes = "1GiB"\n[spark]\ntarget_batch_ms = 100\n'
    pipeline = judge(text).pipeline
    assert pipeline is not None
    assert Pipeline.model_validate_json(pipeline.model_dump_json()) == pipeline


def test_unknown_key_names_the_nearest(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace('storage = "memory"', 'storage = "memory"\nstorge_config = {}')).errors
    assert fault.message == 'topic "quotes": unknown key "storge_config"'
    assert fault.hint == 'did you mean "storage_config"?'
    assert fault.line == 4


def test_unknown_key_deep_inside_a_plugin_config_has_its_line(judge: Judge, sound: str) -> None:
    broken = sound.replace("config = { port = 9100,", "config = {\n  port = 9100,\n  tls = {\n    crt = 'a' },")
    fault = judge(broken).errors[0]
    assert fault.message == 'processor "feed": unknown key "tls.crt"'
    assert (fault.line, fault.column) == (12, 5)
    assert fault.path == "processors[0].config.tls.crt"
    assert fault.hint == 'did you mean "cert"?'


def test_unknown_section_names_the_nearest(judge: Judge, sound: str) -> None:
    [fault] = judge(sound + "[sparc]\nmaster = 'local[*]'\n").errors
    assert fault.message == 'unknown section "sparc"'
    assert fault.hint == 'did you mean "spark"?'


def test_single_brackets_are_explained(judge: Judge) -> None:
    [fault] = judge("[topics]\nname = 'a'\nstorage = 'memory'\n").errors
    assert fault.hint == "write [[topics]] in double brackets"


def test_missing_key_says_what_is_expected(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace('storage = "memory"\n', "")).errors
    assert fault.message == 'topic "quotes": "storage" is missing'
    assert fault.expected == "text"
    assert fault.line == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [("'many'", 'a whole number or "unlimited"'), ("true", 'a whole number or "unlimited"'), ("-1", "greater than 0")],
)
def test_wrong_type_says_expected_and_found(judge: Judge, sound: str, value: str, expected: str) -> None:
    broken = sound.replace('storage = "memory"', f'storage = "memory"\nstorage_config = {{ storage_size = {value} }}')
    [fault] = judge(broken).errors
    assert fault.message == 'topic "quotes": "storage_size" is not valid'
    assert expected in fault.expected
    assert fault.found == value.replace("'", '"')


def test_wrong_choice_names_the_nearest(judge: Judge, sound: str) -> None:
    broken = sound.replace('storage = "memory"', 'storage = "memory"\nstorage_config = { write_full = "blok" }')
    [fault] = judge(broken).errors
    assert fault.expected == '"block", "drop" or "overwrite"'
    assert fault.hint == 'did you mean "block"?'


def test_bare_number_as_duration_is_refused_with_examples(judge: Judge, sound: str) -> None:
    broken = sound.replace('storage = "memory"', 'storage = "file"\nstorage_config = { fsync_interval = 5 }')
    [fault] = judge(broken).errors
    assert '"250ms"' in fault.expected
    assert fault.found == "5"


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("memory", "memry", 'topic "quotes": unknown storage "memry"'),
        ("tcp-sink", "tcp-snk", 'processor "out": unknown processor "tcp-snk"'),
    ],
)
def test_unknown_plugin_names_the_nearest(judge: Judge, sound: str, good: str, bad: str, message: str) -> None:
    [fault] = judge(sound.replace(f'"{good}"', f'"{bad}"')).errors
    assert fault.message == message
    assert fault.hint == f'did you mean "{good}"?'


def test_plugin_given_as_a_file_is_told_its_name(judge: Judge, sound: str) -> None:
    fault = judge(sound.replace('"tcp-sink"', '"./plugins/processor/tcp-sink.so"')).errors[0]
    assert fault.hint == 'use the name of a plugin, not a file; did you mean "tcp-sink"?'


def test_reserved_name_is_refused(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace('"quotes"', '"_quotes"')).errors
    assert fault.message == 'topic "_quotes": names that start with "_" are reserved'
    assert fault.line == 2


def test_file_that_is_missing_is_named(judge: Judge, sound: str) -> None:
    tls = 'tls = { cert = "nope.pem", key = "gone.pem" }, '
    faults = judge(sound.replace("port = 9100, ", f"port = 9100, {tls}")).errors
    assert [fault.path for fault in faults] == ["processors[0].config.tls.cert", "processors[0].config.tls.key"]
    assert faults[0].message == 'processor "feed": "cert" names a file that does not exist'
    assert faults[0].found.endswith('/nope.pem"')
    assert "folder of the config file" in faults[0].hint


def test_schema_map_without_its_script_is_refused(judge: Judge, sound: str) -> None:
    [fault] = judge(sound + '[[schema_maps]]\nname = "m"\nscript = "m.star"\n').errors
    assert fault.message == 'schema map "m": "script" names a file that does not exist'


def test_all_faults_are_reported_at_once_in_order(judge: Judge) -> None:
    checked = judge("""\
[[topics]]
name = "_a"
storage = "memry"

[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "a", extra = 1 }
config = { port = 70000, input = { format = "jsn", framing = "newlin" } }
retries = 3
""")
    assert checked.pipeline is None
    assert [(fault.line, fault.path) for fault in checked.errors] == [
        (2, "topics[0].name"),
        (3, "topics[0].storage"),
        (8, "processors[0].target.topic"),
        (8, "processors[0].target.extra"),
        (9, "processors[0].config.port"),
        (9, "processors[0].config.input.format"),
        (9, "processors[0].config.input.framing"),
        (10, "processors[0].retries"),
    ]


def test_check_or_raise_lists_every_fault(judge: Judge, sound: str) -> None:
    file = judge(sound.replace('"memory"', '"memry"').replace("9300", "'x'")).file
    with pytest.raises(ConfigError) as raised:
        check_or_raise(file)
    assert "has 2 errors" in raised.value.message
    assert f"{file}:3:1: " in raised.value.message


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ('[spark]\nmaster = "yarn"\n', '"local[*]", "local[4]" or "spark://host:port"'),
        ('[spark]\ndriver_memory = "much"\n', 'memory as Spark writes it, such as "512m" or "2g"'),
        ("[api]\nport = 70000\n", "less than or equal to 65535"),
        ('[engine]\nmin_free_bytes = "a lot"\n', 'bytes as a number, or a size such as "64MiB" or "2GB"'),
    ],
)
def test_sections_say_what_they_expect(judge: Judge, sound: str, section: str, expected: str) -> None:
    [fault] = judge(sound + section).errors
    assert fault.expected == expected
    assert fault.line == 17


def test_number_beyond_64_bits_is_refused_once(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace("9100", "1" + "0" * 30)).errors
    assert fault.expected == "an integer of 64 bits"
    assert fault.line == 9


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('framing = "newline"', 'framing = "newline", delimiter = ""', '— expected at least 1 character, found ""'),
        (
            'storage = "memory"',
            'storage = "file"\nstorage_config = { framing = "avro_container" }',
            'found "avro_container"; use "length_prefixed", which holds any record',
        ),
        (
            'storage = "memory"',
            'storage = "file"\nstorage_config = { framing = "fixed_size" }',
            'framing "fixed_size" needs frame_size, which is missing',
        ),
    ],
)
def test_a_fault_reads_as_one_sentence(judge: Judge, sound: str, old: str, new: str, said: str) -> None:
    fault = judge(sound.replace(old, new, 1)).errors[0]
    assert str(fault).endswith(said)


def test_an_empty_array_names_its_key(judge: Judge, sound: str) -> None:
    empty = '[[processors]]\nname = "m"\nplugin = "mask"\nsource = { topic = "quotes", read = "offset" }\n'
    empty += 'target = { topic = "quotes" }\nconfig = { input = { format = "json" }, fields = [] }\n'
    said = [str(fault) for fault in judge(sound + empty).errors]
    assert any('"fields" is not valid — expected at least 1 entry, found an empty array' in text for text in said)


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("port = 9100", 'port = "9100"', ("processors[0].config.port", "a whole number")),
        ("port = 9100", "port = 9100.0", ("processors[0].config.port", "a whole number")),
        ("port = 9100", "port = true", ("processors[0].config.port", "a whole number")),
        ("port =", 'max_connections = "5", port =', ("processors[0].config.max_connections", "a whole number")),
        (
            '"newline" }',
            '"fixed_size", frame_size = "4" }',
            ("processors[0].config.input.frame_size", "a whole number"),
        ),
        (
            'storage = "memory"',
            'storage = "memory"\nstorage_config = { storage_size = "50" }',
            ("topics[0].storage_config.storage_size", 'a whole number or "unlimited"'),
        ),
        ("plugin =", 'max_dead_ratio = "0.5"\nplugin =', ("processors[0].max_dead_ratio", "a number")),
        ("[[topics]]", '[api]\nport = "0"\n[[topics]]', ("api.port", "a whole number")),
        ("[[topics]]", '[spark]\ntarget_batch_ms = "100"\n[[topics]]', ("spark.target_batch_ms", "a whole number")),
    ],
)
def test_a_value_of_another_type_is_refused_not_converted(
    judge: Judge, sound: str, before: str, after: str, fault: tuple[str, str]
) -> None:
    [found] = judge(sound.replace(before, after, 1)).errors
    assert (found.path, found.expected) == fault
    assert found.found


def test_text_that_should_be_a_number_says_to_leave_out_the_quotes(judge: Judge, sound: str) -> None:
    [fault] = judge(sound.replace("port = 9100", 'port = "9100"')).errors
    assert str(fault).endswith('expected a whole number, found "9100"; write 9100 without quotes')


def test_a_whole_number_does_for_a_number(judge: Judge, sound: str) -> None:
    assert judge(sound.replace('plugin = "tcp-source"', 'plugin = "tcp-source"\nmax_dead_ratio = 1')).errors == []


def test_what_was_filled_in_is_text_and_becomes_a_number(
    judge: Judge, sound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEED_PORT", "9177")
    pipeline = judge(sound.replace("port = 9100", 'port = "${FEED_PORT}"')).pipeline
    assert pipeline is not None and pipeline.processors[0].config["port"] == "9177"
    monkeypatch.setenv("FEED_PORT", "many")
    [fault] = judge(sound.replace("port = 9100", 'port = "${FEED_PORT}"')).errors
    assert fault.expected == "a whole number"
