"""Rows from object stores, folders and queries, and judgments put there in parts."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from memalign import Example, Judge, Judgment
from memalign.errors import ConfigurationError, InputError
from memalign.io import judged_parts, read_examples
from memalign.io.judged_parts import PartWriter
from memalign.io.query import query_rows
from memalign.io.rows import Row
from memalign.testing import ScriptedChatModel

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS: list[dict[str, Any]] = [{"id": f"c-{n}", "inputs": "Where?", "outputs": f"Reply {n}."} for n in range(12)]
EXAMPLES = [Example(**row) for row in ROWS]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """fsspec's file system in memory, and a cache of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]
    yield fs
    fs.store.clear()


def judge(answer: Any = None) -> tuple[Judge, ScriptedChatModel]:
    model = ScriptedChatModel(answer or (lambda _: {"rationale": "Fine.", "value": True}))
    instructions = "Is it warm? {{ inputs }} {{ outputs }}"
    return Judge(name="tone", instructions=instructions, feedback_value_type=bool, model=model), model


def jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


@pytest.mark.parametrize(("name", "data"), [("rows.jsonl", jsonl(ROWS)), ("rows.parquet", parquet(ROWS))])
def test_a_url_is_read_like_a_file(store: Any, name: str, data: bytes) -> None:
    store.pipe_file(f"/in/{name}", data)
    assert read_examples(f"memory://in/{name}") == EXAMPLES


def test_csv_at_a_url_is_read(store: Any) -> None:
    store.pipe_file("/in/rows.csv", b"id,outputs\na,Yes.\nb,No.\n")
    assert [each.outputs for each in read_examples("memory://in/rows.csv")] == ["Yes.", "No."]


def test_partitioned_parquet_is_one_table(store: Any, tmp_path: Path) -> None:
    for day in (1, 2):
        part = parquet(ROWS[6 * (day - 1) : 6 * day])
        store.pipe_file(f"/lake/day=2026-01-0{day}/part-0.parquet", part)
        (tmp_path / f"day=2026-01-0{day}").mkdir()
        (tmp_path / f"day=2026-01-0{day}/part-0.parquet").write_bytes(part)
    for found in (read_examples("memory://lake"), read_examples(tmp_path)):
        assert [(each.id, each.outputs) for each in found] == [(each.id, each.outputs) for each in EXAMPLES]
        assert [each.meta["day"] for each in found] == ["2026-01-01"] * 6 + ["2026-01-02"] * 6


def test_a_folder_of_lines_is_read_on(store: Any) -> None:
    store.pipe_file("/in/a.jsonl", jsonl(ROWS[:6]))
    store.pipe_file("/in/b.jsonl", jsonl(ROWS[6:]))
    assert read_examples("memory://in") == EXAMPLES


def test_what_cannot_be_read_is_said(store: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"memory://in/none.jsonl: no such file"):
        read_examples("memory://in/none.jsonl")
    with pytest.raises(InputError, match="Protocol not known: nowhere"):
        read_examples("nowhere://in/none.jsonl")
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(ConfigurationError, match=r"gs:// needs gcsfs: pip install gcsfs"):
        read_examples("gs://in/none.jsonl")
    with pytest.raises(InputError, match="without Parquet or JSONL files"):
        read_examples(tmp_path)


def test_a_query_gives_rows(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    (tmp_path / "rows.parquet").write_bytes(parquet(ROWS))
    query = f"select id, outputs, 2.5::decimal(4,1) as price from '{tmp_path / 'rows.parquet'}' where id > 'c-8' order by id"
    rows = list(query_rows(query))
    assert [row.fields for row in rows if isinstance(row, Row)] == [
        {"id": "c-9", "outputs": "Reply 9.", "price": 2.5},
    ]
    with duckdb.connect(str(tmp_path / "house.duckdb")) as made:
        made.execute("create table cases as select 'a' as id, {'text': 'Yes.'} as outputs")
    (row,) = query_rows("select * from cases", tmp_path / "house.duckdb")
    assert isinstance(row, Row)
    assert row.fields == {"id": "a", "outputs": {"text": "Yes."}}
    with pytest.raises(InputError, match=r"DuckDB refuses the query: .*nothing"):
        list(query_rows("select * from nothing"))
    with pytest.raises(InputError, match=r"rows.parquet is no DuckDB database; .* from '"):
        list(query_rows("select 1 as id", tmp_path / "rows.parquet"))
    with pytest.raises(InputError, match="gives id twice"):
        list(query_rows("select 1 as id, 2 as id"))


def test_a_query_needs_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ConfigurationError, match="pip install duckdb"):
        list(query_rows("select 1"))


