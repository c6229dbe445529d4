"""Servers in containers of docker or podman: one per instance, which outlives a stop of its server."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable
from pathlib import Path

from gauss.clients.postgres.binaries import RunAs
from gauss.dbstates.planning.plan import Command, Connection, digest
from gauss.dbstates.runtimes.container_cli import ContainerCli
from gauss.dbstates.runtimes.installation import INITDB
from gauss.dbstates.runtimes.process import MARK, PORT_TRIES, host_tool, tuned
from gauss.dbstates.runtimes.runtime import DATABASE, HOST, STOP_SECONDS, USER, Build, Launch, Server, ToolCall
from gauss.dbstates.runtimes.sockets import Sockets
from gauss.dbstates.runtimes.waiting import wait_ready, wait_until_true
from gauss.dbstates.settings import ContainerSettings
from gauss.dbstates.store.metadata import Metadata
from gauss.model.errors import ConfigError, GaussError, StorageError
from gauss.process.ports import free_port

PGDATA = "/var/lib/postgresql/data"
INSIDE = "/gauss"
"""Where the folder of the instance's socket is mounted."""
LABEL, INSTANCE_LABEL = "gauss.states", "gauss.instance"
TELL_SECONDS = 2.0
TOOLS = frozenset({"psql", "pgbench"})
"""Programs of the image; other tools run on this machine."""
_ENTRY = f"""
# Runs the server when it is asked to, and stays when the server has stopped.
run() {{ ( "$@" >>{INSIDE}/log 2>&1; echo $? >{INSIDE}/exit ) & }}
run "$@"
while :; do
  read -r word <{INSIDE}/control || continue
  case "$word" in
    start) run "$@" ;;
    stop) read -r pid <{PGDATA}/postmaster.pid && kill -INT "$pid" ;;
  esac
done
"""


