"""What a server's API can do, made from its description by packages/memalign-server/make_client.py."""

# fmt: off
# mypy: disable-error-code="empty-body"
# A method says what it takes and gives; the decorator sends the request.

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from memalign.client.operation import operation

__all__ = [
    "AnswerShown", "ChangeShown", "ChangeSummary", "CheckGiven", "Content", "DeliveryShown", "DisagreementShown",
    "Explained", "InvitationShown", "JobShown", "JudgeShown", "JudgeSummary", "LedgerShown", "LocksShown", "Me",
    "MemberShown", "Operations", "PageOfChangeSummary", "PageOfDictStrAny", "PageOfDisagreementShown",
    "PageOfGuideline", "PageOfJobShown", "PageOfJudgeSummary", "PageOfLedgerShown", "PageOfReviewCase",
    "PageOfVersionShown", "PendingShown", "ProgressShown", "ReasonShown", "ReviewCase", "RunGiven", "Saved",
    "TeamShown", "ThumbShown", "TokenShown", "TurnShown", "VerificationShown", "VersionShown", "WebhookShown",
]


class AnswerShown(TypedDict):
    """What one person said of a case. `taught` says that the judge has learned it as it stands."""
    person: str
    state: Literal["answered", "skipped", "unclear", "undone"]
    value: bool | int | float | str | None
    rationale: str | None
    revision: int
    taught: bool
    updated_at: str


class ChangeShown(TypedDict):
    """What a version changed: the guidelines that it was the first to have, and the verdicts that it turned."""
    version: int
    guidelines: list[dict[str, Any]]
    turned: list[TurnShown]


class ChangeSummary(TypedDict):
    """A version that turned verdicts, and how many."""
    version: int
    turned: int


class CheckGiven(TypedDict):
    """A yes/no question about an item, what answer speaks for a label, and for which."""
    question: str
    answer: NotRequired[Literal["yes", "no"]]
    value: NotRequired[Any]


class Content(TypedDict):
    """One case: at least one of its fields."""
    id: str | None
    inputs: Any
    outputs: Any
    expectations: Any
    conversation: Any
    trace: Any
    meta: dict[str, Any]


class DeliveryShown(TypedDict):
    """What a webhook was told, or is still to be told: `state` is waiting, delivered or failed."""
    id: str
    event: str
    judge: str
    state: str
    tries: int
    answer: str | None
    created_at: str


class DisagreementShown(TypedDict):
    """A case that you and somebody else answered differently, and everybody's answers."""
    id: str
    example: dict[str, Any]
    answers: list[AnswerShown]


class Explained(TypedDict):
    """What a judgment was made of: the guidelines and cases in its prompt, and the prompt as it was sent."""
    judge: str
    version: int
    id: str
    judgment: dict[str, Any]
    guidelines: list[dict[str, Any]]
    examples: list[dict[str, Any]]
    same_prompt: bool
    prompt: dict[str, Any]
    swapped_prompt: dict[str, Any] | None


class InvitationShown(TypedDict):
    """An invitation. `link` is there once: in the answer that made it."""
    id: str
    role: Literal["viewer", "reviewer", "owner"]
    expires_at: str
    link: str | None


class JobShown(TypedDict):
    """Long work: how far it is, and what it gave."""
    id: str
    kind: str
    judge: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    asked_by: str
    phase: str
    done: int
    total: int
    result: Any
    problem: str | None
    created_at: str
    started_at: str | None
    ended_at: str | None


class JudgeShown(TypedDict):
    """A judge's settings and what its memory holds."""
    name: str
    version: int
    instructions: str
    value_type: str
    model: str | None
    embedding_model: str | None
    retrieval_k: int | None
    parameters: dict[str, Any]
    columns: dict[str, Any]
    policy: list[str]
    authority: list[str]
    locks: list[str]
    memory_hash: str
    cases: int
    feedback: int
    guidelines: list[dict[str, Any]]
    pending: list[PendingShown]
    stale_pre_alignment: list[str]


