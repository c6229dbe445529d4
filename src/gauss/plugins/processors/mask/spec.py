"""mask: hides what some fields hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.plugins.processors.lints import needs_format, unknown_fields


class MaskConfig(PluginConfig):
    """Masks some fields; others are unchanged. Null and missing values stay null."""

    input: RecordIO
    """The format of the input records."""
    output: RecordIO | None = None
    """The format of the results. Default: the input format."""
    fields: Annotated[list[str], Field(min_length=1)]
    """The fields to mask, e.g. `["email", "card.number"]`."""
    method: Literal["redact", "hash", "partial", "null"] = "redact"
    """`redact` replaces text by `text`, `hash` by its SHA-256 in hexadecimal (equal values stay equal), `partial` keeps
    only the last `keep` characters, `null` replaces a value of any type by null."""
    text: str = "***"
    """With `redact`: the replacement."""
    salt: str = ""
    """With `hash`: a secret salt that prevents guessing values; use `${NAME}`."""
    keep: Annotated[int, Field(ge=0)] = 4
    """With `partial`: the number of characters to keep; a value that is not longer is masked completely."""

    @model_validator(mode="after")
    def _only_its_own_keys(self) -> MaskConfig:
        for key, method in (("text", "redact"), ("salt", "hash"), ("keep", "partial")):
            if key in self.model_fields_set and self.method != method:
                raise PydanticCustomError(
                    "key_of_another_method",
                    '"{key}" belongs to method = "{method}"',
                    {"key": key, "method": method},
                )
        return self


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """A missing format, and fields that the input format does not have."""
    assert isinstance(config, MaskConfig)
    return needs_format("mask", config.input) or unknown_fields("fields", config.fields, context)


EXAMPLE = """
[[processors]]
name = "mask"
plugin = "mask"
source = { topic = "quotes", read = "offset" }
target = { topic = "masked" }
config = { input = { format = "json" }, fields = ["email", "card.number"], method = "partial", keep = 4 }
"""

SPEC = ProcessorSpec(
    name="mask",
    summary="masks the values of some fields",
    config=MaskConfig,
    implementation="gauss.plugins.processors.mask.transform:Mask",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    reads=frozenset({"offset", "latest", "query"}),
    active=False,
    hosted=True,
    lint=lint,
    example=EXAMPLE,
)
