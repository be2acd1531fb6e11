"""Our entry points for other processes, whatever is installed in this environment."""

from __future__ import annotations

import tomllib
from pathlib import Path

__all__ = ["installed_entry_points"]

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def installed_entry_points(folder: Path) -> tuple[Path, Path]:
    """Two folders for Python's path: one with the entry points of our package for MLflow, one with the package."""
    points = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["entry-points"]["mlflow.scorer_store"]
    installed = folder / "memalign_points-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: memalign-points\nVersion: 1\n")
    listed = "".join(f"{name} = {value}\n" for name, value in points.items())
    (installed / "entry_points.txt").write_text(f"[mlflow.scorer_store]\n{listed}")
    return folder, PROJECT.parent / "src"
