"""Loads message descriptors from descriptor sets or `.proto` sources, and maps their fields to field types."""

from __future__ import annotations

import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

from gauss.contracts.field_types import plain_type
from gauss.contracts.format import FieldType
from gauss.model.errors import ConfigError

_SCALARS = {
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_SINT64: "int64",
    FieldDescriptor.TYPE_SFIXED64: "int64",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_FIXED64: "uint64",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_SINT32: "int32",
    FieldDescriptor.TYPE_SFIXED32: "int32",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_FIXED32: "uint32",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
}
_WELL_KNOWN = {
    "google.protobuf.Timestamp": FieldType("timestamp", {"precision": 9}),
    "google.protobuf.Duration": FieldType("duration"),
}


def compile_proto(text: dict[str, str], name: str, import_dirs: list[Path]) -> bytes:
    """Compiles source texts, by file name, to a descriptor set; raises ConfigError with the compiler's message."""
    compiler = Path(sysconfig.get_path("scripts")) / "protoc"
    with tempfile.TemporaryDirectory() as folder:
        for file, content in text.items():
            path = Path(folder) / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        out = Path(folder) / "descriptor.out"
        ways = [f"-I{way}" for way in (folder, *import_dirs)]
        command = [str(compiler), *ways, "--include_imports", f"--descriptor_set_out={out}", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ConfigError(f"{name} can't be compiled: {done.stderr.strip()}", hint="check that protoc compiles it")
        return out.read_bytes()


def read_descriptor(path: Path) -> bytes:
    """The descriptor set in a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"descriptor {path} can't be read: {error.strerror}") from error


class MessageTypes:
    """The message types of a descriptor set."""

    def __init__(self, descriptor_set: bytes) -> None:
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set)
            self._pool = descriptor_pool.DescriptorPool()
            for file in files.file:
                self._pool.Add(file)
            self.files: list[FileDescriptor] = [self._pool.FindFileByName(file.name) for file in files.file]
        except Exception as error:  # protobuf raises its own and TypeErrors alike
            raise ConfigError(
                f"not a protobuf descriptor set: {error}", hint="make it with protoc --include_imports"
            ) from error

    def find(self, name: str) -> Descriptor:
        """A message by its full name, or by its short name if that is unique."""
        found = {d.full_name: d for file in self.files for d in _all(file.message_types_by_name.values())}
        if name in found:
            return found[name]
        near = [full for full in found if full.rsplit(".", 1)[-1] == name]
        if len(near) == 1:
            return found[near[0]]
        known = ", ".join(near or sorted(full for full in found if not full.startswith("google.protobuf.")))
        wrong = "is the name of several messages" if near else "is not a message of the descriptor"
        raise ConfigError(f'"{name}" {wrong}', hint=f"one of {known}")

    def by_indexes(self, indexes: list[int]) -> Descriptor | None:
        """The message of Confluent's indexes: its place in the last file, then in each message."""
        messages = list(self.files[-1].message_types_by_name.values())
        found = None
        for index in indexes:
            if not 0 <= index < len(messages):
                return None
            found = messages[index]
            messages = list(found.nested_types)
        return found


def _all(messages: Any) -> list[Descriptor]:
    return [d for message in messages for d in (message, *_all(message.nested_types))]


def wrapped(message: Descriptor) -> FieldDescriptor | None:
    """The one field of a wrapper such as `google.protobuf.Int64Value`: a scalar that may be absent."""
    if message.file.name == "google/protobuf/wrappers.proto":
        return message.fields_by_name["value"]
    return None


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def field_type(field: FieldDescriptor, above: tuple[str, ...] = ()) -> FieldType:
    """The type of a field; raises ConfigError for a message that holds itself."""
    if is_map(field):
        entry = field.message_type.fields_by_name
        inner = {side: plain_type(field_type(entry[side], above)) for side in ("key", "value")}
        return FieldType("map", inner)
    single = _single(field, above)
    return FieldType("array", {"element": plain_type(single)}) if field.is_repeated else single


def _single(field: FieldDescriptor, above: tuple[str, ...]) -> FieldType:
    message = field.message_type
    if field.enum_type is not None:
        return FieldType("enum", {"values": {value.name: value.number for value in field.enum_type.values}})
    if message is None:
        return FieldType(_SCALARS[field.type])
    if message.full_name in _WELL_KNOWN:
        return _WELL_KNOWN[message.full_name]
    if (inner := wrapped(message)) is not None:
        return FieldType(_SCALARS[inner.type])
    if message.full_name in above:
        raise ConfigError(
            f"message {message.full_name} holds itself (field {field.full_name}): columns can't be endless",
            hint="decode a message without that field, or keep the records as bytes",
        )
    inside = (*above, message.full_name)
    members = [{"name": inner.name, "type": plain_type(field_type(inner, inside))} for inner in message.fields]
    return FieldType("struct", {"fields": members})
