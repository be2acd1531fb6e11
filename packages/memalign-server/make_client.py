"""Write the client's operations from the API's description: `python packages/memalign-server/make_client.py`."""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "packages/memalign/src/memalign/client/operations.py"

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
    """The module's text, formatted."""
    schemas = api["components"]["schemas"]
    operations = [
        _operation(method, path.removeprefix("/api/v1"), each, schemas)
        for path, methods in api["paths"].items()
        for method, each in methods.items()
        if "text/event-stream" not in str(each["responses"])
    ]
    results = _named(" ".join(operations), schemas)
    text = "\n".join(
        [
            '"""What a server\'s API can do, made from its description by packages/memalign-server/make_client.py."""\n',
            "from __future__ import annotations\n",
            "from abc import ABC, abstractmethod",
            "from collections.abc import Mapping",
            "from typing import Any, Literal, NotRequired, TypedDict, cast",
            "from urllib.parse import quote\n",
            f"__all__ = {sorted([*results, 'Operations'])!r}\n",
            *(_typed(name, schemas[_schema_of(name, schemas)]) for name in sorted(results)),
            "def _part(text: object) -> str:",
            '    return quote(str(text), safe="")\n\n',
            "class Operations(ABC):",
            '    """Every operation of the API; a lower layer sends the requests."""\n',
            "    @abstractmethod",
            "    def _ask(self, method: str, path: str, *, query: Mapping[str, Any], body: Mapping[str, Any] | None) -> Any: ...\n",
            *operations,
        ]
    )
    for step in (("check", "--fix", "-q", "--select", "I,RUF022"), ("format", "-q")):
        run = [sys.executable, "-m", "ruff", *step, "--stdin-filename", str(FILE), "-"]
        text = subprocess.run(run, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    parameters = operation.get("parameters", [])
    in_path = [each for each in parameters if each["in"] == "path"]
    in_query = [each for each in parameters if each["in"] == "query"]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    fields = {} if body is None else _resolved(body, schemas)["properties"]
    required = set() if body is None else set(_resolved(body, schemas).get("required", ()))
    named = [(each["name"], _type(each["schema"]), each.get("required", False)) for each in in_query]
    named += [(name, _type(schema), name in required) for name, schema in fields.items()]
    arguments = ["self", *(f"{each['name']}: {_type(each['schema'])}" for each in in_path)]
    arguments += ["*"] if named else []
    arguments += [f"{_safe(name)}: {kind}" for name, kind, needed in named if needed]
    arguments += [f"{_safe(name)}: {_optional(kind)} = None" for name, kind, needed in named if not needed]
    answer = next(value for status, value in operation["responses"].items() if status.startswith("2"))
    result = answer.get("content", {}).get("application/json", {}).get("schema")
    gives = "None" if result is None else _type(result)
    route = re.sub(r"\{(\w+)\}", lambda name: "{_part(" + name[1] + ")}", path)
    query = "{" + ", ".join(f'"{each["name"]}": {_safe(each["name"])}' for each in in_query) + "}"
    sent = "None" if body is None else "{" + ", ".join(f'"{name}": {_safe(name)}' for name in fields) + "}"
    called = f'self._ask("{method.upper()}", f"{route}", query={query}, body={sent})'
    called = called.replace('f"' + route + '"', f'"{route}"') if "{" not in route else called
    said = operation["description"].replace("\\", "\\\\")
    indented = "\n".join(f"        {line}".rstrip() for line in said.splitlines()).strip()
    end = "\n        " if "\n" in said else ""
    return (
        f"    def {operation['operationId']}({', '.join(arguments)}) -> {gives}:\n"
        f'        """{indented}{end}"""\n'
        f"        {called if gives == 'None' else _cast(gives, called)}\n"
    )


def _cast(gives: str, called: str) -> str:
    return f"return cast({gives!r}, {called})" if gives != "Any" else f"return {called}"


def _type(schema: dict[str, Any]) -> str:
    """The annotation of a schema."""
    if "$ref" in schema:
        return _name(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
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
    fields = "\n".join(
        f"    {field}: {kind if field in needed else f'NotRequired[{kind}]'}" for field, kind in kinds.items()
    )
    said = schema.get("description", "One piece of a list; `next` is the cursor of the next one.").replace(
        "\n", "\n    "
    )
    end = "\n    " if "\n" in said else ""
    return f'class {name}(TypedDict):\n    """{said}{end}"""\n\n{fields}\n\n'


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


def _safe(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


if __name__ == "__main__":
    raise SystemExit(main())
