"""Several people at once: everybody's feedback ends in memory, and nobody waits for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memalign import MemAlign, Registry
from memalign.errors import RegistryError, VersionConflict
from tests.support.patience import PATIENCE
from tests.support.places import Place
from tests.support.registry import case, judge, keys_of, memory_of, models, row

MODELS = models()


@pytest.fixture
def url(place: Place) -> str:
    return place.url


@pytest.fixture
def learning(url: str) -> Registry:
    """A registry with a judge that learns by scripted models."""
    registry = Registry(url, models=MODELS)
    registry.create(judge(model=MODELS[0], embedding_model=MODELS[1]))
    return registry


@pytest.mark.parametrize("times", [2, 99])
def test_an_overtaken_align_learns_on_the_new_head_or_gives_up(learning: Registry, url: str, times: int):
    class Overtaken(MemAlign):
        """Beside it somebody else commits first, the first few times."""

        async def align(self, judge: Any, feedback: Any = (), **options: Any) -> Any:
            aside = Registry(url)
            if len(aside.history("helpfulness")) <= times:
                aside.update("helpfulness", lambda j: j.replace(retrieval_k=len(aside.history("helpfulness"))))
            return await super().align(judge, feedback, **options)

    overtaken = Overtaken(reflection_model=MODELS[0], embedding_model=MODELS[1], shard_size=1)
    rows = iter([row("t-1", "ana", "too cold")])
    if times == 99:
        with pytest.raises(VersionConflict, match="20 times in a row; nothing was changed"):
            learning.align("helpfulness", rows, optimizer=overtaken)
        assert keys_of(learning.load("helpfulness")) == set()
        return
    assert learning.align("helpfulness", rows, optimizer=overtaken).judge.retrieval_k == 2
    assert keys_of(learning.load("helpfulness")) == {"t-1@ana"}
    assert [v.action for v in learning.history("helpfulness")] == ["create", "edit", "edit", "align"]


def test_a_reader_sees_the_head_and_a_long_lock_is_named(registry: Registry, place: Place):
    registry.create(judge(memory_of(case("t-1", "ana"))))
    hasty = Registry(place.url, busy_timeout=0.05)
    with place.writer():
        assert keys_of(hasty.load("helpfulness")) == {"t-1@ana"}
        with pytest.raises(RegistryError, match=r"another process has been writing for more than 0\.05 s"):
            hasty.save(judge(model="openai:gpt-5"))
    assert hasty.save(judge(model="openai:gpt-5")) == 2


def test_two_processes_may_create_and_save_at_once(path: Path):
    script = (
        "import sys; from memalign import Judge, Registry\n"
        "registry = Registry(sys.argv[1])\n"
        "judge = Judge(name=sys.argv[2], instructions='{{ inputs }}', feedback_value_type=bool)\n"
        "registry.create(judge)\n"
        "for n in range(1, 6): registry.save(judge.replace(retrieval_k=n))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(path), name]) for name in ("one", "two")]
    assert [process.wait(timeout=PATIENCE) for process in running] == [0, 0]
    assert [(j.name, j.latest) for j in Registry(path.name).list()] == [("one", 6), ("two", 6)]
