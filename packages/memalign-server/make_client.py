"""Write the client's operations from the API's description: `python packages/memalign-server/make_client.py`."""

from __future__ import annotations

import json
import keyword
import re
import tempfile
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "packages/memalign/src/memalign/client/operations.py"

_WIDTH = 120
_PLAIN = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}


def main() -> int:
    """Write the file; 0."""
    FILE.write_text(written(description()), "utf-8")
    return 0


def description() -> dict[str, Any]:
    """The API's description, of a server that is never started."""
    from memalign_server import Settings, create_app

    with tempfile.TemporaryDirectory() as folder:
        return create_app(Settings(registry=f"sqlite:///{folder}/memalign.db")).openapi()


def written(api: dict[str, Any]) -> str:
    """The module's text."""
    schemas = api["components"]["schemas"]
    operations = [
        _operation(method, path.removeprefix("/api/v1"), each, schemas)
        for path, methods in api["paths"].items()
        for method, each in methods.items()
        if "text/event-stream" not in str(each["responses"])
    ]
    results = _named(" ".join(operations), schemas)
    return "\n".join(
        [
            '"""What a server\'s API can do, made from its description by packages/memalign-server/make_client.py."""\n',
            "# fmt: off",
            '# mypy: disable-error-code="empty-body"',
            "# A method says what it takes and gives; the decorator sends the request.\n",
            "from __future__ import annotations\n",
            "from typing import Any, Literal, NotRequired, TypedDict\n",
            "from memalign.client.operation import operation\n",
            *_filled("__all__ = [", [f'"{name}"' for name in sorted([*results, "Operations"])], "]"),
            *(_typed(name, schemas[_schema_of(name, schemas)]) for name in sorted(results)),
            "\nclass Operations:",
            '    """Every operation of the API."""',
            *operations,
            "",
        ]
    )


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    parameters = operation.get("parameters", [])
    in_path = [each for each in parameters if each["in"] == "path"]
    in_query = [each for each in parameters if each["in"] == "query"]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    fields = {} if body is None else _resolved(body, schemas)["properties"]
    required = set() if body is None else set(_resolved(body, schemas).get("required", ()))
    named = [(each["name"], _type(each["schema"]), each.get("required", False)) for each in in_query]
    named += [(name, _type(schema), name in required) for name, schema in fields.items()]
    taken = [each["name"] for each in in_path] + [name for name, _, _ in named]
    if len(set(taken)) < len(taken) or any(map(keyword.iskeyword, taken)):
        raise SystemExit(f"{operation['operationId']}: two arguments of one name, or one of Python's: {taken}")
    arguments = ["self", *(f"{each['name']}: {_type(each['schema'])}" for each in in_path)]
    arguments += ["*"] if named else []
    arguments += [f"{name}: {kind}" for name, kind, needed in named if needed]
    arguments += [f"{name}: {_optional(kind)} = None" for name, kind, needed in named if not needed]
    answer = next(value for status, value in operation["responses"].items() if status.startswith("2"))
    result = answer.get("content", {}).get("application/json", {}).get("schema")
    gives = "None" if result is None else _type(result)
    sent = [method.upper(), path] + ([each["name"] for each in in_query] if method not in ("get", "delete") else [])
    said = operation["description"].replace("\\", "\\\\")
    indented = "\n".join(f"        {line}".rstrip() for line in said.splitlines()).strip()
    end = "\n        " if "\n" in said else ""
    return "\n".join(
        [
            "\n    @operation(" + ", ".join(f'"{each}"' for each in sent) + ")",
            *_filled(f"    def {operation['operationId']}(", arguments, f") -> {gives}:"),
            f'        """{indented}{end}"""',
        ]
    )


def _filled(begin: str, parts: list[str], end: str) -> list[str]:
    """`begin`, the parts with commas between them, and `end`: on one line, or the parts on lines of the project's width."""
    whole = begin + ", ".join(parts) + end
    if len(whole) <= _WIDTH:
        return [whole]
    left = " " * (len(begin) - len(begin.lstrip()))
    # A part stays on one line.
    text = ", ".join(part.replace(" ", "\0") for part in parts) + ","
    lines = textwrap.wrap(text, _WIDTH - len(left) - 4, break_long_words=False, break_on_hyphens=False)
    return [begin, *(f"{left}    {line}".replace("\0", " ") for line in lines), left + end]


def _type(schema: dict[str, Any]) -> str:
    """The annotation of a schema."""
    if "$ref" in schema:
        return _name(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return f"Literal[{', '.join(map(json.dumps, schema['enum']))}]"
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if schema.get("type") == "array":
        return f"list[{_type(schema.get('items') or {})}]"
    return _PLAIN.get(schema.get("type", ""), "Any")


def _optional(kind: str) -> str:
    return kind if kind == "Any" or kind.endswith("None") else f"{kind} | None"


def _typed(name: str, schema: dict[str, Any]) -> str:
    needed = set(schema.get("required", ())) if name.endswith("Given") else set(schema["properties"])
    kinds = {field: _type(each) for field, each in schema["properties"].items()}
    fields = [f"    {field}: {kind if field in needed else f'NotRequired[{kind}]'}" for field, kind in kinds.items()]
    said = schema.get("description", "One piece of a list; `next` is the cursor of the next one.").splitlines()[0]
    return "\n".join([f"\n\nclass {name}(TypedDict):", f'    """{said}"""', *fields])


def _named(text: str, schemas: dict[str, Any]) -> set[str]:
    """The schemas that the operations' annotations name, and those that these name."""
    found: set[str] = set()
    waiting = {name for name in map(_name, schemas) if re.search(rf"\b{name}\b", text)}
    while waiting:
        found |= waiting
        inside = " ".join(
            _type(each) for name in waiting for each in schemas[_schema_of(name, schemas)]["properties"].values()
        )
        waiting = {name for name in map(_name, schemas) if re.search(rf"\b{name}\b", inside)} - found
    return found


def _name(schema: str) -> str:
    """`Page_JobShown_` is PageOfJobShown."""
    inner = re.fullmatch(r"Page_(.+)_", schema)
    return (
        schema if inner is None else "PageOf" + re.sub(r"\W|_+", "", inner[1].title() if "_" in inner[1] else inner[1])
    )


def _schema_of(name: str, schemas: dict[str, Any]) -> str:
    return next(each for each in schemas if _name(each) == name)


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


if __name__ == "__main__":
    raise SystemExit(main())
