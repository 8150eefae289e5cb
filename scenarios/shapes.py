"""What pydantic models say of a place in a scenario: its keys, variants and defaults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from scenarios.strict_yaml import Node


@dataclass(frozen=True)
class Shape:
    """What an annotation allows, unions taken apart."""

    models: tuple[type[BaseModel], ...]
    values: Any
    """Annotation of a map's values when its keys are free, else None."""
    items: Any
    """Annotation of a list's items, else None."""
    tag: str | None
    """The key that says which of several models a map is."""
    default_tag: str | None
    """Value of the tag when the map leaves it out."""

    def tag_of(self, map_: dict[str, Node]) -> Any:
        """The variant a map says it is, or is by default."""
        if self.tag is None:
            return None
        return map_[self.tag].plain() if self.tag in map_ else self.default_tag

    def variant(self, map_: dict[str, Node]) -> type[BaseModel] | None:
        """The model that a map is meant to be."""
        if self.tag is None:
            known = (m for m in self.models if map_.keys() & m.model_fields.keys())
            return next(known, self.models[0] if len(self.models) == 1 else None)
        tag = self.tag_of(map_)
        return next((m for m in self.models if tag in literals(m.model_fields[self.tag])), None)

    def fields(self, map_: dict[str, Node]) -> dict[str, FieldInfo]:
        """Fields of the model that a map is meant to be; of all, if nothing tells which."""
        model = self.variant(map_)
        if model is None and self.tag is None:
            return {key: field for m in self.models for key, field in m.model_fields.items()}
        return model.model_fields if model else {}

    def child(self, map_: dict[str, Node], key: str) -> Any:
        """Annotation of a key's value; None where the key is unknown."""
        field = self.fields(map_).get(key)
        return field.annotation if field else self.values


def shape(annotation: Any) -> Shape:
    """Take an annotation apart."""
    leaves = list(_leaves(annotation))
    models = tuple(leaf for leaf in leaves if _is_model(leaf))
    maps = [get_args(leaf)[1] for leaf in leaves if get_origin(leaf) is dict]
    lists = [get_args(leaf)[0] for leaf in leaves if get_origin(leaf) in (list, tuple)]
    tag = _tag(models)
    defaults = [m.model_fields[tag].default for m in models] if tag else []
    named = [value for value in defaults if isinstance(value, str)]
    return Shape(
        models=models,
        values=maps[0] if maps else None,
        items=lists[0] if lists else None,
        tag=tag,
        default_tag=named[0] if len(named) == 1 else None,
    )


def literals(field: FieldInfo) -> tuple[Any, ...]:
    """Values of a Literal field, else nothing."""
    return get_args(field.annotation) if get_origin(field.annotation) is Literal else ()


def members(annotation: Any) -> list[Any]:
    """Members of a union, None left out; a single one when it is no union."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) not in (Union, UnionType):
        return [annotation]
    kept = [member for member in get_args(annotation) if member is not NoneType]
    return members(kept[0]) if len(kept) == 1 else kept


def fill_tags(node: Node, annotation: Any) -> None:
    """Write the default variant into maps that leave their tag out."""
    form = shape(annotation)
    if isinstance(node.value, list):
        for item in node.value:
            fill_tags(item, form.items)
    if not isinstance(node.value, dict):
        return
    if form.tag and form.default_tag and form.tag not in node.value:
        tag = Node(form.default_tag, node.at, node.key_at)
        node.value = {form.tag: tag, **node.value}
    for key, child in node.value.items():
        fill_tags(child, form.child(node.value, key))


def default_data(field: FieldInfo) -> Any:
    """What a field holds when it is left out, as plain data without what is default inside."""
    if field.is_required():
        return None
    return _data(field.get_default(call_default_factory=True, validated_data={}))


def _data(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {name: _data(getattr(value, name)) for name in value.model_fields_set}
    if isinstance(value, dict):
        return {key: _data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_data(item) for item in value]
    return value


def _is_model(kind: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _leaves(annotation: Any) -> Iterator[Any]:
    for member in members(annotation):
        many = get_origin(member) in (Annotated, Union, UnionType)
        yield from _leaves(member) if many else (member,)


def _tag(models: tuple[type[BaseModel], ...]) -> str | None:
    """The field in which several models hold different literals."""
    if len(models) < 2:
        return None
    for name in models[0].model_fields:
        fields = [model.model_fields.get(name) for model in models]
        values = [value for field in fields if field for value in literals(field)]
        everyone = all(field is not None and literals(field) for field in fields)
        if everyone and len(set(values)) == len(values):
            return name
    return None
