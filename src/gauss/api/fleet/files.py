"""The check of a pipeline that is a whole file of Gauss."""

from __future__ import annotations

from fastapi import APIRouter

from gauss.api.fleet.models import Body
from gauss.fleet.config.file import PipelineFile, file_faults


class FileQuestion(Body, PipelineFile):
    """A file that is not saved."""


class FaultShown(Body):
    line: int
    column: int
    path: str
    """`processors[0].config.port`"""
    message: str
    expected: str
    found: str
    hint: str
    warning: bool


class FileValidation(Body):
    ok: bool
    faults: list[FaultShown]


def routes() -> APIRouter:
    router = APIRouter(prefix="/api", tags=["checks"])

    @router.post("/validate/file", summary="The faults of a pipeline file, with their lines")
    def validate(body: FileQuestion) -> FileValidation:
        found = file_faults(body.text)
        shown = [FaultShown(**{name: getattr(each, name) for name in FaultShown.model_fields}) for each in found]
        return FileValidation(ok=all(each.warning for each in found), faults=shown)

    return router
