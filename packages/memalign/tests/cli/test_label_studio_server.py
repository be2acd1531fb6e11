"""A real Label Studio: tasks with a person's annotations, and a judge's verdicts as predictions.

`label-studio` on the PATH is taken, else one is installed (see `own_environment`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.conftest import Run
from tests.support.own_environment import free_port, listening, program

LABEL_STUDIO = "label-studio==1.23.2"
CONFIG = (
    '<View><Text name="question" value="$inputs"/><Text name="answer" value="$outputs"/>'
    '<Choices name="tone" toName="answer"><Choice value="good"/><Choice value="bad"/></Choices>'
    '<TextArea name="why" toName="answer"/></View>'
)
TASKS = [
    {"inputs": "My order is late.", "outputs": "It is in transit."},
    {"inputs": "Thanks!", "outputs": "Any time, enjoy your day!"},
]
WHO = {"email": "ana@example.org", "password": "on-loopback-only"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def label_studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    port, folder = free_port(), tmp_path_factory.mktemp("label-studio")
    command = [program("label-studio", LABEL_STUDIO), "start", "--no-browser", "--port", str(port)]
    command += ["--internal-host", "127.0.0.1", "--username", WHO["email"], "--password", WHO["password"]]
    settings = {"LABEL_STUDIO_BASE_DATA_DIR": str(folder), "COLLECT_ANALYTICS": "false"}
    with listening(command, settings, port, "/health", folder) as client:
        yield client


def token(client: httpx2.Client) -> str:
    """A personal access token, as a person makes one in the browser."""
    site = str(client.base_url).rstrip("/")
    form = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', client.get("/user/login/").text)
    assert form is not None
    headers = {"referer": site}
    client.post("/user/login/", data={**WHO, "csrfmiddlewaretoken": form[1]}, headers=headers)
    made = client.post("/api/token/", headers=headers | {"x-csrftoken": client.cookies["csrftoken"]})
    return str(made.raise_for_status().json()["token"])


def test_annotations_come_and_predictions_go(
    label_studio: httpx2.Client, memalign: Run, tone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    secret = token(label_studio)
    site = str(label_studio.base_url).rstrip("/")
    monkeypatch.setenv("LABEL_STUDIO_URL", site)
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", secret)
    access = httpx2.post(f"{site}/api/token/refresh", json={"refresh": secret}).json()["access"]
    headers = {"authorization": f"Bearer {access}"}

    def ask(method: str, path: str, body: Any = None, **query: Any) -> Any:
        answer = httpx2.request(method, f"{site}{path}", json=body, params=query, headers=headers, timeout=60)
        return answer.raise_for_status().json()

    project = str(ask("POST", "/api/projects", {"title": "replies", "label_config": CONFIG})["id"])
    ask("POST", f"/api/projects/{project}/import", TASKS)
    first, second = sorted(each["id"] for each in ask("GET", "/api/tasks", project=project)["tasks"])
    said = [
        {"from_name": "tone", "to_name": "answer", "type": "choices", "value": {"choices": ["bad"]}},
        {"from_name": "why", "to_name": "answer", "type": "textarea", "value": {"text": ["Correct but cold."]}},
    ]
    ask("POST", f"/api/tasks/{first}/annotations/", {"result": said})

    labels = ("--value", "good=true", "--value", "bad=false")
    learned = memalign("import-feedback", "label-studio", project, "--into", tone, *labels)
    assert learned.code == 0, learned.err
    (entry,) = memalign("ledger", tone, "--json").json["entries"]
    assert entry["key"] == f"{first}@ana@example.org"

    assert memalign("import-feedback", "label-studio", project, "--examples", "cases.jsonl").code == 0
    assert memalign("judge", tone, "cases.jsonl", "-o", "judged.jsonl").code == 0
    for _ in range(2):
        written = memalign("export-verdicts", "label-studio", tone, "judged.jsonl", project, *labels)
        assert written.code == 0, written.err
    back = ask("GET", "/api/predictions/", project=project)
    assert sorted((each["task"], each["model_version"]) for each in back) == [
        (first, "memalign/tone/v2"),
        (second, "memalign/tone/v2"),
    ], "a second export replaces the first"
    assert {each["result"][0]["value"]["choices"][0] for each in back} == {"good"}
