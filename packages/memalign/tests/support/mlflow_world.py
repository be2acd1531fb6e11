"""MLflow for tests: traces that people gave feedback on, a model on loopback that
learns from it, a tracking server."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import AssessmentSource
from mlflow.exceptions import MlflowException
from mlflow.genai.judges import make_judge

from memalign.integrations.mlflow import MemAlignOptimizer
from memalign.models.base import ChatRequest
from tests.support.endpoint import Answer, Body, Endpoint, system_of, user_of
from tests.support.learning import changes_of
from tests.support.patience import PATIENCE
from tests.support.rows import RawRow
from tests.support.world import World

INSTRUCTIONS = "Is the answer kind? Question: {{ inputs }} Answer: {{ outputs }}"
THEIR_RECORD = re.compile(
    r'^  "id": (\d+),$.*?"rationale": "(?:say: )?(.*?)",?$', re.MULTILINE | re.DOTALL
)
"""A piece of feedback in the prompt of MLflow's own optimizer: its number and its rule."""


class Mind(World):
    """The model of `World`, as an endpoint asks it; what it has no part for (MLflow's
    own judge) is answered by `other`."""

    other: Any = staticmethod(lambda _: {"result": True, "rationale": "looked"})

    def answer(self, body: Body) -> Answer:
        name = schema_name(body)
        if name not in ("judgment", "changes"):
            return json.dumps(self.other(body))
        user = user_of(body)
        # A conversation is known by its last answer.
        if name == "judgment" and 'outputs: "' not in user:
            last = re.findall(r"answer \w+", user)[-1]
            user += f'\noutputs: "{last}"'
        asked = ChatRequest(
            system=system_of(body), user=user, schema={}, schema_name=name
        )
        reply = self(asked)
        assert isinstance(reply, dict), reply
        return reply


def schema_name(body: Body) -> str:
    """The name of the schema that is asked for; "" where none is."""
    wanted = body.get("response_format") or {}
    return str(wanted.get("json_schema", {}).get("name", ""))


def following(rules: frozenset[str], item: str) -> bool:
    """Kind, unless a rule in the prompt names the case: `case 3 is unkind`."""
    return f"case {item} is unkind" not in rules


def tone_judge(**changes: Any) -> Any:
    settings: dict[str, Any] = {
        "instructions": INSTRUCTIONS,
        "model": "openai:/small",
        "feedback_value_type": bool,
    }
    return make_judge(**{"name": "tone"} | settings | changes)


@contextmanager
def refused(words: str) -> Iterator[None]:
    """A block in which the caller is told in these words that a value is wrong."""
    with pytest.raises(MlflowException, match=words) as error:
        yield
    assert error.value.error_code == "INVALID_PARAMETER_VALUE"


def traced(number: int | str, *, session: str | None = None) -> str:
    """A new trace of one question and answer; its id."""
    with mlflow.start_span("reply") as span:
        if session is not None:
            mlflow.update_current_trace(metadata={"mlflow.trace.session": session})
        span.set_inputs({"question": f"question {number}"})
        with mlflow.start_span("look up", span_type="TOOL") as inner:
            inner.set_inputs({"number": str(number)})
            inner.set_outputs("found")
        span.set_outputs(f"answer {number}")
    return str(span.trace_id)


def says(
    trace_id: str,
    value: Any,
    rationale: str | None = None,
    *,
    by: str = "ana",
    name: str = "tone",
    kind: str = "HUMAN",
) -> str:
    """Feedback on a trace; its id."""
    source = AssessmentSource(source_type=kind, source_id=by)
    given = mlflow.log_feedback(
        trace_id=trace_id, name=name, value=value, rationale=rationale, source=source
    )
    return str(given.assessment_id)


def labelled(number: int | str) -> str:
    """A new trace to which somebody gives a label without a word; its id."""
    trace_id = traced(number)
    says(trace_id, True)
    return trace_id


def lesson(number: int | str, *, name: str = "tone") -> str:
    """A new trace on which somebody teaches `case N is unkind`; its id."""
    trace_id = traced(number)
    says(trace_id, False, f"say: case {number} is unkind", name=name)
    return trace_id


def fetched(*ids: str) -> list[Any]:
    return [mlflow.get_trace(each) for each in ids]


def taught(*ids: str, **changes: Any) -> Any:
    """A judge that learned from these traces."""
    return MemAlignOptimizer().align(tone_judge(**changes), fetched(*ids))


def rules_of(judge: Any) -> list[str]:
    return [guideline.guideline_text for guideline in judge._semantic_memory]


