"""How a judge's models are reached and what they cost: the options of create and edit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memalign.cli.session import Command, params_of
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.judge import Judge

_option = partial(typer.Option, rich_help_panel="Model options")


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The options of create and edit that name a judge's models; None for what was not given."""

    model: Annotated[
        str | None,
        _option(
            metavar="M",
            help="The model that judges, for example openai:gpt-4.1-mini, or openai:NAME@URL on "
            "your server.",
        ),
    ] = None
    reflection_model: Annotated[
        str | None,
        _option(
            metavar="M",
            help="The model that writes the guidelines. '' means the model that judges.",
        ),
    ] = None
    embedding_model: Annotated[
        str | None,
        _option(
            metavar="M",
            help="The model that finds similar cases. The default runs in the process.",
        ),
    ] = None
    retrieval_k: Annotated[
        int | None,
        _option(
            "-k",
            "--retrieval-k",
            metavar="N",
            min=0,
            help="Show up to N similar cases in a prompt.",
        ),
    ] = None
    param: Annotated[
        list[str] | None,
        _option(
            metavar="KEY=VALUE",
            help="Set temperature, max_tokens, reasoning_effort, seed, timeout or swap. May be "
            "repeated.",
        ),
    ] = None
    price: Annotated[
        str | None,
        _option(
            metavar="input=N,output=N",
            help="The model's price in dollars per million tokens, if the price list lacks it; "
            "cached=N may follow. '' removes it.",
        ),
    ] = None
    context: Annotated[
        int | None,
        _option(
            metavar="N",
            min=0,
            help="The model's context in tokens, if it is not known. 0 removes it.",
        ),
    ] = None
    role: Annotated[
        Literal["judge", "reflection"],
        _option(
            "--for",
            metavar="ROLE",
            help="The model that --price and --context describe: judge (the default) or "
            "reflection.",
        ),
    ] = "judge"

    def apply(self, judge: Judge) -> Judge:
        """Return the judge with these options.

        What is known of models that it no longer has goes with them.
        """
        from memalign.models import resolve, resolve_decision, resolve_embedding
        from memalign.models.resolve import names_decision_model

        changes: dict[str, Any] = {}
        if self.model is not None:
            open_model = (
                resolve_decision if names_decision_model(self.model) else resolve
            )
            changes["model"] = open_model(self.model).name
        if self.embedding_model is not None:
            changes["embedding_model"] = resolve_embedding(self.embedding_model).name
        if self.retrieval_k is not None:
            changes["retrieval_k"] = self.retrieval_k
        parameters = dict(judge.parameters)
        for text in self.param or ():
            name, value = _parameter(text)
            parameters[name] = value
        if self.reflection_model is not None:
            parameters.pop("reflection_model", None)
        if self.reflection_model:
            parameters["reflection_model"] = resolve(self.reflection_model).name
        changed = judge.replace(**changes, parameters=parameters)
        rest = {name: value for name, value in parameters.items() if name != "models"}
        models = self._models_of(changed)
        if models:
            rest["models"] = models
        return changed.replace(parameters=rest)

    def _models_of(self, judge: Judge) -> dict[str, dict[str, Any]]:
        """Return what is known of each of the judge's models, by its name: prices, context."""
        from memalign.models.resolve import canonical_name

        known = judge.parameters.get("models", {})
        models = {
            "judge": judge.model_name,
            "reflection": judge.parameters.get("reflection_model"),
        }
        names = {
            role: canonical_name(name)
            for role, name in models.items()
            if name is not None
        }
        settings = {name: dict(known.get(name, {})) for name in names.values()}
        prices = None if self.price is None else _prices(self.price)
        for setting, value in {"prices": prices, "context": self.context}.items():
            if value is None:
                continue
            if self.role not in names:
                advice = f"to set one: --{self.role}-model NAME"
                raise InputError(
                    f"--for {self.role}: the judge has no such model; {advice}"
                )
            settings[names[self.role]][setting] = value
        described = {}
        for name, values in settings.items():
            kept = {key: value for key, value in values.items() if value}
            if kept:
                described[name] = kept
        return described


class ModelCommand(Command):
    """A command that takes the options of a judge's models, and finds them in `session.models`."""

    own = params_of(ModelOptions)

    def __init__(self, *args: Any, params: Sequence[Any] = (), **kwargs: Any) -> None:
        super().__init__(*args, params=[*params, *self.own], **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command with a session that knows the options of models."""
        options: dict[str, Any] = {}
        for param in self.own:
            value = ctx.params.pop(param.name)
            # An empty tuple is what may be repeated, and was not given.
            options[param.name] = None if value == () else value
        ctx.models = ModelOptions(**options)
        return super().invoke(ctx)


def _parameter(text: str) -> tuple[str, object]:
    key, equals, raw = (part.strip() for part in text.partition("="))
    if not equals:
        example = "for example --param temperature=0"
        raise InputError(f"--param {text}: a parameter is written KEY=VALUE, {example}")
    try:
        return key, json.loads(raw)
    except ValueError:
        return key, raw


def _prices(text: str) -> dict[str, float]:
    try:
        parts = (part.partition("=") for part in text.split(",") if part.strip())
        return {name.strip(): float(amount) for name, _, amount in parts}
    except ValueError:
        raise InputError(
            f"--price {text}: a price is in dollars per million tokens, for example --price "
            "input=0.4,output=1.6,cached=0.1"
        ) from None
