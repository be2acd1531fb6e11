"""A benchmark run against a real endpoint on loopback: nothing judged twice, nothing lost, nothing mixed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bench_support.runs import cell, go, lines_of, plan_of
from memalign import aio
from memalign.errors import InputError
from memalign_bench.config import Competitors
from memalign_bench.estimate import estimate_run
from memalign_bench.raw import Fit, RawFolder
from memalign_bench.run import run_benchmark
from tests.support.endpoint import Endpoint, bad_request


def test_every_method_judges_the_same_cases(config: Path, endpoint: Endpoint) -> None:
    outcome = go(config)
    assert (outcome.failed, outcome.notes, outcome.stopped) == (0, [], None)
    cells = {str(each) for each in RawFolder(config.parent / "raw").cells(["openai:test"])}
    methods = ("majority", "nearest", "memalign")
    assert cells == {"tone seed 0 zero-shot@0", *(f"tone seed 0 {method}@{n}" for method in methods for n in (4, 8))}
    ids = {frozenset(line.id for line in lines_of(config, method, 8)) for method in methods}
    assert ids == {frozenset(line.id for line in lines_of(config, "zero-shot", 0))}
    assert outcome.judged == 6 * 7


def test_raw_lines_hold_no_judged_text(config: Path, endpoint: Endpoint) -> None:
    go(config)
    text = "".join(path.read_text("utf-8") for path in (config.parent / "raw").rglob("*") if path.is_file())
    assert "t-29" in text
    for words in ("parcel", "gladly", "Far too cold", "reads well", "it is cold"):
        assert words not in text


def test_a_finished_run_asks_nothing_more(config: Path, endpoint: Endpoint) -> None:
    go(config)
    asked = len(endpoint.requests)
    assert go(config).judged == 0
    assert len(endpoint.requests) == asked


def test_a_run_without_raw_lines_asks_nothing_twice(config: Path, endpoint: Endpoint) -> None:
    first = go(config)
    before = lines_of(config, "memalign", 8)
    asked = len(endpoint.requests)
    shutil.rmtree(config.parent / "raw")
    assert go(config).judged == first.judged
    assert len(endpoint.requests) == asked
    assert lines_of(config, "memalign", 8) == before


def test_another_machine_goes_on_from_raw_lines_alone(config: Path, endpoint: Endpoint) -> None:
    go(config, test=3)
    kept = lines_of(config, "memalign", 8)
    outcome = go(config, memo="another machine's")
    assert outcome.notes == []
    assert all(line in lines_of(config, "memalign", 8) for line in kept)
    assert outcome.judged == 3 * 7


def test_judgments_of_another_state_are_never_mixed_in(config: Path, endpoint: Endpoint) -> None:
    go(config, test=3)
    path = config.parent / "raw" / cell("memalign", 8).path
    path.write_text(path.read_text("utf-8").replace('"fit":"', '"fit":"0'), "utf-8")
    outcome = go(config)
    assert any("memalign@8: learned again" in note for note in outcome.notes)
    found = lines_of(config, "memalign", 8)
    assert len(found) == 6
    assert len({line.fit for line in found}) == 1


def test_progress_ends_at_the_total_despite_dropped_judgments(config: Path, endpoint: Endpoint) -> None:
    go(config, test=3)
    path = config.parent / "raw" / cell("memalign", 8).path
    path.write_text(path.read_text("utf-8").replace('"fit":"', '"fit":"0'), "utf-8")
    told: list[tuple[str, int, int]] = []
    raw = RawFolder(config.parent / "raw")
    aio.run(run_benchmark(plan_of(config), raw, memo=config.parent / "memo", progress=lambda *at: told.append(at)))
    assert [at for at in told if at[0] == "judging"][-1] == ("judging", 42, 42)
    assert all(done <= total for _, done, total in told)


def test_a_cut_line_is_judged_again(config: Path, endpoint: Endpoint) -> None:
    go(config)
    path = config.parent / "raw" / cell("zero-shot", 0).path
    whole = path.read_text("utf-8")
    path.write_text(whole[:-20], "utf-8")
    assert len(lines_of(config, "zero-shot", 0)) == 5
    assert go(config).judged == 1
    assert path.read_text("utf-8") == whole


def test_a_last_line_without_line_break_is_kept(config: Path, endpoint: Endpoint) -> None:
    go(config, test=3)
    path = config.parent / "raw" / cell("zero-shot", 0).path
    path.write_bytes(path.read_bytes()[:-1])
    assert go(config, methods=("zero-shot",)).judged == 3
    assert len(lines_of(config, "zero-shot", 0)) == 6


def test_a_broken_line_in_the_middle_is_named(config: Path, endpoint: Endpoint) -> None:
    go(config)
    path = config.parent / "raw" / cell("zero-shot", 0).path
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([lines[0], '{"id": 3}', *lines[1:]]) + "\n", "utf-8")
    with pytest.raises(InputError, match=r"zero-shot@0.jsonl, line 2"):
        go(config)


def test_a_failed_judgment_is_named_and_tried_again(config: Path, endpoint: Endpoint) -> None:
    endpoint.faults = [bad_request("no such thing") for _ in range(4)]
    outcome = go(config, methods=("zero-shot",), stages=(0,))
    assert outcome.failed > 0
    assert "no such thing" in outcome.notes[0]
    again = go(config, methods=("zero-shot",), stages=(0,))
    assert again.judged == outcome.failed
    assert all(line.error is None and line.value is not None for line in lines_of(config, "zero-shot", 0))


def test_a_failure_that_repeats_itself_is_kept_once(config: Path, endpoint: Endpoint) -> None:
    kept = []
    for _ in range(2):
        endpoint.faults = [bad_request("no such thing") for _ in range(4)]
        assert go(config, methods=("zero-shot",), stages=(0,)).failed == 4
        kept.append((config.parent / "raw" / cell("zero-shot", 0).path).read_text("utf-8"))
    assert kept[0].count("no such thing") == 4
    assert kept[1] == kept[0]


def test_baselines_need_no_model(config: Path) -> None:
    outcome = go(config, methods=("majority", "neighbours-vote"), models=("openai:nobody-has-a-key",))
    assert (outcome.judged, outcome.failed, outcome.cost) == (2 * 2 * 6, 0, 0.0)


def test_half_a_surrogate_pair_costs_nothing(config: Path) -> None:
    said = '{"rationale": "fine \\ud83d", "value": true}'
    with pytest.MonkeyPatch.context() as patch, Endpoint(said) as endpoint:
        patch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        for _ in range(2):
            shutil.rmtree(config.parent / "raw", ignore_errors=True)
            assert go(config, methods=("zero-shot",), stages=(0,)).judged == 6
            assert len(endpoint.requests) == 6, "what was answered is remembered"


@pytest.mark.parametrize("more", [{}, {"inputs": "q"}])
def test_conversations_are_estimated_by_what_is_sent(config: Path, endpoint: Endpoint, more: dict[str, str]) -> None:
    rows = [
        {
            "id": f"c{n}",
            "conversation": [{"role": "user", "content": f"{n} long words" * 400}],
            "value": n % 2 == 0,
            **more,
        }
        for n in range(20)
    ]
    (config.parent / "tasks" / "tone.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    plan = plan_of(config, methods=("zero-shot",), stages=(0,), train=8)
    (estimate,) = estimate_run(plan, RawFolder(config.parent / "raw"))
    go(config, methods=("zero-shot",), stages=(0,), train=8)
    sent = sum(line.tokens_in for line in lines_of(config, "zero-shot", 0))
    assert 0.5 < estimate.usage.input_tokens / sent < 2


def test_what_cannot_be_written_is_named(config: Path, endpoint: Endpoint) -> None:
    (config.parent / "raw").mkdir()
    (config.parent / "raw" / "openai-test").write_text("a file in the way", "utf-8")
    outcome = go(config, methods=("zero-shot",), stages=(0,))
    assert "zero-shot@0.fit.json cannot be written: Not a directory" in outcome.notes[0]


def test_seeds_of_a_missing_task_are_refused(config: Path) -> None:
    with pytest.raises(InputError, match="seeds_of names 'toen', which is not among the tasks: tone"):
        plan_of(config, seeds_of={"toen": (0, 1)})


def test_a_method_that_cannot_learn_stops_no_other(config: Path, endpoint: Endpoint) -> None:
    outcome = go(config, methods=("mlflow", "zero-shot"), competitors=Competitors(python="nothing/here/python"))
    assert outcome.judged == 6
    assert len(outcome.notes) == 2  # once a stage
    assert "mlflow@4: could not learn" in outcome.notes[0]
    assert "benchmarks/competitors/requirements.txt" in outcome.notes[0]


def test_rows_at_once_keeps_a_stopped_run_paired(config: Path, endpoint: Endpoint) -> None:
    plan = plan_of(config, rows_at_once=2)
    batches = list(plan.batches(RawFolder(config.parent / "raw")))
    cells = len(plan.cells)
    assert {batch.cell for batch in batches[:cells]} == set(plan.cells)
    assert all(len(batch.todo) == 2 for batch in batches)
    chunks = {tuple(case.id for case, _ in batch.todo) for batch in batches[:cells]}
    assert len(chunks) == 1


def test_seen_cases_are_judged_shown_and_left_out(config: Path, endpoint: Endpoint) -> None:
    go(config, seen=4)
    views = [line.view for line in lines_of(config, "memalign", 8)]
    assert [views.count(view) for view in ("unseen", "seen", "left-out")] == [6, 4, 4]
    assert [line.view for line in lines_of(config, "zero-shot", 0)].count("left-out") == 0


def test_a_run_judges_seen_cases_every_possible_way(config: Path, endpoint: Endpoint) -> None:
    raw = RawFolder(config.parent / "raw")
    methods = ("majority", "zero-shot", "memalign")
    assert go(config, seen=2, methods=methods).judged == 2 * (6 + 2) + (6 + 2) + 2 * (6 + 2 + 2)
    done, total = plan_of(config, seen=2, methods=methods).counts(raw)
    assert done == total
    assert estimate_run(plan_of(config, seen=2, methods=methods), raw) == []
    assert {line.view for line in lines_of(config, "majority", 8)} == {"unseen", "left-out"}
    competitors = plan_of(config, seen=2, methods=("mlflow",))
    assert {view for _, view in competitors.todo(cell("mlflow", 8))} == {"unseen", "seen"}


def test_a_left_out_case_hides_its_own_lesson(config: Path, endpoint: Endpoint) -> None:
    go(config, seen=1, methods=("zero-shot", "memalign"), stages=(0, 8), test=1)
    reply = plan_of(config).splits["tone", 0].train[0].example.outputs
    users = [request["messages"][-1]["content"] for request in endpoint.requests]
    systems = [request["messages"][0]["content"] for request in endpoint.requests]
    # Two judgments, after learning, are of the case that taught: in view, its example standing before it, and left out.
    both = [n for n in range(len(users)) if reply in users[n] and "Now judge" in users[n]]
    left_out, in_view = sorted(both[-2:], key=lambda n: users[n].count(reply))
    assert (users[left_out].count(reply), users[in_view].count(reply)) == (1, 2)
    assert systems[in_view].count("When a reply is short") == systems[left_out].count("When a reply is short") + 8


def test_a_later_stage_learns_only_what_is_new(config: Path, endpoint: Endpoint) -> None:
    method = "memalign-without-admit"  # which asks about old cases again
    go(config, methods=("zero-shot", method))
    raw = RawFolder(config.parent / "raw")
    first, second = raw.fit(cell(method, 4)), raw.fit(cell(method, 8))
    assert first is not None
    assert second is not None
    assert second.calls <= first.calls + 1
    assert second.counts["cases"] == 8


def test_same_prices_for_every_method(config: Path, endpoint: Endpoint) -> None:
    go(config)
    for line in lines_of(config, "nearest", 8):
        fresh = line.tokens_in - line.cached
        assert line.cost == pytest.approx((fresh * 1.0 + line.cached * 0.1 + line.tokens_out * 2.0) / 1e6)


def test_the_estimate_covers_only_what_is_left(config: Path, endpoint: Endpoint) -> None:
    raw = RawFolder(config.parent / "raw")
    before = {each.method: each for each in estimate_run(plan_of(config), raw)}
    assert {method: each.judgments for method, each in before.items()} == {
        "majority": 12,
        "zero-shot": 6,
        "nearest": 12,
        "memalign": 12,
    }
    assert before["majority"].usage.calls == 0
    assert before["memalign"].usage.calls > 12
    go(config)
    calls = len(endpoint.requests)
    assert 0.5 < sum(each.usage.calls for each in before.values()) / calls < 2
    assert estimate_run(plan_of(config), raw) == []
    more = estimate_run(plan_of(config, test=9), raw)
    assert sum(each.judgments for each in more) == 3 * 7


@pytest.mark.parametrize("content", [b'{"id": "x", "cal', b"\xff", b"[]"])
def test_a_broken_fit_is_named_with_its_remedy(config: Path, content: bytes) -> None:
    raw = RawFolder(config.parent / "raw")
    raw.write_fit(cell("memalign", 8), Fit(id="x"))
    (path,) = (config.parent / "raw").rglob("memalign@8.fit.json")
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"memalign@8\.fit\.json: .*delete that file"):
        raw.fit(cell("memalign", 8))


def test_a_file_that_is_no_cells_is_named(config: Path, endpoint: Endpoint) -> None:
    go(config, methods=("zero-shot",), stages=(0,))
    path = config.parent / "raw" / cell("zero-shot", 0).path
    path.with_name("zero-shot@old.jsonl").write_bytes(path.read_bytes())
    with pytest.raises(InputError, match=r"zero-shot@old\.jsonl is no cell's file"):
        list(RawFolder(config.parent / "raw").cells(["openai:test"]))
