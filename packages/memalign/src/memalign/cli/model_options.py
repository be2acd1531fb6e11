"""How a judge's models are reached and what they cost: the options of create and edit, and how show says it."""

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
        str | None, _option(metavar="M", help="The model that judges, for example openai:gpt-4.1-mini.")
    ] = None
    check_model: Annotated[
        str | None,
        _option(
            metavar="M",
            help="A decision model that answers the guidelines' questions, for example typesafe:jev-latest or "
            "system-one:NAME@URL. '' removes it.",
        ),
    ] = None
    reflection_model: Annotated[
        str | None, _option(metavar="M", help="The model that writes the guidelines. '' means the model that judges.")
    ] = None
    embedding_model: Annotated[
        str | None, _option(metavar="M", help="The model that finds similar cases. The default runs in the process.")
    ] = None
    retrieval_k: Annotated[
        int | None, _option("-k", "--retrieval-k", metavar="N", min=0, help="Show up to N similar cases in a prompt.")
    ] = None
    param: Annotated[
        list[str] | None,
        _option(
            metavar="KEY=VALUE",
            help="Set temperature, max_tokens, reasoning_effort, seed, timeout, samples or swap. May be repeated.",
        ),
    ] = None
    base_url: Annotated[
        str | None,
        _option(metavar="URL", help="The address of an OpenAI-compatible server for an openai: model. '' removes it."),
    ] = None
    header: Annotated[
        list[str] | None,
        _option(
            metavar="'K: V'",
            help="Send a header to the model. Name a secret by its variable: 'Authorization: Bearer "
            "$MEMALIGN_HEADER_KEY'. May be repeated; '' removes all.",
        ),
    ] = None
    price: Annotated[
        str | None,
        _option(
            metavar="input=N,output=N",
            help="The model's price in dollars per million tokens, if the price list lacks it; cached=N may follow. "
            "'' removes it.",
        ),
    ] = None
    context: Annotated[
        int | None, _option(metavar="N", min=0, help="The model's context in tokens, if it is not known. 0 removes it.")
    ] = None
    role: Annotated[
        Literal["judge", "check", "reflection"],
        _option(
            "--for",
            metavar="ROLE",
            help="The model that --header, --price and --context describe: judge (the default), check or reflection.",
        ),
    ] = "judge"

    def __bool__(self) -> bool:
        """Whether an option says how a model is reached, what it costs, or who writes guidelines."""
        options = (self.base_url, self.reflection_model, self.header, self.price, self.context)
        return any(value is not None for value in options)

    def settings(self, *, new: bool) -> dict[str, Any]:
        """The settings of a judge that options name; a `new` judge without a model gets the environment's.

        Raises:
            ConfigurationError: A model cannot be used.
            InputError: A parameter is not KEY=VALUE.
        """
        from memalign.models import resolve, resolve_decision, resolve_embedding
        from memalign.models.resolve import names_decision_model

        settings: dict[str, Any] = {}
        model = self.with_address(self.model) if new or self.model else self.model
        if new or model is not None:
            decides = bool(model) and names_decision_model(model or "")
            settings["model"] = resolve_decision(model or "").name if decides else resolve(model or None).name
        if self.check_model is not None:
            settings["check_model"] = resolve_decision(self.check_model).name if self.check_model else None
        if self.embedding_model is not None:
            settings["embedding_model"] = resolve_embedding(self.embedding_model).name
        if self.retrieval_k is not None:
            settings["retrieval_k"] = self.retrieval_k
        if self.param:
            settings["parameters"] = dict(map(_parameter, self.param))
        return settings

    def with_address(self, model: str | None) -> str | None:
        """The model's name at the address of `--base-url`; an empty name is the environment's model.

        Raises:
            InputError: There is no model to find at that address.
        """
        from memalign.models import default_model_name
        from memalign.models.providers import with_address

        if self.base_url is None:
            return model
        name = model or default_model_name()
        if not name:
            raise InputError("--base-url needs the name of the model at that address: --model openai:NAME")
        return with_address(name, self.base_url or None)

    def apply(self, judge: Judge) -> Judge:
        """The judge with these settings. Models that it no longer has take their headers, prices and context along.

        Raises:
            InputError: The judge has no model of this role.
            ConfigurationError: A model cannot be opened; none is called.
        """
        from memalign.judge.spec import OF_MODELS, name_of
        from memalign.models.resolve import canonical_name

        if not self and "models" not in judge.parameters:
            return judge
        parameters = dict(judge.parameters)
        if self.reflection_model is not None:
            parameters["reflection_model"] = canonical_name(self.reflection_model) if self.reflection_model else None
        model = judge.model_name if self.base_url is None else self.with_address(judge.model_name)
        models = {"judge": model, "check": name_of(judge.check_model), "reflection": parameters.get("reflection_model")}
        names = {role: canonical_name(name) for role, name in models.items() if name is not None}
        settings = {name: dict(judge.parameters.get("models", {}).get(name, {})) for name in names.values()}
        if changes := self._about_model():
            if self.role not in names:
                option = f"--{self.role}-model" if self.role != "judge" else "--model"
                raise InputError(f"--for {self.role}: the judge has no {self.role} model; to set one: {option} NAME")
            settings[names[self.role]] |= changes
        settings = {name: {key: value for key, value in values.items() if value} for name, values in settings.items()}
        parameters["models"] = {name: values for name, values in settings.items() if values}
        changed = judge.replace(
            model=judge.model if model == judge.model_name else model,
            parameters={key: value for key, value in parameters.items() if key not in OF_MODELS or value},
        )
        if self:
            _open_models(changed)
        return changed

    def _about_model(self) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        if self.header is not None:
            settings["headers"] = dict(_header(text) for text in self.header if text.strip())
        if self.price is not None:
            settings["prices"] = _prices(self.price)
        if self.context is not None:
            settings["context"] = self.context
        return settings


