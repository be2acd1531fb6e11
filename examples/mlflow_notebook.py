"""Write mlflow_demo.ipynb from mlflow_demo.py, executed by Jupyter in an empty folder.

    pip install "./packages/memalign[mlflow]" nbclient ipykernel
    python examples/mlflow_notebook.py

The script is what people edit; its cells begin with `# %%`. A test compares the two, and fails when this was forgotten.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("mlflow_demo.py")
NOTEBOOK = SCRIPT.with_suffix(".ipynb")
MARK, PROSE = "# %%", " [markdown]"
WARNED = ("Warning: ", "import tqdm")
"""What a warning's two lines have."""

PRIVATE = (str(Path.home()), tempfile.gettempdir(), sys.prefix)


def cells_of(script: str) -> list[tuple[str, str]]:
    """Kind ("markdown" or "code") and text of each cell of a script."""
    found = []
    for part in script.split(MARK)[1:]:
        head, _, body = part.partition("\n")
        if head == PROSE:
            lines = (line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
            found.append(("markdown", "\n".join(lines)))
        else:
            found.append(("code", body.strip()))
    return found


def notebook_of(script: str) -> dict[str, Any]:
    """The notebook (format 4.5) of a script, without outputs."""
    cells: list[dict[str, Any]] = []
    for number, (kind, text) in enumerate(cells_of(script), 1):
        ran = {"execution_count": None, "outputs": []} if kind == "code" else {}
        cells.append({"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text, **ran})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with what Jupyter prints for it, in an empty folder."""
    import nbformat
    from nbclient import NotebookClient

    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            nbformat.from_dict(notebook), timeout=None, coalesce_streams=True, resources={"metadata": {"path": folder}}
        )
        ran: dict[str, Any] = json.loads(nbformat.writes(client.execute()))
    return ran


def tidied(notebook: dict[str, Any]) -> dict[str, Any]:
    """The executed notebook without clock times, and without warnings: they name the folders of this machine's packages."""
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                lines = "".join(output["text"]).splitlines(keepends=True)
                output["text"] = [line for line in lines if line.strip() and not any(each in line for each in WARNED)]
        if cell["cell_type"] == "code":
            cell["outputs"] = [each for each in cell["outputs"] if each.get("text") != []]
    notebook["metadata"]["language_info"] = {"name": "python"}
    return notebook


def written(notebook: dict[str, Any]) -> str:
    """The notebook's file. Raises SystemExit where it would show a folder of this machine."""
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    private = [line for line in text.splitlines() if any(each in line for each in PRIVATE)]
    if private:
        raise SystemExit("not written, for its outputs name folders of this machine:\n" + "\n".join(private))
    return text


def main() -> None:
    """Execute the script's cells and write the notebook."""
    NOTEBOOK.write_text(written(tidied(executed(notebook_of(SCRIPT.read_text("utf-8"))))), "utf-8")
    print(f"wrote {NOTEBOOK}")


if __name__ == "__main__":
    main()