class JudgeSummary(TypedDict):
    """One judge, in its latest version."""
    name: str
    team: str
    versions: int
    latest: int
    value_type: str
    model: str | None
    cases: int
    feedback: int
    guidelines: int
    pending: int
    updated_at: str


class LedgerShown(TypedDict):
    """Where one piece of feedback ended."""
    key: str
    state: str
    reason: str
    guideline_ids: list[str]


class LocksShown(TypedDict):
    """The ids of the cases that no later align may break."""
    version: int
    locks: list[str]


class Me(TypedDict):
    """Who asks: the name is the source of your feedback. `by` is open, session or token."""
    name: str
    by: str
    teams: list[TeamShown]


class MemberShown(TypedDict):
    """Somebody in a team."""
    user: str
    name: str
    role: Literal["viewer", "reviewer", "owner"]


class PageOfChangeSummary(TypedDict):
    """One piece of a list; `next` is the cursor of the next one."""
    items: list[ChangeSummary]
    next: str | None


class PageOfDictStrAny(TypedDict):
    """One piece of a list; `next` is the cursor of the next one."""
    items: list[dict[str, Any]]
    next: str | None


class PageOfDisagreementShown(TypedDict):
    """One piece of a list; `next` is the cursor of the next one."""
    items: list[DisagreementShown]
    next: str | None


class PageOfGuideline(TypedDict):
    """One piece of a list; `next` is the cursor of the next one."""
    items: list[dict[str, Any]]
    next: str | None


class PageOfJobShown(TypedDict):
    """One piece of a list; `next` is the cursor of the next one."""
    items: list[JobShown]
    next: str | None


class PageOfJudgeSummary(TypedDict):
    """One piece of a list; `next` is the cursor of the next one."""
    items: list[JudgeSummary]
    next: str | None


class PageOfLedgerShown(TypedDict):
    """One piece of a list; `next` is the cursor of the next one."""
    items: list[LedgerShown]
    next: str | None


class PageOfReviewCase(TypedDict):
    """One piece of a list; `next` is the cursor of the next one."""
    items: list[ReviewCase]
    next: str | None


class PageOfVersionShown(TypedDict):
    """One piece of a list; `next` is the cursor of the next one."""
    items: list[VersionShown]
    next: str | None


class PendingShown(TypedDict):
    """Feedback whose lesson waits."""
    key: str
    reason: str


class ProgressShown(TypedDict):
    """How far you are, and what blind answers prove so far."""
    total: int
    answered: int
    skipped: int
    unclear: int
    left: int
    disagreements: int
    untaught: int
    blind: int
    agreed: int
    missing: int
    agreement: float | None
    low: float | None
    high: float | None


class ReasonShown(TypedDict):
    """One thing that speaks for asking: its code, how strongly (0 to 1), and a figure or a name."""
    code: str
    degree: float
    detail: str


class ReviewCase(TypedDict):
    """One case of the queue. While it is `hidden`, `judgment` is null and `others` is empty: you are asked first."""
    id: str
    example: dict[str, Any]
    reasons: list[ReasonShown]
    hidden: bool
    mine: AnswerShown | None
    judgment: dict[str, Any] | None
    version: int | None
    agree: bool | None
    others: list[AnswerShown]
    problem: str | None


class RunGiven(TypedDict):
    """What a job that judged gave: `judge` is the signature of the judge, `judgments` are its verdicts."""
    judge: str
    judgments: list[dict[str, Any]]


class Saved(TypedDict):
    """What a change made: the version now, and the one that it was made from; the same where nothing changed."""
    judge: str
    version: int
    parent: int


class TeamShown(TypedDict):
    """One of your teams, and your role in it."""
    id: str
    name: str
    role: Literal["viewer", "reviewer", "owner"]


class ThumbShown(TypedDict):
    """The feedback that a thumb made; the judge learns it at the next `teach`."""
    case: str
    source: str
    value: bool | int | float | str | None
    rationale: str | None


class TokenShown(TypedDict):
    """One token. `secret` is there once: in the answer that made it."""
    id: str
    name: str
    role: Literal["viewer", "reviewer", "owner"]
    created_at: str
    expires_at: str | None
    used_at: str | None
    secret: str | None


