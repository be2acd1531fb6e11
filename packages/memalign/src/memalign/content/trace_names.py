"""What tracers call the parts of a span; of several names the first that a span has counts."""

from __future__ import annotations

IDS = ("spanId", "span_id")
PARENTS = ("parentSpanId", "parent_span_id", "parent_id", "parentId", "parent_run_id")
CHILDREN = ("children", "child_spans", "child_runs")
TRACES = ("traceId", "trace_id")
STARTS = ("startTimeUnixNano", "start_time_unix_nano", "start_time_ns", "start_time", "startTime", "start")
ENDS = ("endTimeUnixNano", "end_time_unix_nano", "end_time_ns", "end_time", "endTime", "end")
INPUTS = ("inputs", "input")
OUTPUTS = ("outputs", "output")
KINDS = ("span_type", "spanType", "span_kind", "run_type", "type", "kind")
STATUS = ("status", "status_code", "status_message")
INPUT_ATTRIBUTES = (
    *("mlflow.spanInputs", "input.value", "traceloop.entity.input", "gen_ai.input.messages"),
    *("gen_ai.tool.call.arguments", "gen_ai.prompt", "llm.input_messages"),
)
OUTPUT_ATTRIBUTES = (
    *("mlflow.spanOutputs", "output.value", "traceloop.entity.output", "gen_ai.output.messages"),
    *("gen_ai.tool.call.result", "gen_ai.completion", "llm.output_messages"),
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
VERDICTS = "gen_ai.evaluation"  # how the names of events begin that hold what an evaluator said

ASSESSMENTS = ("assessments", "feedback", "annotations", "scores", "evaluations")
"""What people and programs say of a trace: it would tell the judge the verdict."""
SPAN_KEYS = frozenset(
    (
        *(*IDS, *PARENTS, *CHILDREN, *TRACES, *STARTS, *ENDS, *INPUTS, *OUTPUTS, *KINDS, *STATUS, *ASSESSMENTS[:2]),
        *("id", "name", "attributes", "events", "context", "traceState", "trace_state", "flags", "links", "resource"),
        *("scope", "instrumentation_scope", "droppedAttributesCount", "droppedEventsCount", "droppedLinksCount"),
        *("dropped_attributes_count", "dropped_events_count", "dropped_links_count"),
    )
)
"""Keys of a span that are read, or that say how it was recorded; any other is shown."""
TRACERS = frozenset(
    (
        *("mlflow.traceRequestId", "mlflow.spanFunctionName", "mlflow.experimentId", "mlflow.spanLogLevel"),
        *("input.mime_type", "output.mime_type"),
    )
)
"""Attributes that say how a span was recorded."""
EVENT_KEYS = frozenset(
    (
        *("name", "attributes", "timeUnixNano", "time_unix_nano", "timestamp", "time"),
        *("droppedAttributesCount", "dropped_attributes_count"),
    )
)
TRACE_KEYS = frozenset(("info", "data", "spans", "resourceSpans", "resource_spans", *TRACES, *ASSESSMENTS))
"""Keys of a trace that are read, or would tell the verdict; any other is shown beside the spans."""
