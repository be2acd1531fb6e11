"""How a judge's models are reached and what they cost: the options of create and edit, and how show says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = [
    "BaseUrl",
    "CheckModel",
    "CheckPrice",
    "Context",
    "Headers",
    "ModelOptions",
    "Price",
    "ReflectionContext",
    "ReflectionHeaders",
    "ReflectionModel",
    "ReflectionPrice",
    "facts_of_models",
    "left_behind",
]

_HEADER = "'K: V'"
_PRICE = "input=N,output=N"

BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url", metavar="URL", help="The OpenAI-compatible server of an openai: model; '' takes it away."
    ),
]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        metavar=_HEADER,
        help="Sent to the model; repeat it for several. A secret is named: 'Authorization: Bearer $MEMALIGN_HEADER_KEY'. "
        "'' takes all away.",
    ),
]
Price = Annotated[
    str | None,
    typer.Option(
        "--price",
        metavar=_PRICE,
        help="Dollars for a million tokens, where no list knows the model; ,cached=N may follow. '' takes it away.",
    ),
]
Context = Annotated[
    int | None,
    typer.Option(
        "--context", metavar="N", min=0, help="Tokens that the model takes, where no list knows; 0 takes it away."
    ),
]
ReflectionModel = Annotated[
    str | None,
    typer.Option(
        "--reflection-model",
        metavar="M",
        help="Writes the guidelines: a name, or openai:NAME@URL. Kept with the judge; '' is the judge's own model.",
    ),
]
CheckModel = Annotated[
    str | None,
    typer.Option(
        "--check-model",
        metavar="M",
        help="A decision model that answers the guidelines' questions beside a chat model, such as typesafe:jev-latest "
        "or system-one:NAME@URL; '' takes it away.",
    ),
]
CheckPrice = Annotated[str | None, typer.Option("--check-price", metavar=_PRICE, help="--price of the check model.")]
ReflectionHeaders = Annotated[
    list[str] | None, typer.Option("--reflection-header", metavar=_HEADER, help="--header of the reflection model.")
]
ReflectionContext = Annotated[
    int | None, typer.Option("--reflection-context", metavar="N", min=0, help="--context of the reflection model.")
]
ReflectionPrice = Annotated[
    str | None, typer.Option("--reflection-price", metavar=_PRICE, help="--price of the reflection model.")
]


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The options as they were given; None for what was not."""

    base_url: str | None = None
    header: list[str] | None = None
    price: str | None = None
    context: int | None = None
    reflection_model: str | None = None
    reflection_header: list[str] | None = None
    reflection_price: str | None = None
    reflection_context: int | None = None
    check_price: str | None = None

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return any(each is not None for each in vars(self).values())

    def named(self, model: str | None) -> str:
        """The model's name at the address of --base-url; None stands for the environment's model. Raises ConfigurationError."""
        from memalign.models import default_model_name
        from memalign.models.providers import with_address

        name = model or default_model_name()
        if not name:
            raise InputError("--base-url needs the model's name at that address: --model openai:NAME")
        return with_address(name, self.base_url or None)

    def applied(self, judge: Judge) -> Judge:
        """The judge with them. Models that it no longer has take their headers, prices and context along.

        Raises InputError and ConfigurationError; the models are opened, and none is called.
        """
        from memalign.judge.spec import OF_MODELS, check_model_name
        from memalign.models.resolve import canonical_name

        if not self.given and "models" not in judge.parameters:
            return judge
        parameters = dict(judge.parameters)
        model = judge.model_name if self.base_url is None else self.named(judge.model_name)
        if self.reflection_model is not None:
            parameters["reflection_model"] = canonical_name(self.reflection_model) if self.reflection_model else None
        reflection = parameters.get("reflection_model")
        of_reflection = (self.reflection_header, self.reflection_price, self.reflection_context)
        if reflection is None and any(each is not None for each in of_reflection):
            raise InputError("--reflection-header, -price and -context are of a --reflection-model: name it")
        if check_model_name(judge) is None and self.check_price is not None:
            raise InputError("--check-price is of a --check-model: name it")
        table = dict(judge.parameters.get("models", {}))
        told = {
            canonical_name(name): _told(table.get(canonical_name(name), {}), *given)
            for name, given in (
                (check_model_name(judge), (None, self.check_price, None)),
                (reflection, of_reflection),
                (model, (self.header, self.price, self.context)),
            )
            if name is not None
        }
        parameters["models"] = {name: each for name, each in told.items() if each}
        changed = judge.replace(
            model=judge.model if model == judge.model_name else model,
            parameters={name: value for name, value in parameters.items() if name not in OF_MODELS or value},
        )
        if self.given:
            _open_models(changed)
        return changed