class ModelCommand(Command):
    """A command that takes the options of a judge's models, and finds them in `session.models`."""

    own = params_of(ModelOptions)

    def __init__(self, *args: Any, params: Sequence[Any] = (), **kwargs: Any) -> None:
        super().__init__(*args, params=[*params, *self.own], **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command with a session that knows the options of models."""
        values: dict[str, Any] = {}
        for param in self.own:
            value = ctx.params.pop(param.name)
            values[param.name] = None if value == () else value  # what may be repeated, and was not given
        ctx.models = ModelOptions(**values)
        return super().invoke(ctx)


def _parameter(text: str) -> tuple[str, object]:
    key, equals, raw = (part.strip() for part in text.partition("="))
    if not equals:
        raise InputError(f"--param {text}: a parameter is written KEY=VALUE, for example --param temperature=0")
    try:
        return key, json.loads(raw)
    except ValueError:
        return key, raw


def _open_models(judge: Judge) -> None:
    """Open the judge's models: a wrong name or a missing key is known before anything is asked."""
    from memalign.models.judge_models import (
        check_model_of,
        decides_alone,
        open_judging_model,
        open_reflection_model,
    )

    check_model_of(judge)
    open_judging_model(judge)
    if not decides_alone(judge) or judge.parameters.get("reflection_model"):
        open_reflection_model(judge)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = (part.strip() for part in text.partition(":"))
    if not colon or not name:
        raise InputError("--header: a header is written 'NAME: VALUE', for example --header 'X-Team: support'")
    return name, value


def _prices(text: str) -> dict[str, float]:
    try:
        parts = (part.partition("=") for part in text.split(",") if part.strip())
        return {name.strip(): float(amount) for name, _, amount in parts}
    except ValueError:
        raise InputError(
            f"--price {text}: a price is in dollars per million tokens, for example --price "
            "input=0.4,output=1.6,cached=0.1"
        ) from None


def lost_settings(before: Judge, after: Judge) -> list[str]:
    """What an edit took from the judge's models unasked: an address, headers, prices, a context."""
    from memalign.judge.spec import name_of
    from memalign.models.providers import address_of

    lines = []
    old, new = before.model_name or "", after.model_name or ""
    address = address_of(old)[1]
    if address and old != new and new.startswith("openai:") and address_of(new)[1] is None:
        lines.append(
            f"{new} is no longer called at {address}; to call it there: memalign edit {after.name} --base-url {address}"
        )
    in_use = {new, name_of(after.check_model), after.parameters.get("reflection_model")}
    dropped = set(before.parameters.get("models", {})) - in_use
    return [*lines, *(f"the headers, price and context of {name} were removed with it" for name in sorted(dropped))]


def model_facts(judge: Judge) -> list[tuple[str, str]]:
    """What `show` says of the judge's models: headers as they are stored, their variables by name."""
    rows = []
    for name, settings in judge.parameters.get("models", {}).items():
        amounts = ", ".join(f"{kind} ${amount:g}" for kind, amount in settings.get("prices", {}).items())
        facts = [f"{amounts} per million tokens"] if amounts else []
        facts += [f"context {settings['context']:,} tokens"] if "context" in settings else []
        facts += [f"header {key}: {value}" for key, value in settings.get("headers", {}).items()]
        rows.append((f"of {name}", "; ".join(facts)))
    return rows
