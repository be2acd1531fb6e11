"""A pytest plugin: tests whose assertions a judge makes, with verdicts that are kept.

    @pytest.mark.memalign(judge="tone", cases="cases.jsonl")
    def test_replies_are_warm(memalign_case, assert_judged):
        assert_judged(inputs=memalign_case.inputs, outputs=my_bot(memalign_case.inputs))

A verdict is kept by judge and content, so an unchanged suite asks no model. With `--memalign-offline` none is asked at
all. Nothing of memalign but this file is imported before a test needs it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from memalign.judge import Judge
    from memalign.types import Example, Feedback, Judgment
    from memalign.values import Value

_KEPT = "memalign"  # the folder in pytest's cache
_SHOWN = 10  # failing cases of a message
_PASSES = object()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the command line and of the settings file."""
    group = parser.getgroup("memalign", "judges that learn from experts")
    group.addoption("--memalign-offline", action="store_true", help="ask no model; a verdict that is not kept fails")
    group.addoption("--memalign-verdicts", metavar="DIR", help="where verdicts are kept; the default is pytest's cache")
    parser.addini("memalign_registry", "where judges are kept; the default is MEMALIGN_REGISTRY, else memalign.db")
    parser.addini("memalign_verdicts", "where verdicts are kept, relative to this file")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "memalign(judge, cases=None, version=None): the judge of assert_judged (a name, or a bundle's path), and a file "
        "of cases, each of which becomes a test with the fixture memalign_case",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each case of the marker's file."""
    if "memalign_case" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("memalign")
    if marker is None or not marker.kwargs.get("cases"):
        raise pytest.UsageError(
            f'{metafunc.definition.nodeid}: memalign_case needs @pytest.mark.memalign(cases="FILE")'
        )
    from memalign.errors import MemalignError

    try:
        cases = _cases(Path(metafunc.config.rootpath, marker.kwargs["cases"]))
    except MemalignError as error:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: {error}") from None
    metafunc.parametrize("memalign_case", cases, ids=[case.id for case in cases])


@dataclass(frozen=True, kw_only=True)
class JudgedCase:
    """A case of the marker's file: its fields, and as `value` people's label; None where nobody gave one."""

    id: str
    value: Value | None
    inputs: Any = None
    outputs: Any = None
    expectations: Any = None
    conversation: Any = None
    trace: Any = None


if TYPE_CHECKING:
    Item = Example | Feedback | JudgedCase | Mapping[str, Any]


def _cases(file: Path) -> list[JudgedCase]:
    """The cases of a file, each with people's label, where it has one that counts."""
    from memalign.io import Examples, check_feedback
    from memalign.memory.label_policy import POLICY, policy_label

    said: dict[str, list[Feedback]] = {}
    for row in check_feedback(file, skip_invalid=True).rows:  # a case without a label is no feedback, and a case
        said.setdefault(row.id, []).append(row)
    return [
        JudgedCase(id=case.id, value=policy_label(said.get(case.id, []), (), POLICY), **case.content)
        for case in Examples.of(file)
    ]


@pytest.fixture(scope="session")
def memalign_judge(pytestconfig: pytest.Config) -> Callable[..., RecordedJudge]:
    """A function: `memalign_judge("tone")`, `memalign_judge("tone", version=2)` or `memalign_judge("judges/tone.json")`."""
    folder = pytestconfig.getoption("memalign_verdicts") or pytestconfig.getini("memalign_verdicts")
    if not folder and not pytestconfig.pluginmanager.has_plugin("cacheprovider"):
        raise pytest.UsageError("without pytest's cache, verdicts need a folder: --memalign-verdicts DIR")
    verdicts = Path(pytestconfig.rootpath, folder) if folder else pytestconfig.cache.mkdir(_KEPT)
    offline = bool(pytestconfig.getoption("memalign_offline"))

    @cache
    def open_judge(name: str, *, version: int | None = None) -> RecordedJudge:
        return RecordedJudge(_load(pytestconfig, name, version), verdicts, offline=offline)

    return open_judge


@pytest.fixture
def assert_judged(request: pytest.FixtureRequest, memalign_judge: Callable[..., RecordedJudge]) -> Callable[..., None]:
    """`RecordedJudge.assert_judged` of the marker's judge."""
    marker = request.node.get_closest_marker("memalign")
    if marker is None or not (marker.args or marker.kwargs.get("judge")):
        raise pytest.UsageError(f'{request.node.nodeid}: assert_judged needs @pytest.mark.memalign(judge="NAME")')
    name = marker.args[0] if marker.args else marker.kwargs["judge"]
    judge = memalign_judge(name, version=marker.kwargs.get("version"))
    return partial(judge.assert_judged, told=request.node.user_properties.append)


def _load(config: pytest.Config, name: str, version: int | None) -> Judge:
    import os

    from memalign.errors import InputError
    from memalign.registry import Registry, load_bundle

    bundle = Path(config.rootpath, name)
    if bundle.suffix == ".json":
        try:
            return load_bundle(bundle)
        except InputError as error:
            raise pytest.UsageError(str(error)) from None
    url = config.getini("memalign_registry") or os.environ.get("MEMALIGN_REGISTRY") or "memalign.db"
    file = url.removeprefix("sqlite:///")
    if url == file and "://" in url:
        return Registry(url).load(name, version)
    path = Path(config.rootpath, file)
    if not path.exists():
        raise pytest.UsageError(f"there is no registry at {path}: set memalign_registry, or name a bundle's .json")
    return Registry(f"sqlite:///{path}").load(name, version)


