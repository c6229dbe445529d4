"""What a client asks for."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from gauss.dbstates.planning.plan import digest

PrepareKind = Literal["psql", "migrations", "alembic", "liquibase"]


class PrepareRequest(BaseModel):
    """A state to prepare."""

    model_config = ConfigDict(extra="forbid")

    prepare_kind: PrepareKind = "psql"
    """The system of scripts."""
    args: list[str]
    """Its arguments, such as `-f schema.sql`."""
    cwd: str = Field(pattern="^/")
    """The absolute folder that relative paths start from."""
    image: str = ""
    """Another Postgres: the folder of its programs, or an image with the container runtime."""
    env: dict[str, str] = Field(default={}, repr=False)
    """The environment that scripts may read. It is never stored."""
    plan_only: bool = False
    """Plan, but execute nothing."""
    deadline_secs: float | None = Field(None, gt=0)
    """The job fails if it takes longer."""
    held_by: str = Field("", pattern="^(/.*)?$")
    """A file on which the client holds a lock (`flock`): the job, and the life of its instance, end with that lock.
    Default: an instance ends by `instances.ttlSecs`."""

    @property
    def signature(self) -> str:
        """Equal for identical requests."""
        return digest(self.prepare_kind, json.dumps(self.args), self.cwd, self.image, str(self.plan_only))

    def stored(self) -> dict[str, object]:
        return self.model_dump(exclude={"env"})
