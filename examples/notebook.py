"""Write the notebook of a script, executed by Jupyter in a folder that holds the stories' files and nothing else.

    pip install "./packages/memalign[mlflow]" pandas nbclient ipykernel
    python examples/notebook.py mlflow_demo        # or dataframes

The script is what people edit; its cells begin with `# %%`. A test compares the two, and fails when this was forgotten.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MARK, PROSE = "# %%", " [markdown]"
WARNING = re.compile("Warning: |import tqdm")
"""What a warning's two lines have."""

PRIVATE = (str(Path.home()), tempfile.gettempdir(), sys.prefix)


def cells_of(script: str) -> list[tuple[str, str]]:
    """Kind ("markdown" or "code") and text of each cell of a script."""
    cells = []
    for part in script.split(MARK)[1:]:
        head, _, body = part.partition("\n")
        if head == PROSE:
            lines = (
                line.removeprefix("#").removeprefix(" ")
                for line in body.strip().splitlines()
            )
            cells.append(("markdown", "\n".join(lines)))
        else:
            cells.append(("code", body.strip()))
    return cells


def notebook_of(script: str) -> dict[str, Any]:
    """The notebook (format 4.5) of a script, without outputs."""
    cells: list[dict[str, Any]] = []
    for number, (kind, text) in enumerate(cells_of(script), 1):
        ran = {"execution_count": None, "outputs": []} if kind == "code" else {}
        cells.append(
            {
                "cell_type": kind,
                "id": f"cell-{number}",
                "metadata": {},
                "source": text,
                **ran,
            }
        )
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with what Jupyter prints for it, in a folder with the stories' files alone."""
    import nbformat
    from nbclient import NotebookClient

    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE / "empathy", Path(folder) / "empathy")
        client = NotebookClient(
            nbformat.from_dict(notebook),
            timeout=None,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        )
        ran: dict[str, Any] = json.loads(nbformat.writes(client.execute()))
    return ran


def tidied(notebook: dict[str, Any]) -> dict[str, Any]:
    """The executed notebook without clock times, and without warnings, which name folders of this machine."""
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                lines = "".join(output["text"]).splitlines(keepends=True)
                output["text"] = [
                    line for line in lines if line.strip() and not WARNING.search(line)
                ]
        if cell["cell_type"] == "code":
            cell["outputs"] = [
                entry for entry in cell["outputs"] if entry.get("text") != []
            ]
    notebook["metadata"]["language_info"] = {"name": "python"}
    return notebook


def written(notebook: dict[str, Any]) -> str:
    """The notebook's file. Raises SystemExit where it would show a folder of this machine."""
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    private = [
        line for line in text.splitlines() if any(name in line for name in PRIVATE)
    ]
    if private:
        raise SystemExit(
            "not written, for its outputs name folders of this machine:\n"
            + "\n".join(private)
        )
    return text


def main() -> None:
    """Execute the cells of the script that is named, and write its notebook."""
    if len(sys.argv) != 2 or not (script := HERE / f"{sys.argv[1]}.py").is_file():
        raise SystemExit(
            "which script? python examples/notebook.py mlflow_demo, or dataframes"
        )
    notebook = script.with_suffix(".ipynb")
    notebook.write_text(
        written(tidied(executed(notebook_of(script.read_text("utf-8"))))), "utf-8"
    )
    print(f"wrote {notebook}")


if __name__ == "__main__":
    main()
