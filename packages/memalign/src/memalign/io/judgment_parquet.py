"""Judgments as Parquet: columns of what is read most, and the whole line."""

from __future__ import annotations

import io
from typing import Any

from memalign.errors import ConfigurationError
from memalign.io.judged import line_of

__all__ = ["arrow", "parquet_of"]


def parquet_of(lines: bytes) -> bytes:
    """JSON lines of judgments as a Parquet file."""
    pa, pq = arrow()
    rows = [_row(raw) for raw in io.BytesIO(lines)]
    kinds = dict.fromkeys(("input_tokens", "cached_tokens", "output_tokens"), pa.int64())
    kinds |= dict.fromkeys(("probability", "cost"), pa.float64())
    if rows[0]["value"] is not None:
        kinds["value"] = None  # as the judge's values are
    table = {name: pa.array([row[name] for row in rows], kinds.get(name, pa.string())) for name in rows[0]}
    file = io.BytesIO()
    pq.write_table(pa.table(table), file, compression="zstd")
    return file.getvalue()


def _row(raw: bytes) -> dict[str, Any]:
    head, judgment = (line := line_of(raw)).head, line.judgment
    usage = judgment.usage
    return {
        "id": head.id,
        "value": judgment.value,
        "probability": judgment.confidence,
        "rationale": judgment.rationale,
        "error": judgment.error,
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "cost": usage.cost,
        "judge": head.judge,
        "content_hash": head.content_hash,
        "judgment": raw.decode().rstrip("\n"),
    }


def arrow() -> tuple[Any, Any]:
    """`pyarrow` and `pyarrow.parquet`. Raises ConfigurationError where they are not installed."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped, import-not-found, unused-ignore]
        import pyarrow.parquet as pq  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise ConfigurationError("Parquet parts need pyarrow: pip install pyarrow") from None
    return pa, pq