class TurnShown(TypedDict):
    """A case of which a version says something else than the one before."""
    case: str
    hidden: bool
    before: bool | int | float | str | None
    after: bool | int | float | str | None
    label: bool | int | float | str | None
    effect: Literal["fixed", "broken", "moved", "turned"] | None
    guidelines: list[str]
    decision: Literal["accepted", "objected"] | None
    decided_by: str | None


class VerificationShown(TypedDict):
    """What a receipt is worth: it `holds` where it was signed here and nothing that was erased is back."""
    holds: bool
    judge: str
    genuine: bool
    unchanged: bool
    versions: int
    back: list[list[Any]]


class VersionShown(TypedDict):
    """One version of a judge."""
    number: int
    parent: int | None
    action: str
    created_at: str
    summary: str
    note: str | None
    redacted: bool
    memory_hash: str
    cases: int
    feedback: int
    guidelines: int
    pending: int


class WebhookShown(TypedDict):
    """One webhook. `secret` is there once: in the answer that made it."""
    id: str
    url: str
    events: list[str]
    created_at: str
    secret: str | None

class Operations:
    """Every operation of the API."""

    @operation("GET", "/judges")
    def list_judges(self, *, limit: int | None = None, cursor: str | None = None) -> PageOfJudgeSummary:
        """The judges of your teams, by name."""

    @operation("POST", "/judges")
    def create_judge(
        self, *, name: str, instructions: str, value_type: str, model: str | None = None,
        embedding_model: str | None = None, retrieval_k: int | None = None, parameters: dict[str, Any] | None = None,
        columns: dict[str, Any] | None = None, team: str | None = None,
    ) -> JudgeShown:
        """Define a judge and keep it as version 1. No model is called."""

    @operation("GET", "/judges/{judge}")
    def show_judge(self, judge: str, *, version: int | None = None) -> JudgeShown:
        """A judge's settings, its guidelines with their sources, and what is pending."""

    @operation("PATCH", "/judges/{judge}")
    def edit_judge(
        self, judge: str, *, instructions: str | None = None, model: str | None = None,
        embedding_model: str | None = None, retrieval_k: int | None = None, parameters: dict[str, Any] | None = None,
        columns: dict[str, Any] | None = None, authority: list[str] | None = None,
        policy: list[Literal["authority", "majority", "recency"]] | None = None,
    ) -> JudgeShown:
        """Change settings: a new version with the same memory."""

    @operation("DELETE", "/judges/{judge}")
    def delete_judge(self, judge: str) -> JudgeSummary:
        """Delete a judge with all its versions, for good; what went."""

    @operation("GET", "/judges/{judge}/versions")
    def list_versions(self, judge: str, *, limit: int | None = None, cursor: str | None = None) -> PageOfVersionShown:
        """Every version, the newest first."""

    @operation("GET", "/judges/{judge}/diff")
    def diff_versions(self, judge: str, *, one: int, other: int) -> dict[str, Any]:
        """What changed from version `one` to version `other`: settings, guidelines, feedback."""

    @operation("POST", "/judges/{judge}/rollback", "to")
    def rollback_judge(self, judge: str, *, to: int) -> Saved:
        """Make the content of version `to` the next version; never brings back what was erased."""

    @operation("GET", "/judges/{judge}/bundle")
    def export_judge(self, judge: str, *, version: int | None = None) -> dict[str, Any]:
        """A version as one frozen JSON document. It holds the cases and what everybody said, and so is for owners."""

    @operation("POST", "/judges/import")
    def import_judge(
        self, *, bundle: dict[str, Any], name: str | None = None, team: str | None = None,
        allow_erased: bool | None = None,
    ) -> Saved:
        """Keep an exported judge as version 1. A name that is there is a conflict; give another `name`."""

    @operation("POST", "/judges/{judge}/judge", "version", "keep")
    def judge_one(
        self, judge: str, *, version: int | None = None, keep: bool | None = None, id: str | None = None,
        inputs: Any = None, outputs: Any = None, expectations: Any = None, conversation: Any = None, trace: Any = None,
        meta: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Judge one case now. A model that fails is a problem with its reason.

        Of a case that waits for review you have seen the verdict then: your answer on it is no blind one.
        A case that is kept and has no `id` gets one made of its content; the judgment has it.
        """

    @operation("POST", "/judges/{judge}/cases/{case}/thumb")
    def thumb_case(
        self, judge: str, case: str, *, up: bool, value: bool | int | float | str | None = None,
        rationale: str | None = None, source: str | None = None,
    ) -> ThumbShown:
        """Agree with a kept verdict, or not; a second thumb of the same source replaces the first."""

    @operation("POST", "/judges/{judge}/teach")
    def teach_kept(self, judge: str) -> JobShown:
        """Let the judge learn what people said on the pages and by thumbs, and has not learned yet."""

    @operation("POST", "/judges/{judge}/judgments")
    def judge_many(
        self, judge: str, *, examples: list[dict[str, Any]], version: int | None = None, concurrency: int | None = None,
        max_cost: float | None = None,
    ) -> JobShown:
        """Judge many cases as a job; its result has `judgments`, in the order of the cases."""

    @operation("POST", "/judges/{judge}/align")
    def align_judge(
        self, judge: str, *, feedback: list[dict[str, Any]] | None = None, skip_invalid: bool | None = None,
        allow_erased: bool | None = None, careful: bool | None = None, reflection_model: str | None = None,
        max_cost: float | None = None,
    ) -> JobShown:
        """Learn from experts' feedback: a new version. A row of a known id and source replaces the earlier one."""

    @operation("POST", "/judges/{judge}/overwrite")
    def overwrite_feedback(
        self, judge: str, *, feedback: list[dict[str, Any]] | None = None, skip_invalid: bool | None = None,
        allow_erased: bool | None = None, careful: bool | None = None, reflection_model: str | None = None,
        max_cost: float | None = None,
    ) -> JobShown:
        """Replace feedback that the judge has learned: an align that refuses unknown feedback."""

    @operation("POST", "/judges/{judge}/estimate")
    def estimate_align(
        self, judge: str, *, feedback: list[dict[str, Any]] | None = None, skip_invalid: bool | None = None,
        allow_erased: bool | None = None, careful: bool | None = None, reflection_model: str | None = None,
        max_cost: float | None = None,
    ) -> dict[str, Any]:
        """About how many calls, tokens and dollars an align would take. No model is asked."""

    @operation("POST", "/judges/{judge}/check")
    def check_feedback(self, judge: str, *, feedback: list[dict[str, Any]]) -> dict[str, Any]:
        """Look at feedback before aligning: labels, sources, duplicates, conflicts, bias. No model is called."""

    @operation("POST", "/judges/{judge}/unalign")
    def unalign_judge(self, judge: str, *, keys: list[str] | None = None, source: str | None = None) -> JobShown:
        """Forget feedback from the next version on; older versions keep it. A reviewer gives their own name as `source`."""

    @operation("POST", "/judges/{judge}/erase")
    def erase(
        self, judge: str, *, keys: list[str] | None = None, source: str | None = None, matching: str | None = None,
    ) -> JobShown:
        """Take feedback out of every version, for good; the job's result is the signed receipt."""

    @operation("POST", "/judges/{judge}/erase/preview")
    def preview_erase(
        self, judge: str, *, keys: list[str] | None = None, source: str | None = None, matching: str | None = None,
    ) -> dict[str, Any]:
        """What an erasure would take out. Nothing is changed."""

    @operation("POST", "/judges/{judge}/verify")
    def verify_receipt(self, judge: str, *, receipt: dict[str, Any]) -> VerificationShown:
        """Check the receipt of an erasure of this judge's: that it was signed here, and that nothing has come back."""

    @operation("POST", "/judges/{judge}/evaluate")
    def evaluate_judge(
        self, judge: str, *, labelled: list[dict[str, Any]], version: int | None = None, max_cost: float | None = None,
    ) -> JobShown:
        """Measure how far the judge agrees with people's labels, with 95 % intervals."""

    @operation("POST", "/judges/{judge}/gate")
    def gate_judge(
        self, judge: str, *, labelled: list[dict[str, Any]], version: int | None = None,
        minimum: dict[str, Any] | None = None, not_worse_than: float | None = None, baseline: int | None = None,
    ) -> JobShown:
        """Decide whether a judge is good enough; the result's `outcome` is pass, regression or inconclusive."""

    @operation("POST", "/judges/{judge}/report")
    def report_judge(self, judge: str, *, labelled: list[dict[str, Any]], version: int | None = None) -> JobShown:
        """Gather the evidence on cases that the judge has not learned from: data, a page, and text."""

    @operation("POST", "/judges/{judge}/next")
    def next_cases(
        self, judge: str, *, cases: list[dict[str, Any]], n: int | None = None, version: int | None = None,
        max_cost: float | None = None,
    ) -> JobShown:
        """Name the cases that experts should label next, and why."""

    @operation("POST", "/judges/{judge}/replay")
    def replay_judge(
        self, judge: str, *, model: str, cases: list[dict[str, Any]] | None = None, version: int | None = None,
        adopt: bool | None = None, concurrency: int | None = None,
    ) -> JobShown:
        """Show which verdicts another model would turn, and whether it agrees better with people."""

    @operation("POST", "/judges/{judge}/drift")
    def detect_drift(
        self, judge: str, *, first: RunGiven, second: RunGiven, first_examples: list[dict[str, Any]] | None = None,
        second_examples: list[dict[str, Any]] | None = None, false_alarms: float | None = None, n: int | None = None,
        version: int | None = None,
    ) -> JobShown:
        """Tell whether two runs differ by more than chance. No model is called."""

    @operation("POST", "/judges/{judge}/explain")
    def explain_judgment(
        self, judge: str, *, case: str | None = None, example: Content | None = None,
        judgment: dict[str, Any] | None = None, signature: str | None = None, version: int | None = None,
    ) -> Explained:
        """Show the very prompt of one judgment, byte for byte, its guidelines and its cases. No judge model is asked.

        A reviewer answers the cases in it first: they are shown with what people said of them.
        """

    @operation("GET", "/judges/{judge}/guidelines")
    def list_guidelines(
        self, judge: str, *, version: int | None = None, limit: int | None = None, cursor: str | None = None,
    ) -> PageOfGuideline:
        """Guidelines of every status, by their numbers."""

    @operation("POST", "/judges/{judge}/guidelines")
    def add_guideline(
        self, judge: str, *, text: str, pinned: bool | None = None, checks: list[CheckGiven] | None = None,
    ) -> dict[str, Any]:
        """Write a guideline in your own words."""

    @operation("GET", "/judges/{judge}/guidelines/{guideline}")
    def show_guideline(self, judge: str, guideline: str, *, version: int | None = None) -> dict[str, Any]:
        """One guideline with its checks, and the feedback that it comes from."""

    @operation("PATCH", "/judges/{judge}/guidelines/{guideline}")
    def edit_guideline(
        self, judge: str, guideline: str, *, text: str | None = None, pinned: bool | None = None,
        retired: bool | None = None, checks: list[CheckGiven] | None = None,
    ) -> dict[str, Any]:
        """Give a guideline another text or other checks, pin it, retire it, or bring it back."""

    @operation("POST", "/judges/{judge}/guidelines/{guideline}/merge")
    def merge_guidelines(
        self, judge: str, guideline: str, *, other: str, text: str, checks: list[CheckGiven] | None = None,
    ) -> dict[str, Any]:
        """Put a new guideline in the place of two. It goes with any feedback of either, and the other is back as it was."""

    @operation("GET", "/judges/{judge}/ledger")
    def show_ledger(
        self, judge: str, *, version: int | None = None, state: str | None = None, limit: int | None = None,
        cursor: str | None = None,
    ) -> PageOfLedgerShown:
        """Where every piece of feedback ended, by its key."""

    @operation("GET", "/judges/{judge}/lineage")
    def show_lineage(self, judge: str, *, key: str, version: int | None = None) -> dict[str, Any]:
        """What became of one piece of feedback through all versions: what the judge learned from it."""

    @operation("GET", "/judges/{judge}/locks")
    def list_locks(self, judge: str) -> LocksShown:
        """The cases that no later align may break."""

    @operation("PUT", "/judges/{judge}/locks/{case}")
    def lock_case(self, judge: str, case: str) -> LocksShown:
        """Lock a case: later aligns judge it again, and leave out what makes the judge wrong there."""

    @operation("DELETE", "/judges/{judge}/locks/{case}")
    def unlock_case(self, judge: str, case: str) -> LocksShown:
        """Let later aligns change a case again."""

    @operation("GET", "/judges/{judge}/review/cases")
    def list_review_cases(
        self, judge: str, *, state: Literal["open", "answered", "skipped", "unclear"] | None = None,
        guideline: str | None = None, people: str | None = None, judged: str | None = None, limit: int | None = None,
        cursor: str | None = None,
    ) -> PageOfReviewCase:
        """Cases in the order in which they were put in.

        `people` and `judged` go together: answered cases that people, asked blind, called the one and the judge the other.
        """

    @operation("POST", "/judges/{judge}/review/cases")
    def add_review_cases(self, judge: str, *, cases: list[dict[str, Any]]) -> JobShown:
        """Put cases in the queue and judge those there that are not judged. Content that is there already stays as it is."""

    @operation("GET", "/judges/{judge}/review/next")
    def next_review_cases(
        self, judge: str, *, n: int | None = None, again: bool | None = None, without: list[str] | None = None,
    ) -> list[ReviewCase]:
        """The cases that wait for you, the most useful first."""

    @operation("GET", "/judges/{judge}/review/cases/{case}")
    def show_review_case(self, judge: str, case: str) -> ReviewCase:
        """One case: before your answer its content, after it what the judge and others say."""

    @operation("PUT", "/judges/{judge}/review/cases/{case}/answer")
    def answer_case(
        self, judge: str, case: str, *, state: Literal["answered", "skipped", "unclear"] | None = None,
        value: bool | int | float | str | None = None, rationale: str | None = None, revision: int | None = None,
    ) -> ReviewCase:
        """Answer a case, skip it, or say that you cannot tell; the case then shows what the judge said.

        An answer over another `revision` than the one that stands changes nothing: 409, with what stands as `mine`.
        """

    @operation("DELETE", "/judges/{judge}/review/cases/{case}/answer")
    def undo_answer(self, judge: str, case: str, *, revision: int | None = None) -> ReviewCase:
        """Take your answer back, as long as the judge has not learned it; the next one is not blind any more."""

    @operation("GET", "/judges/{judge}/review/similar")
    def similar_guidelines(self, judge: str, *, words: str) -> list[dict[str, Any]]:
        """Guidelines in force that already say something like these words, the nearest first."""

    @operation("GET", "/judges/{judge}/review/disagreements")
    def list_disagreements(
        self, judge: str, *, limit: int | None = None, cursor: str | None = None,
    ) -> PageOfDisagreementShown:
        """Cases that you and somebody else answered differently, your latest answer first.

        To settle one, answer it anew; until then the judge's policy says which label counts.
        """

    @operation("GET", "/judges/{judge}/review/progress")
    def review_progress(self, judge: str) -> ProgressShown:
        """How far you are with the queue, and what blind answers prove so far."""

    @operation("GET", "/judges/{judge}/changes")
    def list_changes(self, judge: str, *, limit: int | None = None, cursor: str | None = None) -> PageOfChangeSummary:
        """The versions that turned verdicts, the newest first."""

    @operation("GET", "/judges/{judge}/changes/{version}")
    def show_change(self, judge: str, version: int) -> ChangeShown:
        """One version: what it was taught, and which verdicts it turned: broken ones first, hidden ones last."""

    @operation("PUT", "/judges/{judge}/changes/{version}/cases/{case}")
    def decide_change(
        self, judge: str, version: int, case: str, *, decision: Literal["accepted", "objected"],
    ) -> TurnShown:
        """Accept a turned verdict, or object to it; the last word counts."""

    @operation("GET", "/judges/{judge}/jobs")
    def list_jobs(
        self, judge: str, *, active: bool | None = None, limit: int | None = None, cursor: str | None = None,
    ) -> PageOfJobShown:
        """Jobs of a judge, the newest first."""

    @operation("GET", "/judges/{judge}/jobs/{job}")
    def show_job(self, judge: str, job: str) -> JobShown:
        """One job: its state, how far it is, and what it gave. What it tells of cases that wait for you is left out."""

    @operation("DELETE", "/judges/{judge}/jobs/{job}")
    def cancel_job(self, judge: str, job: str) -> JobShown:
        """Stop a job. An erasure that has begun goes on: half of one would be none."""

    @operation("GET", "/me")
    def show_me(self) -> Me:
        """Who you are, and your role in each of your teams."""

    @operation("GET", "/tokens")
    def list_tokens(self) -> list[TokenShown]:
        """Your API tokens, the newest first; never their secrets."""

    @operation("POST", "/tokens")
    def make_token(
        self, *, name: str, role: Literal["viewer", "reviewer", "owner"] | None = None, days: float | None = None,
    ) -> TokenShown:
        """Make an API token. A token cannot make another one."""

    @operation("DELETE", "/tokens/{token}")
    def revoke_token(self, token: str) -> None:
        """Take a token away from programs, at once."""

    @operation("POST", "/teams")
    def make_team(self, *, name: str) -> TeamShown:
        """Make a team; you are its first owner."""

    @operation("GET", "/teams/{team}/members")
    def list_members(self, team: str) -> list[MemberShown]:
        """Everybody in a team."""

    @operation("PUT", "/teams/{team}/members/{user}")
    def set_member(self, team: str, user: str, *, role: Literal["viewer", "reviewer", "owner"]) -> list[MemberShown]:
        """Give a member another role. A team keeps one owner at least."""

    @operation("DELETE", "/teams/{team}/members/{user}")
    def remove_member(self, team: str, user: str) -> None:
        """Take somebody out of a team. Their feedback stays; `memalign erase --source` takes it away."""

    @operation("GET", "/teams/{team}/invitations")
    def list_invitations(self, team: str) -> list[InvitationShown]:
        """Invitations that nobody has taken up; never their links."""

    @operation("POST", "/teams/{team}/invitations")
    def invite_to_team(self, team: str, *, role: Literal["viewer", "reviewer", "owner"]) -> InvitationShown:
        """Make a link by which one person joins a team, within a week. Send it to them yourself."""

    @operation("DELETE", "/teams/{team}/invitations/{invitation}")
    def withdraw_invitation(self, team: str, invitation: str) -> None:
        """Take an invitation back."""

    @operation("GET", "/teams/{team}/audit")
    def show_audit(self, team: str, *, limit: int | None = None, cursor: str | None = None) -> PageOfDictStrAny:
        """Who did what in a team, the newest first."""

    @operation("GET", "/teams/{team}/webhooks")
    def list_webhooks(self, team: str) -> list[WebhookShown]:
        """A team's webhooks, the oldest first; never their secrets."""

    @operation("POST", "/teams/{team}/webhooks")
    def add_webhook(self, team: str, *, url: str, events: list[str] | None = None) -> WebhookShown:
        """Tell an address when work of the team's judges ends. What is sent is signed with the secret."""

    @operation("DELETE", "/teams/{team}/webhooks/{webhook}")
    def remove_webhook(self, team: str, webhook: str) -> None:
        """Tell an address nothing more."""

    @operation("GET", "/teams/{team}/webhooks/{webhook}/deliveries")
    def list_deliveries(self, team: str, webhook: str) -> list[DeliveryShown]:
        """The last fifty things that a webhook was told, or is still to be told."""