def _open_models(judge: Judge) -> None:
    """Open the judge's models: a wrong name or a missing key is known before anything is asked."""
    from memalign.judge.spec import check_model_name
    from memalign.models.judge_models import open_decision_model, open_model, open_reflection_model
    from memalign.models.resolve import names_decision_model

    if (check_model := check_model_name(judge)) is not None:
        open_decision_model(judge, check_model)
    if judge.model_name is not None and names_decision_model(judge.model_name):
        open_decision_model(judge, judge.model_name)
        if judge.parameters.get("reflection_model"):
            open_reflection_model(judge)
    else:
        open_model(judge)
        open_reflection_model(judge)


def _told(before: dict[str, Any], header: list[str] | None, price: str | None, context: int | None) -> dict[str, Any]:
    told = dict(before)
    if header is not None:
        told["headers"] = dict(_header(each) for each in header if each.strip())
    if price is not None:
        told["prices"] = _prices(price)
    if context is not None:
        told["context"] = context
    return {name: each for name, each in told.items() if each}


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise InputError("--header: write it as 'NAME: VALUE', for example --header 'X-Team: support'")
    return name.strip(), value.strip()


def _prices(text: str) -> dict[str, float]:
    found = {}
    for part in filter(str.strip, text.split(",")):
        name, _, amount = part.partition("=")
        try:
            found[name.strip()] = float(amount)
        except ValueError:
            raise InputError(
                f"--price {text}: dollars for a million tokens, such as --price input=0.4,output=1.6,cached=0.1"
            ) from None
    return found


def _price_words(prices: dict[str, float]) -> str:
    """`input $0.4, output $1.6 a million tokens`."""
    return ", ".join(f"{name} ${amount:g}" for name, amount in prices.items()) + " a million tokens"


def left_behind(before: Judge, after: Judge) -> list[str]:
    """What an edit took from the judge's models without being told so: an address, headers, prices, a context."""
    from memalign.judge.spec import check_model_name
    from memalign.models.providers import address_of

    lines = []
    was, now = before.model_name or "", after.model_name or ""
    address = address_of(was)[1]
    if address and was != now and now.startswith("openai:") and address_of(now)[1] is None:
        lines.append(f"{now} is no longer asked at {address}: --base-url {address} keeps it there")
    table, kept = before.parameters.get("models", {}), after.parameters.get("models", {})
    named = (now, check_model_name(after), after.parameters.get("reflection_model"))
    gone = [name for name in table if name not in kept and name not in named]
    return [*lines, *(f"headers, prices and context of {name} went with it" for name in gone)]


def facts_of_models(judge: Judge) -> list[tuple[str, str]]:
    """What `show` says of the parameter `models`: headers as they are stored, their variables by name."""
    rows = []
    for name, told in judge.parameters.get("models", {}).items():
        headers = [f"header {key}: {value}" for key, value in told.get("headers", {}).items()]
        prices = [_price_words(told["prices"])] if "prices" in told else []
        context = [f"context {told['context']:,} tokens"] if "context" in told else []
        rows.append((f"of {name}", "; ".join([*prices, *context, *headers])))
    return rows