def item(number: int) -> RawRow:
    """What a judge is asked about, much as a trace of this number has it."""
    question = {"question": f"question {number}, as of today"}
    return {"inputs": question, "outputs": f"answer {number}"}


def as_mlflow_asks(body: Body) -> dict[str, Any]:
    """The same model as MLflow's own optimizer and judges ask it: `say: case 3 is
    unkind` becomes that guideline."""
    prompt = system_of(body) + user_of(body)
    if "source_trace_ids" in prompt:
        said: dict[str, list[int]] = {}
        for number, rule in THEIR_RECORD.findall(prompt):
            said.setdefault(rule, []).append(int(number))
        guidelines = []
        for rule, ids in said.items():
            guidelines.append({"guideline_text": rule, "source_trace_ids": ids})
        return {"guidelines": guidelines}
    asked = re.findall(r"answer (\w+)", user_of(body)) or ["nothing"]
    learned = prompt.partition("Distilled Guidelines")[2]
    rules = frozenset(re.findall(r"^  - (.*?)\.?$", learned, re.MULTILINE))
    return {"result": following(rules, asked[-1]), "rationale": "so"}


def teachable(body: Body) -> Any:
    """The model of the demo: sends all replies, until it was told that an upset
    customer wants an apology."""
    name = schema_name(body)
    user = user_of(body)
    if name == "changes":
        return changes_of(user)
    if "source_trace_ids" in user:
        return as_mlflow_asks(body)
    upset = "furious" in user.rpartition("Now judge this item:")[2]
    value = not (upset and "say sorry first" in system_of(body))
    if name == "judgment":
        return {"rationale": "so", "value": value}
    if name in ("", "ResponseFormat"):
        return json.dumps({"result": value, "rationale": "so"})
    return {}


def mlflows_optimizer() -> Any:
    """MLflow's own MemAlignOptimizer, which keeps nothing from one test to the next; it
    needs DSPy."""
    from mlflow.genai.judges.optimizers import MemAlignOptimizer

    dspy: Any = import_module("dspy")
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    return MemAlignOptimizer


@contextmanager
def tracking_server(folder: Path, store: str) -> Iterator[str]:
    """The address of an MLflow tracking server over `store`, while the block lasts.

    Its artifacts are in `folder`. It has a connection for each of its threads: SQLite's
    fifteen are fewer than those, and on a busy machine whoever waits half a minute is refused.
    """
    settings = {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_SQLALCHEMYSTORE_POOL_SIZE": "64",
        # Its gateway may ask a model on this machine.
        "MLFLOW_GATEWAY_API_BASE_ALLOWED_SCHEMES": "http",
        "MLFLOW_GATEWAY_API_BASE_ALLOW_PRIVATE_IPS": "true",
    }
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    address = f"http://127.0.0.1:{port}"
    options = f"--workers 1 --host 127.0.0.1 --port {port} --backend-store-uri"
    artifacts = ["--artifacts-destination", (folder / "artifacts").as_uri()]
    command = [sys.executable, "-m", "mlflow", "server", *options.split(), store]
    log = folder / "log"
    with (
        log.open("w") as written,
        subprocess.Popen(
            command + artifacts,
            stdout=written,
            stderr=written,
            cwd=folder,
            start_new_session=True,
            env=dict(os.environ) | settings,
        ) as process,
    ):
        try:
            deadline = time.monotonic() + PATIENCE
            while not healthy(address):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.3)
            yield address
        finally:
            os.killpg(process.pid, 15)  # its workers, too


def healthy(address: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=5):
        return True
    return False


def gateway_model(endpoint: Endpoint, name: str) -> str:
    """A model at the tracking server's gateway that asks the endpoint on loopback."""
    from mlflow.entities import GatewayEndpointModelConfig, GatewayModelLinkageType
    from mlflow.tracking._tracking_service.utils import _get_store

    store = _get_store()
    secret = store.create_gateway_secret(
        secret_name=name,
        secret_value={"api_key": "none"},
        provider="openai",
        auth_config={"api_base": endpoint.base_url},
    )
    model = store.create_gateway_model_definition(
        name=name, secret_id=secret.secret_id, provider="openai", model_name="small"
    )
    config = GatewayEndpointModelConfig(
        model_definition_id=model.model_definition_id,
        linkage_type=GatewayModelLinkageType.PRIMARY,
        weight=1.0,
    )
    store.create_gateway_endpoint(
        name=name, model_configs=[config], usage_tracking=False
    )
    return f"gateway:/{name}"
