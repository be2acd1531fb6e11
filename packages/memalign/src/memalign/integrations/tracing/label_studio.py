"""Label Studio: its JSON export (https://labelstud.io/guide/task_format, 1.23), as a file or from a running one.

A case is a task, whose data are the columns. Annotations are people's, predictions are programs'; cancelled ones are left out.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2

from memalign.errors import ConfigurationError, InputError, RowError
from memalign.integrations.tracing.json_api import JsonApi, address, key
from memalign.integrations.tracing.records import Record, Said, Verdict, Wanted, present
from memalign.io.rows import read_rows
from memalign.types import UNKNOWN_SOURCE

__all__ = ["LabelStudio"]

_WORDS = "textarea"
_CONTROLS = {"Choices": "choices", "Rating": "rating", "Number": "number"}


class LabelStudio:
    """An exported file, or the project of that number in the Label Studio of the environment."""

    def __init__(self, place: str | None, *, score: str | None = None) -> None:
        """`score` is the control that verdicts are written for; None where the project has only one."""
        if place is None:
            raise InputError("which export of Label Studio? Name its .json file, or the number of a project")
        self._place, self._score = place, score

    def records(self, wanted: Wanted) -> Iterator[Record | RowError]:
        """The tasks, annotated ones or all."""
        if self._place.isdecimal():
            api = self._api()
            every = "true" if wanted.every else None
            tasks = api.get(f"/api/projects/{self._place}/export", exportType="JSON", download_all_tasks=every)
            found: Iterator[Any] = enumerate(tasks, 1)
            people = {each["id"]: each.get("email") for each in api.get("/api/users/") if isinstance(each, Mapping)}
        else:
            found = (
                (row.line, row if isinstance(row, RowError) else row.fields) for row in read_rows(Path(self._place))
            )
            people = {}
        for line, task in found:
            if isinstance(task, RowError):
                yield task
            elif not isinstance(task.get("data"), Mapping) or not isinstance(task.get("annotations"), list):
                yield RowError(line=line, id=_text(task.get("id")), reason="no task: export as JSON, not as JSON-MIN")
            else:
                said = [*_annotated(task, people), *_predicted(task)]
                late = wanted.since is not None and str(task.get("created_at", "")) < wanted.since
                if not late and (wanted.every or any(each.person for each in said)):
                    yield Record(
                        id=_text(task["id"]),
                        columns=task["data"],
                        meta={"tool": "label-studio", "task": task["id"]},
                        said=said,
                    )

    def write(self, verdicts: Sequence[Verdict]) -> int:
        """Predictions whose model version is the judge and its version; one that a task has already is replaced."""
        if not self._place.isdecimal():
            raise InputError("verdicts go to a project: give its number, and LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY")
        if odd := next((each.id for each in verdicts if not each.id.isdecimal()), None):
            raise InputError(f"{odd!r} is no task's number, and predictions belong to tasks: import without --map id=…")
        api = self._api()
        name, control = self._control(api.get(f"/api/projects/{self._place}").get("parsed_label_config") or {})
        known = {
            str(each["task"]): each["id"]
            for each in api.get("/api/predictions/", project=self._place)
            if verdicts and each.get("model_version") == verdicts[0].identifier
        }
        for each in verdicts:
            labels = control.get("labels") or []
            if labels and each.label not in labels:
                raise InputError(f"{name} has no label {each.label!r}, only {', '.join(labels)}: --value {labels[0]}=…")
            kind = _CONTROLS[control["type"]]
            value = [each.label] if kind == "choices" else each.value
            result = {"from_name": name, "to_name": control["to_name"][0], "type": kind, "value": {kind: value}}
            body = {"task": int(each.id), "model_version": each.identifier, "result": [result]}
            path = f"/api/predictions/{known[each.id]}/" if each.id in known else "/api/predictions/"
            api.send(path, body | present(score=each.confidence), method="PATCH" if each.id in known else "POST")
        return len(verdicts)

    def _api(self) -> JsonApi:
        url, secret = address(("LABEL_STUDIO_URL", "LABEL_STUDIO_HOST"), None), key("LABEL_STUDIO_API_KEY")
        return JsonApi("Label Studio", url, keys="LABEL_STUDIO_API_KEY", auth=_Token(url, secret))

    def _control(self, config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        fit = {name: each for name, each in config.items() if each.get("type") in _CONTROLS}
        chosen = [self._score] if self._score else list(fit)
        if len(chosen) != 1 or chosen[0] not in fit:
            raise InputError(f"which control takes the verdicts? --score NAME, one of: {', '.join(fit) or 'none fits'}")
        return chosen[0], fit[chosen[0]]


class _Token(httpx2.Auth):
    """A personal access token, which buys tokens that last minutes; older tokens are sent as they are."""

    requires_response_body = True

    def __init__(self, url: str, secret: str) -> None:
        self._url, self._secret = url, secret
        self._header = None if secret.count(".") == 2 else f"Token {secret}"

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send the request, once more with a new token where the old one is over."""
        for _ in range(2):
            if self._header is None:
                answer = yield httpx2.Request("POST", f"{self._url}/api/token/refresh", json={"refresh": self._secret})
                if not answer.is_success:
                    raise ConfigurationError(f"Label Studio refuses LABEL_STUDIO_API_KEY ({answer.status_code})")
                self._header = f"Bearer {answer.json()['access']}"
            request.headers["authorization"] = self._header
            answer = yield request
            if answer.status_code != 401 or self._header.startswith("Token "):
                return
            self._header = None


def _annotated(task: Mapping[str, Any], people: Mapping[Any, Any]) -> Iterator[Said]:
    for annotation in task["annotations"]:
        if annotation.get("was_cancelled"):
            continue
        who = annotation.get("completed_by")
        source = (who.get("email") or who.get("id")) if isinstance(who, Mapping) else people.get(who) or who
        for result in annotation.get("result") or []:
            yield _said(result, person=True, source=source, at=annotation.get("updated_at"))


def _predicted(task: Mapping[str, Any]) -> Iterator[Said]:
    for prediction in task.get("predictions") or []:
        for result in prediction.get("result") or [] if isinstance(prediction, Mapping) else []:
            yield _said(result, person=False, source=prediction.get("model_version"), at=prediction.get("updated_at"))


def _said(result: Mapping[str, Any], *, person: bool, source: Any, at: str | None) -> Said:
    kind = str(result.get("type"))
    held = (result.get("value") or {}).get("text" if kind == _WORDS else kind)
    parts = held if isinstance(held, list) else [held]
    if kind == _WORDS:
        told: dict[str, Any] = {"name": "", "words": "\n".join(map(_text, parts))}
    else:
        told = {"name": str(result.get("from_name")), "value": parts[0] if len(parts) == 1 else held}
    return Said(**told, person=person, source=_text(source) or UNKNOWN_SOURCE, created_at=at)


def _text(value: Any) -> str:
    return "" if value is None else str(value)
