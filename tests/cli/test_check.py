from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Gauss

SOUND = """\
[[topics]]
name = "quotes"
storage = "memory"
[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "quotes" }
config = { port = PORT, input = { framing = "newline" } }
[[processors]]
name = "out"
plugin = "tcp-sink"
source = { topic = "quotes", read = "offset" }
config = { port = 0, output = { framing = "newline" } }
"""

FILTER = """\
[[topics]]
name = "kept"
storage = "file"
[[processors]]
name = "keep"
plugin = "filter"
source = { topic = "quotes", read = "offset" }
target = { topic = "kept" }
config = { input = { format = "json" }, where = ".bid > 1" }
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "gauss.toml"
    file.write_text(SOUND.replace("PORT", "0"))
    return file


@pytest.mark.usefixtures("config")
def test_sound_config_exits_0_with_a_mark_per_phase_and_a_line_per_sink(gauss: Gauss) -> None:
    done = gauss("check")
    assert done.returncode == 0, done.stderr
    assert "✓ config" in done.stdout
    assert "✓ graph       1 topic, 2 processors, without Spark" in done.stdout
    assert "✓ disk" in done.stdout
    assert "out  may lose what was in memory when the engine died: quotes" in done.stdout
    assert "java" not in done.stdout


def test_faults_exit_1_with_file_and_line(gauss: Gauss, config: Path) -> None:
    config.write_text(
        SOUND.replace("PORT", "0").replace('"memory"', '"memry"').replace('read = "offset"', 'read = "x"')
    )
    done = gauss("check", "gauss.toml")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == 'gauss.toml:3:1: topic "quotes": unknown storage "memry"; did you mean "memory"?'
    assert lines[1].startswith('gauss.toml:12:30: processor "out": unknown read mode "x" — expected one of offset, ')
    assert lines[2] == "✗ config      2 errors in gauss.toml"
    assert "Traceback" not in done.stderr


def test_json_is_one_document(gauss: Gauss, config: Path) -> None:
    config.write_text(SOUND.replace("PORT", "'x'"))
    done = gauss("check", "--json", "--offline")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert said["ok"] is False
    assert said["faults"] == [
        {
            "file": "gauss.toml",
            "line": 8,
            "column": 12,
            "path": "processors[0].config.port",
            "message": 'processor "feed": "port" is not valid',
            "expected": "a whole number",
            "found": '"x"',
            "hint": "",
            "warning": False,
        }
    ]
    assert [(phase["name"], phase["mark"]) for phase in said["phases"]] == [("config", "fail")]


def test_json_of_a_sound_config_names_the_guarantees(gauss: Gauss, config: Path) -> None:
    said = json.loads(gauss("check", str(config), "--json", "--offline").stdout)
    assert said["ok"] is True
    [promise] = said["guarantees"]
    assert promise["end"] == "out"
    assert promise["exactly_once"] is False


def test_warning_exits_0(gauss: Gauss, config: Path) -> None:
    config.write_text(config.read_text() + '[[topics]]\nname = "lonely"\nstorage = "memory"\n')
    done = gauss("check", "--offline")
    assert done.returncode == 0
    assert 'warning: topic "lonely": no processor writes to it' in done.stdout
    assert "~ config" in done.stdout


def test_port_in_use_exits_1_unless_offline(gauss: Gauss, config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config.write_text(SOUND.replace("PORT", str(taken.getsockname()[1])))
        done = gauss("check")
        assert done.returncode == 1
        assert '✗ ports       processor "feed" can\'t listen on 127.0.0.1:' in done.stdout
        assert gauss("check", "--offline").returncode == 0


def test_java_is_asked_for_only_with_spark(gauss: Gauss, config: Path, tmp_path: Path) -> None:
    config.write_text(SOUND.replace("PORT", "0") + FILTER)
    done = gauss("check", JAVA_HOME=str(tmp_path / "no-java"))
    assert done.returncode == 1
    assert "✗ java" in done.stdout
    assert "install Java 17" in done.stdout


def test_secret_never_prints(gauss: Gauss, config: Path) -> None:
    config.write_text(SOUND.replace("PORT", '"${THE_PORT}"').replace('"quotes"', '"${THE_TOPIC}"'))
    for arguments in (["check"], ["check", "--json"], ["graph"], ["graph", "--json"], ["graph", "-f", "svg"]):
        done = gauss(*arguments, THE_PORT="not-a-port-hunter2", THE_TOPIC="topic-hunter3")
        assert "hunter" not in done.stdout + done.stderr, arguments
        done = gauss(*arguments, THE_PORT="0", THE_TOPIC="topic-hunter3")
        assert done.returncode == 0
        assert "hunter" not in done.stdout + done.stderr, arguments


def test_missing_file_is_a_sentence_and_a_hint(gauss: Gauss) -> None:
    done = gauss("check", "nope.toml")
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["error: nope.toml does not exist", "hint: create one with gauss new"]
    said = json.loads(gauss("check", "nope.toml", "--json").stdout)
    assert said["error"]["code"] == "config"


def test_unknown_command_exits_2_and_names_the_nearest(gauss: Gauss) -> None:
    done = gauss("chek")
    assert done.returncode == 2
    assert "Did you mean 'check'" in done.stderr


def test_help_lists_every_command_and_the_exit_codes(gauss: Gauss) -> None:
    said = gauss("--help").stdout
    for name in ("run", "check", "graph", "new", "tap", "dlq"):
        assert re.search(rf"\b{name}\b", said)
    assert "130 interrupted" in said


def test_version_is_printed(gauss: Gauss) -> None:
    assert re.fullmatch(r"gauss \d+\.\d+\.\d+\n", gauss("--version").stdout)


def test_transforms_that_do_not_fit_their_formats_are_faults(gauss: Gauss, config: Path) -> None:
    """One check reports all of them; the driver would find them one by one."""
    convert = FILTER.replace('"filter"', '"format-convert"').replace(
        'where = ".bid > 1"', 'output = { format = "msgpack" }'
    )
    enrich = convert.replace('"keep"', '"add"').replace('"format-convert"', '"enrich"').partition("[[processors]]")[2]
    enrich = "[[processors]]" + enrich.replace('"msgpack" }', '"msgpack" }, add = { a = 1 }')
    config.write_text(SOUND.replace("PORT", "0") + convert + enrich)
    done = gauss("check")
    assert done.returncode == 1
    assert '✗ transforms  keep: neither "json" nor "msgpack" says which fields there are; give' in done.stdout
    assert "✗ transforms  add: " in done.stdout
    config.write_text(SOUND.replace("PORT", "0") + FILTER)
    assert "✓ transforms  all match their formats" in gauss("check").stdout


def test_sinks_that_cannot_convert_are_faults(gauss: Gauss, config: Path) -> None:
    """Also in a pipeline without Spark."""
    formats = '[[formats]]\nname = "quote"\nplugin = "csv"\nconfig = { fields = [{ name = "a", type = "string" }] }\n'
    formats += '[[formats]]\nname = "out"\nplugin = "json"\nconfig = { fields = [{ name = "b", type = "string" }] }\n'
    sound = SOUND.replace("PORT", "0").replace(
        'input = { framing = "newline" }', 'input = { framing = "newline", format = "quote" }'
    )
    sink = 'output = { framing = "newline", format = "FORMAT" }'
    sound = formats + sound.replace('output = { framing = "newline" }', sink)
    config.write_text(sound.replace("FORMAT", "out"))
    done = gauss("check")
    assert done.returncode == 1
    assert "✗ transforms  out: the output format writes b, which the input format does not have" in done.stdout
    config.write_text(sound.replace("FORMAT", "msgpack"))
    assert "✓ transforms  all match their formats" in gauss("check").stdout
    config.write_text(sound.replace("FORMAT", "quote"))
    assert "transforms" not in gauss("check").stdout


def test_a_script_that_no_topic_uses_is_checked(gauss: Gauss, config: Path) -> None:
    config.write_text(SOUND.replace("PORT", "0") + '[[schema_maps]]\nname = "m"\nscript = "m.star"\n')
    script = config.with_name("m.star")
    script.write_text("fn map_schema(source, target) { target }\n")
    done = gauss("check", "--offline")
    assert done.returncode == 1
    assert "✗ schema_maps m: " in done.stdout and "scripts are Starlark" in done.stdout
    script.write_text("def map_schema(source, target):\n    return target\n")
    assert gauss("check", "--offline").returncode == 0


def test_check_imports_nothing_heavy(config: Path) -> None:
    """`gauss check` stays within half a second, because it imports neither Spark nor Arrow nor what other commands
    need."""
    config.write_text(SOUND.replace("PORT", "0") + FILTER)
    code = (
        "import sys\nfrom gauss.cli.main import main\n"
        f"try: main(['check', '--offline', {str(config)!r}])\n"
        "except SystemExit as end: assert not end.code\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    roots = {module.partition(".")[0] for module in done.stderr.split()}
    assert "gauss" in roots
    assert not roots & {"pyspark", "pyarrow", "numpy", "pandas", "polars", "numba", "httpx", "fastapi", "rich"}