class RecordedJudge:
    """A judge whose verdicts are kept in a folder, a file each, by judge, content and repeat."""

    def __init__(self, judge: Judge, folder: Path, *, offline: bool = False) -> None:
        """`offline` asks no model: what is not in the `folder` fails."""
        from memalign.prompts import prompts_hash

        self.judge = judge
        self._folder, self._offline = folder, offline
        self._made_by = f"{judge.fingerprint}-{prompts_hash()}"

    def __call__(self, item: Item | None = None, *, repeat: int = 0, **fields: Any) -> Judgment:
        """The kept judgment of an item, or a new one, which is kept; `repeat` counts further ones of the same item.

        Fails the test where a judgment is missing offline. Raises what the judge raises.
        """
        import msgspec

        from memalign.types import Judgment

        example = _example(item, fields)
        key = hashlib.sha256(f"{self._made_by}:{example.content_hash}:{repeat}".encode()).hexdigest()
        file = self._folder / key[:2] / f"{key[:32]}.json"
        try:
            return msgspec.json.decode(file.read_bytes(), type=Judgment)
        except FileNotFoundError:
            pass
        if self._offline:
            pytest.fail(
                f"no verdict of {self.judge.name} on this item is kept in {self._folder}; run once without "
                "--memalign-offline",
                pytrace=False,
            )
        judgment = self.judge(**example.content)
        self._keep(file, msgspec.json.encode(judgment))
        return judgment

    @staticmethod
    def _keep(file: Path, content: bytes) -> None:
        from memalign.io.atomic import atomic_write

        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as new:
            new.write(content)

    def assert_judged(
        self,
        item: Item | None = None,
        *,
        of: Iterable[Item] | None = None,
        at_least: float = 1.0,
        expected: Value | Callable[[Value], bool] | object = _PASSES,
        repeats: int = 1,
        told: Callable[[tuple[str, object]], None] | None = None,
        **fields: Any,
    ) -> None:
        """Fail the test unless the judge says what is `expected` of the item, or of a share `at_least` of the items `of`.

        `expected` is a value, or a function of the value; by default true, for a `bool` judge. Of an item that fails,
        `repeats` judgments are made, an odd number, and the majority counts. `told` gets (name, value) pairs for a
        report.
        """
        __tracebackhide__ = True
        wanted = self._wanted(expected)
        if of is not None and (item is not None or fields):
            raise pytest.UsageError("assert_judged takes one item, or several as `of`")
        if repeats < 1 or repeats % 2 == 0 or not 0 < at_least <= 1:
            raise pytest.UsageError("repeats is an odd number from 1, at_least a share above 0 and at most 1")
        items = [_example(each, {}) for each in of] if of is not None else [_example(item, fields)]
        if not items:
            raise pytest.UsageError("`of` has no item")
        failed = [(each, why) for each in items if (why := self._fault(each, wanted, repeats)) is not None]
        right = len(items) - len(failed)
        if told is not None:
            told(("memalign_judge", self.judge.name))
            told(("memalign_passed", f"{right} of {len(items)}"))
        if right < at_least * len(items):
            more = [f"and {len(failed) - _SHOWN} more"] if len(failed) > _SHOWN else []
            lines = [f"{each.id}: {why}" if of is not None else why for each, why in failed[:_SHOWN]] + more
            share = f"{right} of {len(items)} passed, {at_least:.0%} must" if of is not None else "it did not pass"
            pytest.fail(f"{self.judge.name}: {share}\n" + "\n".join(lines), pytrace=False)

    def _wanted(self, expected: object) -> Callable[[Value], bool]:
        if expected is _PASSES:
            if self.judge.value_type.kind != "bool":
                raise pytest.UsageError(f"{self.judge.name} says {self.judge.value_type.spec}: give what is `expected`")
            return lambda value: value is True
        if callable(expected):
            return lambda value: bool(expected(value))
        label = self.judge.value_type.parse(expected)
        return lambda value: self.judge.value_type.agree(label, value)

    def _fault(self, example: Example, wanted: Callable[[Value], bool], repeats: int) -> str | None:
        """Why an item fails; None where it passes the first time, or most times."""
        judgments: list[Judgment] = []
        passed = 0
        for repeat in range(repeats):
            judgments.append(self(example, repeat=repeat))
            passed = sum(each.value is not None and wanted(each.value) for each in judgments)
            if (repeat == 0 and passed) or passed > repeats // 2:
                return None
        from memalign.values import value_text

        worst = next(each for each in judgments if each.value is None or not wanted(each.value))
        times = f" in {len(judgments) - passed} of {len(judgments)} judgments" if repeats > 1 else ""
        by = f" (guidelines {', '.join(worst.guideline_ids)})" if worst.guideline_ids else ""
        return f"judged {value_text(worst.value)}{times}{by}: {worst.rationale or 'no reason given'}"


def _example(item: Item | None, fields: Mapping[str, Any]) -> Example:
    from memalign.types import CONTENT_FIELDS, Example, Feedback

    if isinstance(item, Example):
        return item
    if isinstance(item, JudgedCase):
        item = {name: getattr(item, name) for name in ("id", *CONTENT_FIELDS)}
    if isinstance(item, Feedback):
        return Example(id=item.id, **item.content)
    given = {**(item or {}), **fields}
    content = {name: given[name] for name in CONTENT_FIELDS if given.get(name) is not None}
    return Example(id=str(given.get("id", "item")), **content)
