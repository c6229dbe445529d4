"""The kept modules of the guest kit are those of its sources, pass the gate, and can be built again."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import wasmtime

from gauss.connect.wasm.gate import IMPORTS, check_module

ROOT = Path(__file__).parents[3]
SDK = ROOT / "sdk"
MODULES = Path(os.environ.get("GAUSS_SDK_MODULES", SDK / "modules"))
ROLES = {
    "numbers": {"source"},
    "counter": {"source"},
    "totals": {"destination"},
    "probe": {"source", "destination"},
}
SUITES = ("test_sdk_types.py", "test_sdk_arrow.py", "test_sdk_host.py", "test_samples.py")


def sources() -> list[Path]:
    """What the modules are built from."""
    found = [SDK / "build.sh", *(each for folder in ("rust", "c") for each in (SDK / folder).rglob("*"))]
    return sorted(each for each in found if each.suffix in (".rs", ".c", ".h", ".sh"))


def test_committed_modules_match_their_sources() -> None:
    lines = (SDK / "modules/sources.sha256").read_text().splitlines()
    kept = {name: digest for digest, name in (line.split("  ") for line in lines)}
    now = {str(each.relative_to(SDK)): hashlib.sha256(each.read_bytes()).hexdigest() for each in sources()}
    changed = sorted(name for name in kept.keys() | now.keys() if kept.get(name) != now.get(name))
    assert not changed, f"{', '.join(changed)} changed: run sdk/build.sh"


def test_every_committed_module_is_tested() -> None:
    assert {each.stem for each in (SDK / "modules").glob("*.wasm")} == set(ROLES)


@pytest.mark.parametrize("name", ROLES)
def test_module_passes_the_gate_and_imports_only_host_functions(name: str) -> None:
    wasm = (MODULES / f"{name}.wasm").read_bytes()
    module = wasmtime.Module(wasmtime.Engine(), wasm)
    assert check_module(module, name) == ROLES[name]
    assert {(each.module, each.name) for each in module.imports} <= {("env", function) for function in IMPORTS}
    assert str(ROOT).encode() not in wasm and len(wasm) < 400_000


def test_readme_contains_the_sample_unchanged() -> None:
    readme = (SDK / "README.md").read_text()
    sample = (SDK / "rust/samples/numbers.rs").read_text()
    assert f"```rust\n{sample}```" in readme, "copy sdk/rust/samples/numbers.rs into sdk/README.md"
    assert len(sample.splitlines()) <= 60


def has_toolchain() -> bool:
    """Whether `sdk/build.sh` can run here."""
    clang = shutil.which("clang") and shutil.which("wasm-ld")
    return bool(clang) and any(map(_targets_wasm, ("/usr/bin/rustc", "rustc")))


def _targets_wasm(rustc: str) -> bool:
    command = [rustc, "--print", "target-libdir", "--target", "wasm32-unknown-unknown"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return False
    return Path(found).is_dir()


if has_toolchain():

    def test_steps_of_the_readme_build_a_source(tmp_path: Path) -> None:
        readme = (SDK / "README.md").read_text()
        (tmp_path / "sdk").symlink_to(SDK)
        (tmp_path / "numbers.rs").write_text(readme.split("```rust\n")[1].split("```")[0])
        steps = readme.split("```sh\n")[1].split("```")[0]
        # Debian's compiler comes first, as in build.sh: a rustup without the target may be in the PATH.
        environment = os.environ | {"PATH": f"/usr/bin:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-ec", steps], check=False, cwd=tmp_path, env=environment, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        module = wasmtime.Module(wasmtime.Engine(), (tmp_path / "numbers.wasm").read_bytes())
        assert check_module(module, "numbers") == {"source"}

    def test_rebuilt_modules_behave_like_the_committed_ones(tmp_path: Path) -> None:
        built = subprocess.run([SDK / "build.sh", tmp_path], check=False, capture_output=True, text=True)
        assert built.returncode == 0, built.stderr
        assert {each.stem for each in tmp_path.glob("*.wasm")} == set(ROLES)
        same = all(
            (SDK / f"modules/{name}.wasm").read_bytes() == (tmp_path / f"{name}.wasm").read_bytes() for name in ROLES
        )
        if same:
            return  # the other tests of the kit have run these very bytes
        suites = [str(Path(__file__).with_name(each)) for each in SUITES]
        gate = f"{__file__}::test_module_passes_the_gate_and_imports_only_host_functions"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *suites, gate]
        environment = os.environ | {"GAUSS_SDK_MODULES": str(tmp_path)}
        done = subprocess.run(command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
