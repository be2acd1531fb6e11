"""What tracers call the parts of a span; of several names the first that a span has counts."""

from __future__ import annotations

import re
from typing import Literal

SPANS = ("spans", "observations")
IDS = ("spanId", "span_id")
PARENTS = (
    *("parentSpanId", "parent_span_id", "parent_id", "parentId", "parent_run_id", "parent_run_ids"),
    *("parentObservationId", "span_parents"),
)
CHILDREN = ("children", "child_spans", "child_runs")
TRACES = ("traceId", "trace_id", "root_span_id")
STARTS = ("startTimeUnixNano", "start_time_unix_nano", "start_time_ns", "start_time", "startTime", "start")
ENDS = ("endTimeUnixNano", "end_time_unix_nano", "end_time_ns", "end_time", "endTime", "end")
OF_SPANS = (*IDS, *PARENTS, *CHILDREN, *TRACES, *STARTS, "context")
"""One of these and a name make a span; an `id` alone does not."""
INPUTS = ("inputs", "input")
OUTPUTS = ("outputs", "output")
KINDS = ("span_type", "spanType", "span_kind", "run_type", "type", "kind")
MESSAGES_OF_STATUS = ("message", "description", "status_message", "statusMessage")
INPUT_ATTRIBUTES = (
    *("mlflow.spanInputs", "input.value", "traceloop.entity.input", "gen_ai.input.messages"),
    *("gen_ai.tool.call.arguments", "gen_ai.prompt", "llm.input_messages", "langfuse.observation.input", "input"),
)
OUTPUT_ATTRIBUTES = (
    *("mlflow.spanOutputs", "output.value", "traceloop.entity.output", "gen_ai.output.messages"),
    *("gen_ai.tool.call.result", "gen_ai.completion", "llm.output_messages", "langfuse.observation.output", "output"),
)
MESSAGES = {
    "gen_ai.prompt": "gen_ai.prompt",
    "llm.input_messages": "gen_ai.prompt",
    "gen_ai.completion": "gen_ai.completion",
    "llm.output_messages": "gen_ai.completion",
}
"""Lists of messages whose entries are spread over numbered names, and the attribute that the list is read as."""
KIND_ATTRIBUTES = ("mlflow.spanType", "openinference.span.kind", "traceloop.span.kind", "gen_ai.operation.name")
OPERATIONS = dict.fromkeys(("chat", "text_completion", "generate_content"), "LLM") | {
    "execute_tool": "TOOL",
    "invoke_agent": "AGENT",
    "create_agent": "AGENT",
    "embeddings": "EMBEDDING",
}
OTEL_KINDS = {2: "SERVER", 3: "CLIENT", 4: "PRODUCER", 5: "CONSUMER"}
NO_KIND = frozenset(("UNKNOWN", "INTERNAL", "UNSPECIFIED", "NONE"))
STATUSES: dict[str, Literal["ok", "error", "unset"]] = {
    **dict.fromkeys(("1", "OK", "SUCCESS"), "ok"),
    **dict.fromkeys(("2", "ERROR", "FAILED"), "error"),
    **dict.fromkeys(("", "0", "UNSET", "NONE", "DEFAULT"), "unset"),
}
READ = {*SPANS, *IDS, *PARENTS, *CHILDREN, *TRACES, *STARTS, *ENDS, *INPUTS, *OUTPUTS, *KINDS, *MESSAGES_OF_STATUS}
READ |= {"name", "attributes", "events", "context", "span_attributes", "status", "status_code", "level"}
"""Fields of a span that are read."""
HIDDEN = re.compile(
    r".*(scores?|feedback|assessment|annotation|evaluation|comment|metadata).*"  # they would tell the judge the verdict
    r"|.*(time|dropped|trace_?[Ss]tate|instrumentation|metrics).*|id|.*(_id|_ids|Id|Ids)"
    r"|flags|links|resource|scope|created|is_root|dotted_order",
)
"""Fields that are not shown, because of what they say or because they tell how a span was recorded; others are."""
VERDICTS = "gen_ai.evaluation"  # how the names of events begin that hold what an evaluator said
ASSESSMENTS = ("assessments", "feedback", "annotations", "scores", "evaluations")
"""What people and programs say of a conversation: it would tell the judge the verdict."""
TRACERS = re.compile(r"mlflow\.(traceRequestId|spanFunctionName|experimentId|spanLogLevel)|(in|out)put\.mime_type")
"""Attributes that say how a span was recorded."""
