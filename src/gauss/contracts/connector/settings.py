"""Settings that connectors have in common, and how a connector reads its own."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import Field, ValidationError

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.lifecycle import ConfigBlob, JsonConfig
from gauss.contracts.plugin import Bytes, PluginConfig

C = TypeVar("C", bound=PluginConfig)


class CheckpointThresholds(PluginConfig):
    """When a source makes a checkpoint: at the first of these. They start again at every checkpoint."""

    bytes: Annotated[Bytes, Field(gt=0)] = 64 << 20
    """Bytes since the last one."""
    rows: Annotated[int, Field(gt=0)] = 500_000
    """Rows since the last one."""
    secs: Annotated[float, Field(gt=0)] = 5.0
    """Seconds since the last one."""


def typed_config(blob: ConfigBlob, model: type[C]) -> C:
    """The config of a connector. The ConnectorError names keys and rules, but no values, which may be secrets."""
    if not isinstance(blob, JsonConfig):
        raise ConnectorError.config("BAD_CONFIG", "the config is expected as JSON")
    try:
        return model.model_validate(blob.value)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, each['loc'])) or 'config'}: {each['msg']}" for each in error.errors()]
        raise ConnectorError.config("BAD_CONFIG", "; ".join(faults)) from None
