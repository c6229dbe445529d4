"""The JSON form of the protocol's types.

Structs are objects, enums without fields are snake_case strings, other enums are externally tagged (`{"int64": 5}`),
bytes are base64. Unknown keys are ignored, so that later versions can add some.
"""

from __future__ import annotations

import inspect
from typing import Annotated, Any, ClassVar, TypeVar, cast, dataclass_transform, get_type_hints

import msgspec

T = TypeVar("T")

U32 = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
U64 = Annotated[int, msgspec.Meta(ge=0)]
I32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
I64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


@dataclass_transform(frozen_default=True)
class Variant:
    """Base of an enum with fields. A direct subclass is an enum; a subclass of that, with a `tag`, is a variant of it,
    whose annotations are its fields.

    A variant without fields is its tag; one with a single field is `{tag: value}`; one with several fields, or with
    `inline = False`, is `{tag: {field: value}}`. Not a dataclass: msgspec would write it as a plain object.
    """

    TAGS: ClassVar[dict[str, type[Variant]]]
    TAG: ClassVar[str] = ""
    INLINE: ClassVar[bool] = True

    def __init_subclass__(cls, tag: str = "", inline: bool = True) -> None:
        if not tag:
            cls.TAGS = {}
            return
        cls.TAG, cls.INLINE = tag, inline
        cls.TAGS[tag] = cls

    def __init__(self, *values: Any, **named: Any) -> None:
        names = list(inspect.get_annotations(type(self)))
        given = dict(zip(names, values, strict=False)) | named
        if len(values) > len(names) or given.keys() != set(names):
            raise TypeError(f"{type(self).__name__} takes {', '.join(names) or 'nothing'}")
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self.TAG, repr(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def to_json(self) -> Any:
        """The value as JSON types."""
        fields = {name: _plain(value) for name, value in vars(self).items()}
        if not fields:
            return self.TAG
        return {self.TAG: next(iter(fields.values())) if self.INLINE and len(fields) == 1 else fields}

    @classmethod
    def from_json(cls, value: Any) -> Variant:
        """The variant that JSON types describe; raises ValidationError."""
        tag, content = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else (value, None)
        found = cls.TAGS.get(tag) if isinstance(tag, str) else None
        if found is None:
            raise msgspec.ValidationError(f"expected one of {', '.join(cls.TAGS)}, found {_shown(value)}")
        types = _field_types(found)
        if bool(types) != isinstance(value, dict):
            raise msgspec.ValidationError(f"{tag}: expected {'a' if types else 'no'} value, found {_shown(value)}")
        if not types:
            return found()
        if found.INLINE and len(types) == 1:
            name, kind = next(iter(types.items()))
            return found(**{name: _typed(content, kind)})
        if not isinstance(content, dict) or not types.keys() <= content.keys():
            raise msgspec.ValidationError(f"{tag}: expected {', '.join(types)}, found {_shown(content)}")
        return found(**{name: _typed(content[name], kind) for name, kind in types.items()})


_types: dict[str, dict[str, Any]] = {}


def _field_types(variant: type[Variant]) -> dict[str, Any]:
    """The fields of a variant with their types."""
    place = f"{variant.__module__}.{variant.__qualname__}"
    if place not in _types:
        hints = get_type_hints(variant, include_extras=True)
        _types[place] = {name: hints[name] for name in inspect.get_annotations(variant)}
    return _types[place]


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:77]}…"


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=_encode_hook)


def _typed(value: Any, kind: Any) -> Any:
    return value if kind is Any else msgspec.convert(value, kind, dec_hook=_decode_hook, strict=True)


def _encode_hook(value: Any) -> Any:
    if isinstance(value, Variant):
        return value.to_json()
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


def _decode_hook(kind: type, value: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, Variant):
        return kind.from_json(value)
    raise NotImplementedError(f"{kind.__name__} has no JSON form")


def encode(value: Any) -> bytes:
    """A protocol value as JSON."""
    return msgspec.json.encode(value, enc_hook=_encode_hook)


def decode(data: bytes, kind: type[T]) -> T:
    """The protocol value of a type; raises msgspec's DecodeError or ValidationError."""
    if issubclass(kind, Variant):
        return cast(T, kind.from_json(msgspec.json.decode(data)))
    return msgspec.json.decode(data, type=kind, dec_hook=_decode_hook)
