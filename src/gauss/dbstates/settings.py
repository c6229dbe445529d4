"""The settings of the engine, as `/v1/config` shows and changes them."""

from __future__ import annotations

import logging
from copy import deepcopy
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from gauss.model.errors import ConfigError, NotFound

log = logging.getLogger("gauss.dbstates")


class Section(BaseModel):
    """A group of settings; unknown names are rejected."""

    model_config = ConfigDict(extra="forbid")


class RuntimeSettings(Section):
    """Where servers run."""

    kind: Literal["process", "container"] = "process"
    """`process`: Postgres programs of this machine. `container`: an image, run by docker or podman."""
    postgres: str = ""
    """Folder of another Postgres's programs, such as `/usr/lib/postgresql/15/bin`. Empty: those that Gauss carries."""
    image: str = ""
    """Image of jobs that name none, with `container`."""


class ContainerSettings(Section):
    """How containers run."""

    runtime: Literal["auto", "docker", "podman"] = "auto"
    """The program that runs containers. `auto`: the first of podman and docker that answers."""
    memory: str = "2g"
    """Memory limit of a container; empty: none."""
    cpus: float = Field(default=2.0, ge=0)
    """CPU limit of a container; 0: none."""


class SnapshotSettings(Section):
    """How data directories are copied."""

    backend: Literal["auto", "btrfs", "reflink", "copy"] = "auto"
    """`auto`: what the file system of the store can do, in this order."""


class JobSettings(Section):
    """Limits of jobs."""

    maxIdentical: int = Field(default=2, ge=1)
    """Ended jobs that are kept per request; older ones are removed."""


class OrchestratorSettings(Section):
    """How jobs are run."""

    jobs: JobSettings = JobSettings()
    parallel: int = Field(default=8, ge=1, le=256)
    """Jobs that run at the same time."""
    statementTimeoutSecs: float = Field(default=0, ge=0)
    """Time limit of one statement of a script; 0: none but the job's deadline."""


class CapacitySettings(Section):
    """How much of the disk states may take."""

    maxBytes: int | None = Field(default=None, ge=0)
    """Bytes for states. Empty: what they take and what is free."""
    highWater: float = Field(default=0.90, gt=0, le=1)
    """Share of the capacity at which states are evicted."""
    lowWater: float = Field(default=0.80, gt=0, le=1)
    """Share of the capacity down to which states are evicted."""
    minStateAgeSecs: float = Field(default=600, ge=0)
    """Younger states are not evicted."""

    @model_validator(mode="after")
    def _marks_in_order(self) -> Self:
        if self.lowWater > self.highWater:
            raise ValueError(f"expected lowWater of at most highWater, found {self.lowWater} and {self.highWater}")
        return self


class CacheSettings(Section):
    """The cache of states."""

    capacity: CapacitySettings = CapacitySettings()


class WarmPoolSettings(Section):
    """Instances that are started before they are asked for."""

    size: int = Field(default=0, ge=0, le=256)
    """Instances kept ready per hot state; 0: none."""
    afterHits: int = Field(default=2, ge=1)
    """Hits after which a state is hot."""
    idleSecs: float = Field(default=600, gt=0)
    """A state that nobody has asked for this long is not hot any more."""


class InstanceSettings(Section):
    """Instances."""

    ttlSecs: float = Field(default=3600, gt=0)
    """An instance without connections is removed after this time."""
    warmPool: WarmPoolSettings = WarmPoolSettings()


class EngineSettings(Section):
    """The engine's process."""

    idleSecs: float = Field(default=900, gt=0)
    """An engine without instances, jobs and requests ends after this time."""


_OWN = frozenset(
    ["port", "listen_addresses", "unix_socket_directories", "hba_file", "ident_file", "data_directory", "config_file"]
)
"""Parameters that the engine sets for each server."""


def _parameter(name: str) -> str:
    if name.lower() in _OWN:
        raise ValueError(f"{name} is set by the engine for each server")
    return name


class Settings(Section):
    """All settings."""

    runtime: RuntimeSettings = RuntimeSettings()
    container: ContainerSettings = ContainerSettings()
    snapshot: SnapshotSettings = SnapshotSettings()
    orchestrator: OrchestratorSettings = OrchestratorSettings()
    cache: CacheSettings = CacheSettings()
    instances: InstanceSettings = InstanceSettings()
    engine: EngineSettings = EngineSettings()
    parameters: dict[Annotated[str, AfterValidator(_parameter)], str] = {}
    """Parameters of Postgres for every server, such as `work_mem`; they are a part of every state's key."""


def effective(stored: dict[str, Any]) -> Settings:
    """The settings with stored values, by dotted path, over the defaults. Raises ConfigError."""
    tree: dict[str, Any] = {}
    for path, value in deepcopy(stored).items():
        place = tree
        *parents, name = _names(path)
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{path}: {parent} is a value", hint="see /v1/config/schema")
        place[name] = value
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, each['loc']))}: {each['msg']} (got {each['input']!r})" for each in error.errors()
        ]
        raise ConfigError("; ".join(faults), hint="see /v1/config/schema, or gauss db config --schema") from None


def usable(stored: dict[str, Any]) -> dict[str, Any]:
    """Stored settings without those that are not valid, such as those of another version."""
    try:
        effective(stored)
        return stored
    except ConfigError:
        found: dict[str, Any] = {}
    for path, value in stored.items():
        try:
            effective({**found, path: value})
        except ConfigError as error:
            log.warning("the setting %s is not used: %s", path, error.message)
        else:
            found[path] = value
    return found


def _names(path: str) -> list[str]:
    """The names in a dotted path. That of a parameter may have dots itself."""
    group, dot, name = path.partition(".")
    return [group, name] if group == "parameters" and dot else path.split(".")


def at(tree: dict[str, Any], path: str) -> Any:
    """The value or group at a dotted path; the whole tree for an empty one."""
    found: Any = tree
    for name in _names(path) if path else ():
        if not isinstance(found, dict) or name not in found:
            raise NotFound(f"no setting {path}", hint="see /v1/config/schema, or gauss db config --schema")
        found = found[name]
    return found
