"""What the parts of a span are called, in the conventions of the tracers that `span_forms` reads.

Where several names are given for one part, the first one that a span has counts.
"""

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
INPUT_ATTRIBUTES = (
    "mlflow.spanInputs",
    "input.value",
    "traceloop.entity.input",
    "gen_ai.input.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.prompt",
    "llm.input_messages",
)
OUTPUT_ATTRIBUTES = (
    "mlflow.spanOutputs",
    "output.value",
    "traceloop.entity.output",
    "gen_ai.output.messages",
    "gen_ai.tool.call.result",
    "gen_ai.completion",
    "llm.output_messages",
)
MESSAGES = {
    "gen_ai.prompt": "gen_ai.prompt",
    "llm.input_messages": "gen_ai.prompt",
    "gen_ai.completion": "gen_ai.completion",
    "llm.output_messages": "gen_ai.completion",
}
"""Lists of messages whose entries stand under numbered names, and the attribute that the list is read as."""
KIND_ATTRIBUTES = ("mlflow.spanType", "openinference.span.kind", "traceloop.span.kind", "gen_ai.operation.name")
OPERATIONS = {
    "chat": "LLM",
    "text_completion": "LLM",
    "generate_content": "LLM",
    "execute_tool": "TOOL",
    "invoke_agent": "AGENT",
    "create_agent": "AGENT",
    "embeddings": "EMBEDDING",
}
VERDICTS = ("gen_ai.evaluation",)  # how the events begin that hold what an evaluator said
OTEL_KINDS = {2: "SERVER", 3: "CLIENT", 4: "PRODUCER", 5: "CONSUMER"}
NO_KIND = {"UNKNOWN", "INTERNAL", "UNSPECIFIED", "NONE"}
# Say nothing of the run, as keys of a span: how it was recorded, what stands elsewhere, and what people said of it.
BOOKKEEPING = frozenset(
    (
        *("traceState", "trace_state", "flags", "links", "resource", "scope", "instrumentation_scope", "id", "name"),
        *("droppedAttributesCount", "droppedEventsCount", "droppedLinksCount"),
        *("dropped_attributes_count", "dropped_events_count", "dropped_links_count"),
        *("assessments", "feedback"),
    )
)
# The same as attributes, where any other name is the author's own.
TRACERS = frozenset(
    (
        *("mlflow.traceRequestId", "mlflow.spanFunctionName", "mlflow.experimentId", "mlflow.spanLogLevel"),
        *("input.mime_type", "output.mime_type"),
    )
)
OF_CONTEXT = frozenset((*IDS, *TRACES, "trace_state", "traceState", "trace_flags", "traceFlags", "is_remote"))
OF_EVENTS = frozenset(
    (
        *("name", "attributes", "timeUnixNano", "time_unix_nano", "timestamp", "time"),
        *("droppedAttributesCount", "dropped_attributes_count"),
    )
)
# Beside the spans of a trace: what is read, its id, and what people and programs made of it, which holds the verdict.
BESIDE = frozenset(
    (
        *("info", "data", "spans", "resourceSpans", "resource_spans", *TRACES),
        *("assessments", "feedback", "annotations", "scores", "evaluations"),
    )
)
PLACE = frozenset((*IDS, *PARENTS, *TRACES))
INFO = ("state", "status", "execution_duration", "execution_duration_ms", "execution_time_ms")