@pytest.mark.parametrize(
    "out", ["memory://out/judged.jsonl", "memory://out/judged.parquet", "folder.parquet", "folder/"]
)
def test_judgments_are_put_in_parts(store: Any, out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(judged_parts, "_LINES", 5)
    one, model = judge()
    made = one.judge_many(EXAMPLES, out=out)
    assert [(each.id, each.value) for each in made] == [(row["id"], True) for row in ROWS]
    fs, folder = (store, out.removeprefix("memory:/")) if "://" in out else (fsspec.filesystem("file"), tmp_path / out)
    names = sorted(name.rpartition("/")[2] for name in fs.find(str(folder)))
    assert len(names) == 3
    assert all(name.startswith("part-") for name in names)
    asked = len(model.requests)
    again = one.judge_many(EXAMPLES, out=out)
    assert list(again) == list(made)
    assert len(model.requests) == asked, "nothing is paid for twice"
    assert made[3:5] == [made[3], made[4]]


def test_parquet_parts_are_a_table(store: Any) -> None:
    one, _ = judge()
    one.judge_many(EXAMPLES, out="memory://out/judged.parquet")
    (name,) = store.find("/out/judged.parquet")
    table = pq.read_table(io.BytesIO(store.cat_file(name)))
    assert set(table["id"].to_pylist()) == {row["id"] for row in ROWS}
    assert table.schema.field("value").type == pa.bool_()
    assert json.loads(table["judgment"][0].as_py())["rationale"] == "Fine."


def test_failed_rows_are_apart_and_asked_again(store: Any) -> None:
    failing = {"on": True}

    def answer(request: Any) -> dict[str, Any]:
        bad = failing["on"] and "Reply 3." in request.user
        return {"rationale": "Fine.", "value": "perhaps" if bad else True}

    one, model = judge(answer)
    out = "memory://out/judged.jsonl"
    first = one.judge_many(EXAMPLES, out=out)
    assert [each.id for each in first if each.error] == ["c-3"]
    assert store.exists("/out/judged.jsonl/failed.jsonl")
    failing["on"], asked = False, len(model.requests)
    assert all(each.value is True for each in one.judge_many(EXAMPLES, out=out))
    assert len(model.requests) == asked + 1
    assert not store.exists("/out/judged.jsonl/failed.jsonl")


def test_what_a_killed_run_left_is_put(store: Any, tmp_path: Path) -> None:
    out, journal = "memory://out/judged.jsonl", tmp_path / "journal"
    killed = PartWriter(out, judge="tone@1", examples=EXAMPLES, journal=journal)
    killed.write("c-0", Judgment(id="c-0", value=True))
    killed.write("c-1", Judgment(id="c-1", value=False))
    assert killed._file is not None
    for held in (killed._file, killed._lock):  # the operating system closes a killed process's files
        held.close()
    with next(iter(journal.glob("*.jsonl"))).open("ab") as file:
        file.write(b'{"id":"c-2","judge":"tone@1","val')
    assert not store.find("/out")
    with PartWriter(out, judge="tone@1", examples=EXAMPLES, journal=journal) as resumed:
        assert [row["id"] for row in ROWS if row["id"] in resumed] == ["c-0", "c-1"]
        assert resumed.judgments()[1].value is False
    assert not list(journal.glob("*.jsonl"))


def test_a_damaged_journal_is_named_by_line(store: Any, tmp_path: Path) -> None:
    (tmp_path / "part-1.jsonl").write_bytes(b'{"id":"c-0","judge":"tone@1","value":true}\n{"id":"c-1","jud\n')
    for out in ("memory://out/judged.parquet", "memory://out/judged.jsonl"):
        with pytest.raises(InputError, match=r"part-1.jsonl, line 2, is damaged .*remove that line"):
            PartWriter(out, judge="tone@1", examples=EXAMPLES, journal=tmp_path)
    assert not store.find("/out")


def test_a_part_that_cannot_be_put_is_kept(store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, journal = "memory://out/judged.jsonl", tmp_path / "journal"

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Access Denied")

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "pipe_file", refuse)
        writer = PartWriter(out, judge="tone@1", examples=EXAMPLES, journal=journal)
        writer.write("c-0", Judgment(id="c-0", value=True))
        with pytest.raises(InputError, match=r"judged.jsonl cannot be used: Access Denied"):
            writer.close()
    with PartWriter(out, judge="tone@1", examples=EXAMPLES, journal=journal) as resumed:
        assert "c-0" in resumed


def test_a_changed_example_leaves_its_part(store: Any) -> None:
    one, model = judge()
    out = "memory://out/judged.parquet"
    one.judge_many(EXAMPLES, out=out)
    changed = [Example(id="c-0", inputs="Where?", outputs="Other."), *EXAMPLES[1:]]
    asked = len(model.requests)
    assert len(one.judge_many(changed, out=out)) == 12
    assert len(model.requests) == asked + 1
    ids = [
        row["id"] for name in store.find("/out") for row in pq.read_table(io.BytesIO(store.cat_file(name))).to_pylist()
    ]
    assert sorted(ids) == sorted(row["id"] for row in ROWS)
    for outputs in ("New.", "Newer."):  # a part of which nothing stays goes
        one.judge_many([Example(id="c-0", inputs="Where?", outputs=outputs)], out="memory://out/one.parquet")
    assert len(store.find("/out/one.parquet")) == 1


def test_folders_of_others_are_left_alone(store: Any, tmp_path: Path) -> None:
    one, _ = judge()
    one.judge_many(EXAMPLES[:2], out="memory://out/judged.jsonl")
    with pytest.raises(InputError, match="holds judgments of judge tone@"):
        one.replace(instructions="Is it short? {{ outputs }}").judge_many(EXAMPLES, out="memory://out/judged.jsonl")
    store.pipe_file("/own/thesis.txt", b"x")
    with pytest.raises(InputError, match=r"holds thesis.txt, which is no part of ours"):
        one.judge_many(EXAMPLES, out="memory://own")
    with PartWriter("memory://new", judge="a", journal=tmp_path), pytest.raises(InputError, match="by another run"):
        PartWriter("memory://new", judge="a", journal=tmp_path)


def test_an_unwritable_output_costs_nothing(store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, model = judge()
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"out\.parquet cannot be written: Not a directory"):
        made.judge_many(EXAMPLES, out=tmp_path / "file" / "out.parquet")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"cannot be written \(.*XDG_CACHE_HOME names another"):
        made.judge_many(EXAMPLES, out=tmp_path / "out.parquet")
    assert not model.requests


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of file sizes plays the full disk")
def test_a_full_disk_keeps_whole_lines(tmp_path: Path) -> None:
    import resource

    out, limit = tmp_path / "out", resource.getrlimit(resource.RLIMIT_FSIZE)

    def written(number: int) -> None:
        with PartWriter(f"{out}/", judge="j", examples=EXAMPLES, journal=tmp_path / "journal") as writer:
            for example in EXAMPLES[:number]:
                if example.id not in writer:
                    writer.write(example.id, Judgment(value=True, rationale="x" * 300))

    resource.setrlimit(resource.RLIMIT_FSIZE, (900, limit[1]))
    try:
        with pytest.raises(InputError, match=r"what is there is kept, and the same command goes on"):
            written(5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    written(5)
    lines = [json.loads(line) for path in out.iterdir() for line in path.read_bytes().splitlines()]
    assert sorted(line["id"] for line in lines) == [f"c-{n}" for n in range(5)]
    assert len(list(out.iterdir())) == 2, "the lines before the stop were not written again"


def test_a_part_not_put_says_where(store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    made, _ = judge()
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "pipe_file", refused)
        with pytest.raises(
            InputError, match=r"Permission denied; the judgments are kept in .*jsonl, and the same command"
        ):
            made.judge_many(EXAMPLES, out="memory://out/judged")
    again, model = judge()
    again.judge_many(EXAMPLES, out="memory://out/judged")
    assert not model.requests
