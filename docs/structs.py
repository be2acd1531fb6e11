"""What the Python reference needs to know and cannot read: a griffe extension, named in zensical.toml.

Griffe makes constructors of dataclasses and not of msgspec's structs. It takes `judge_many = aio.blocking(ajudge_many)`
for a value. And a tree that is drawn in a docstring, as that of the errors, is no paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from griffe import (
    Attribute,
    Class,
    Extension,
    Function,
    Module,
    Parameter,
    ParameterKind,
    Parameters,
)

BLOCKING = re.compile(r"(?:aio\.)?blocking\((\w+)\)")
TREE = re.compile(r"^\w+\n(?:[├│└ ].*\n?)+", re.MULTILINE)


class Structs(Extension):
    """Gives every struct its constructor, every synchronous form its arguments, and every drawn tree its fence."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Called once, when the whole package was read."""
        for module in _modules(pkg):
            if module.docstring:
                module.docstring.value = TREE.sub(
                    lambda tree: f"```text\n{tree[0].rstrip()}\n```\n", module.docstring.value
                )
            for scope in (module, *module.classes.values()):
                _make_synchronous(scope)
            for child in module.classes.values():
                if not child.is_alias and _is_struct(child) and "__init__" not in child.members:
                    child.set_member("__init__", _constructor(child))


def _modules(module: Module) -> Iterator[Module]:
    yield module
    for child in module.modules.values():
        if not child.is_alias:
            yield from _modules(child)


def _make_synchronous(scope: Module | Class) -> None:
    if scope.is_alias:
        return
    for name, attribute in list(scope.attributes.items()):
        origin = (
            scope.members.get(match[1])
            if (match := BLOCKING.fullmatch(str(attribute.value)))
            else None
        )
        if isinstance(origin, Function):
            form = Function(
                name,
                parameters=origin.parameters,
                returns=origin.returns,
                docstring=origin.docstring,
            )
            scope.set_member(name, form)


def _is_struct(candidate: Class) -> bool:
    return any(
        str(base).endswith("Struct") for one in (candidate, *candidate.mro()) for base in one.bases
    )


def _constructor(struct: Class) -> Function:
    fields: dict[str, Attribute] = {
        name: attribute
        for one in (*reversed(struct.mro()), struct)
        for name, attribute in one.attributes.items()
        if attribute.annotation is not None
        and "property" not in attribute.labels
        and not name.startswith("_")
    }
    needed_first = sorted(fields.items(), key=lambda field: field[1].value is not None)
    parameters = [
        Parameter(
            name, annotation=field.annotation, default=field.value, kind=ParameterKind.keyword_only
        )
        for name, field in needed_first
    ]
    here = Parameter("self", kind=ParameterKind.positional_or_keyword)
    return Function("__init__", parameters=Parameters(here, *parameters), returns="None")
