"""The command line of docker or podman."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from gauss.model.errors import ConfigError, NotFound, Unavailable

ANSWER_SECONDS = 10.0
CALL_SECONDS = 120.0
PULL_SECONDS = 900.0
_RESOLVE = r"""
postgres --version
echo "user $(while IFS=: read -r name _ uid gid _; do [ "$name" = postgres ] && echo "$uid:$gid"; done </etc/passwd)"
program=$(command -v postgres)
shared=$(pg_config --sharedir 2>/dev/null) || shared=${program%/*}/../share/postgresql
for file in "$shared"/extension/*.control; do
  while IFS= read -r line; do case "$line" in default_version*) echo "extension ${file##*/} $line";; esac; done <"$file"
done
"""


class ContainerCli:
    """One of the two programs; both have the commands that are used here."""

    def __init__(self, wanted: str) -> None:
        found = [name for name in (("podman", "docker") if wanted == "auto" else (wanted,)) if shutil.which(name)]
        self.program = next((name for name in found if self._answers(name)), "")
        if not self.program:
            raise Unavailable(
                f"no container runtime answers: {', '.join(found) or 'neither podman nor docker is installed'}",
                hint="install podman, start docker, or use the process runtime: gauss db config runtime.kind process",
            )

    def call(self, *words: str, seconds: float = CALL_SECONDS) -> str:
        """The output of a command. Raises Unavailable with its error."""
        try:
            done = subprocess.run(
                [self.program, *words],
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{self.program} {words[0]} took longer than {seconds:.0f} s", hint="try again") from None
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no error output"])[-1]
            raise Unavailable(f"{self.program} {words[0]} failed: {why}", hint=f"try {self.program} {words[0]} by hand")
        return done.stdout

    def image(self, name: str) -> dict[str, Any]:
        """What is known of an image, pulled if it is not here."""
        try:
            found = self.call("image", "inspect", name)
        except Unavailable:
            try:
                self.call("pull", "--quiet", name, seconds=PULL_SECONDS)
            except Unavailable as error:
                raise NotFound(f"no image {name}: {error.message}", hint="check its name, and log in") from error
            found = self.call("image", "inspect", name)
        return dict(json.loads(found)[0])

    def contents(self, image: str) -> tuple[str, str, dict[str, str]]:
        """Version of the server in an image, its user as `uid:gid`, default versions of its extensions."""
        told = self.call("run", "--rm", "--network=none", "--entrypoint=/bin/sh", image, "-c", _RESOLVE)
        version, user, extensions = "", "", {}
        for line in told.splitlines():
            if "(PostgreSQL)" in line:
                version = line.partition("(PostgreSQL) ")[2].split()[0]
            elif line.startswith("user "):
                user = line.removeprefix("user ").strip()
            elif line.startswith("extension "):
                name, _, setting = line.removeprefix("extension ").partition(" ")
                extensions[name.removesuffix(".control")] = setting.partition("'")[2].partition("'")[0]
        if not version or not user:
            raise ConfigError(
                f"image {image} has no Postgres with a user postgres", hint="use an image such as postgres"
            )
        return version, user, extensions

    def labelled(self, label: str) -> list[str]:
        """The ids of all containers with a label, running or not."""
        return self.call("ps", "-a", "--no-trunc", "--filter", f"label={label}", "--format", "{{.ID}}").split()

    def remove(self, containers: Sequence[str]) -> None:
        """Ends and removes containers; those that are gone do not matter."""
        for words in (["kill"], ["rm", "-f"]) if containers else ():  # podman's rm alone waits ten seconds
            command = [self.program, *words, *containers]
            subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)

    def is_running(self, container: str) -> bool:
        try:
            return self.call("inspect", "--format", "{{.State.Running}}", container).strip() == "true"
        except Unavailable:
            return False

    @staticmethod
    def _answers(program: str) -> bool:
        try:
            return not subprocess.run(
                [program, "ps", "-q"],
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
                timeout=ANSWER_SECONDS,
            ).returncode
        except (OSError, subprocess.TimeoutExpired):
            return False