class ContainerServer:
    """A server in a container."""

    def __init__(self, cli: ContainerCli, container: str, folder: Path, port: int) -> None:
        self._cli = cli
        self.runtime_id = container
        self.socket, self.port = folder, port

    def died(self) -> str:
        if (self.socket / "exit").exists():
            return f"Postgres ended with exit code {self._text('exit').strip()}{self._fatal()}"
        address = self.socket / f".s.PGSQL.{self.port}"
        if not address.exists():
            return ""  # it is starting
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(address))
            except ConnectionRefusedError:
                return "" if self._cli.is_running(self.runtime_id) else "its container is gone"
            except OSError:
                return ""
        return ""

    def stop(self) -> None:
        self.tell("stop")
        if not wait_until_true((self.socket / "exit").exists, STOP_SECONDS):
            self.kill()
            raise StorageError(f"Postgres did not stop within {STOP_SECONDS:.0f} s", hint="try again")

    def kill(self) -> None:
        self._cli.remove([self.runtime_id])
        (self.socket / "exit").write_text("137\n")

    def tell(self, word: str) -> None:
        """Asks the container's first process for something."""

        def told() -> bool:
            try:
                pipe = os.open(self.socket / "control", os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # it does not read at this moment
                return False
            with os.fdopen(pipe, "w") as control:
                control.write(f"{word}\n")
            return True

        if not wait_until_true(told, TELL_SECONDS):
            raise StorageError("the container of the instance is gone", hint="prepare another one")

    def port_taken(self) -> bool:
        return "Address already in use" in self._text("log")

    def _text(self, name: str) -> str:
        try:
            return (self.socket / name).read_text(errors="replace")
        except OSError:
            return ""

    def _fatal(self) -> str:
        lines = [line for line in self._text("log").splitlines() if "FATAL:" in line or "PANIC:" in line]
        return f": {lines[-1].partition(':  ')[2]}" if lines else ""


class ContainerRuntime:
    """Implements `Runtime`."""

    name = "container"

    def __init__(self, metadata: Metadata, store: str, settings: ContainerSettings) -> None:
        self._cli = ContainerCli(settings.runtime)
        self._settings, self._store = settings, store
        self._sockets = Sockets(metadata, RunAs(os.geteuid(), os.getegid(), changed=False))
        self._builds: dict[str, Build] = {}

    def resolve(self, image: str) -> Build:
        if not image:
            raise ConfigError("no image is named", hint="gauss db config runtime.image postgres:18, or --image")
        found = self._cli.image(image)
        known = found.get("RepoDigests") or []
        exact = str(known[0] if known else found["Id"])
        if exact not in self._builds:
            version, user, extensions = self._cli.contents(exact)
            base = digest("base", "container", exact, " ".join(INITDB))
            self._builds[exact] = Build("postgres", version, base, exact, self.name, exact, extensions, user)
        return self._builds[exact]

    def has_digest(self, image: str) -> bool:
        return "@sha256:" in image or image.startswith("sha256:")

    def create_base(self, build: Build, data: Path) -> None:
        data.chmod(0o700)
        if os.geteuid() == 0:
            uid, gid = build.user.split(":")
            os.chown(data, int(uid), int(gid))
        flags = (*self._as_server(build), "--network=none", f"--volume={data}:{PGDATA}", "--entrypoint=initdb")
        self._cli.call("run", "--rm", *flags, build.place, "-D", PGDATA, *INITDB)

    def start(self, build: Build, launch: Launch) -> Server:
        for _ in range(PORT_TRIES):
            server = self._run(build, launch, free_port(wanted=launch.port))
            try:
                wait_ready(server.socket, server.port, launch.password, server.died)
                return server
            except GaussError:
                taken = server.port_taken()
                server.kill()
                if not taken:
                    raise
        raise StorageError(f"no free port after {PORT_TRIES} tries", hint="end programs that hold ports")

    def resume(self, build: Build, launch: Launch, server: Server) -> Server:
        assert isinstance(server, ContainerServer)
        if not self._cli.is_running(server.runtime_id):
            return self.start(build, launch)
        (server.socket / "exit").unlink(missing_ok=True)
        server.tell("start")
        wait_ready(server.socket, server.port, launch.password, server.died)
        return server

    def attach(self, instance: str, runtime_id: str, port: int) -> Server | None:
        if not runtime_id or not self._cli.is_running(runtime_id):
            return None
        return ContainerServer(self._cli, runtime_id, self._sockets.folder(instance), port)

    def tool(self, build: Build, server: Server, command: Command, files: Iterable[Path]) -> ToolCall:
        if command.argv[0] not in TOOLS:
            return host_tool(command, "", self._store)
        name = f"gauss-tool-{secrets.token_hex(8)}"
        env = {key: value for key, value in command.env.items() if key not in ("PATH", "HOME", "PGPASSFILE")}
        env |= {"PGHOST": INSIDE, "PGPORT": str(server.port), "PGUSER": USER, "PGDATABASE": env["PGDATABASE"]}
        argv = [
            *(self._cli.program, "run", "--rm", "-i", f"--name={name}", f"--label={LABEL}={self._store}"),
            *(*self._as_engine(), "--network=none", f"--volume={server.socket}:{INSIDE}"),
            *(f"--volume={folder}:{folder}:ro" for folder in mounted({command.cwd, *(f.parent for f in files)})),
            *(f"--env={key}" for key in sorted(env)),  # their values are in the environment, not in a command line
            *(f"--workdir={command.cwd}", f"--entrypoint={command.argv[0]}", build.place, *command.argv[1:]),
        ]
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "CONTAINERS_CONF") if key in os.environ}
        return ToolCall(
            argv, {**env, **kept, MARK: self._store}, Path("/"), command.stdin, lambda: self._cli.remove([name])
        )

    def connection(self, server: Server, passfile: Path, *, network: bool) -> Connection:
        del network
        return Connection(HOST, server.port, USER, DATABASE, passfile)

    def end_leftovers(self, kept: set[str]) -> list[str]:
        left = [each for each in self._cli.labelled(f"{LABEL}={self._store}") if each not in kept]
        self._cli.remove(left)
        return left

    def forget(self, instance: str) -> None:
        self._cli.remove(self._cli.labelled(f"{INSTANCE_LABEL}={instance}"))
        self._sockets.remove(instance)

    def forget_others(self, kept: set[str]) -> None:
        self._sockets.remove_others(kept)

    def _run(self, build: Build, launch: Launch, port: int) -> ContainerServer:
        folder = self._sockets.make(launch.instance, build.version)
        for name in ("exit", "control", "log"):
            (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / "control", 0o600)
        if os.geteuid() == 0:
            uid, gid = map(int, build.user.split(":"))
            for path in (folder, *folder.iterdir()):
                os.chown(path, uid, gid)
        settings = {
            **tuned(build.version),
            **launch.settings,
            "listen_addresses": HOST,
            "unix_socket_directories": INSIDE,
            "hba_file": f"{INSIDE}/pg_hba.conf",
            "ident_file": f"{INSIDE}/pg_ident.conf",
        }
        server = ["postgres", "-D", PGDATA, "-p", str(port)]
        for name, value in settings.items():
            server += ["-c", f"{name}={value}"]
        limits = [f"--memory={self._settings.memory}"] if self._settings.memory else []
        limits += [f"--cpus={self._settings.cpus}"] if self._settings.cpus else []
        container = self._cli.call(
            *("run", "--detach", f"--label={LABEL}={self._store}", f"--label={INSTANCE_LABEL}={launch.instance}"),
            *(*self._as_server(build), *limits, "--network=host", f"--env=PGDATA={PGDATA}"),
            *(f"--volume={launch.data}:{PGDATA}", f"--volume={folder}:{INSIDE}", "--entrypoint=/bin/sh"),
            *(build.place, "-c", _ENTRY, "server", *server),
        ).strip()
        return ContainerServer(self._cli, container, folder, port)

    def _as_server(self, build: Build) -> list[str]:
        """The owner of the data directory: the image's postgres, or without root this user."""
        return [f"--user={build.user}"] if os.geteuid() == 0 else self._as_engine()

    def _as_engine(self) -> list[str]:
        """This user, whom the server knows by its socket."""
        keep = ["--userns=keep-id"] if self._cli.program == "podman" and os.geteuid() else []
        return [*keep, f"--user={os.geteuid()}:{os.getegid()}"]


_OF_THE_IMAGE = ("/", "/bin", "/etc", "/lib", "/lib64", "/usr", "/var", "/proc", "/sys", "/dev", INSIDE)


def mounted(folders: set[Path]) -> list[Path]:
    """The folders to mount, without those inside others. They keep their paths, which scripts may name."""
    wanted = sorted(folder for folder in folders if str(folder) != "/")
    for folder in wanted:
        if str(folder) in _OF_THE_IMAGE:
            raise ConfigError(f"{folder} can't be mounted into a container", hint="move the scripts to another folder")
    return [each for each in wanted if not any(parent in each.parents for parent in wanted)]
