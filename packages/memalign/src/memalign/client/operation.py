"""One operation of a server's API: written once, called by `Client` and awaited by `AsyncClient`."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload
from urllib.parse import quote

__all__ = ["Awaiting", "Blocking", "Operation", "Request", "operation"]

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is sent: the path below `/api/v1`, and what was given of the query and of the body; None for no body."""

    method: str
    path: str
    query: dict[str, Any]
    body: dict[str, Any] | None


class Blocking(ABC):
    """A client whose operations give their answers."""

    @abstractmethod
    def _ask(self, request: Request) -> Any: ...


class Awaiting(ABC):
    """A client whose operations are awaited."""

    @abstractmethod
    async def _ask(self, request: Request) -> Any: ...


class Operation(Generic[P, T]):
    """A method of clients that sends one request: what it is given goes to where the description has it."""

    def __init__(
        self, method: str, path: str, query: tuple[str, ...], function: Callable[Concatenate[Any, P], T]
    ) -> None:
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        whole = inspect.signature(function)
        self.signature = whole.replace(parameters=[*whole.parameters.values()][1:])
        self._method, self._path = method, path
        named = [name for name in self.signature.parameters if f"{{{name}}}" not in path]
        self._query = frozenset(query or (named if method in ("GET", "DELETE") else ()))
        self._body = frozenset(named) - self._query

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self

        def bound(*given: P.args, **named: P.kwargs) -> Any:
            return client._ask(self.request_of(*given, **named))  # noqa: SLF001  # clients have it for this

        bound.__name__, bound.__doc__ = self.__name__, self.__doc__
        vars(bound)["__signature__"] = self.signature
        return bound

    def request_of(self, *given: P.args, **named: P.kwargs) -> Request:
        """What a call with these arguments sends. Raises TypeError for others than the operation takes."""
        try:
            told = self.signature.bind(*given, **named).arguments
        except TypeError as error:
            raise TypeError(f"{self.__name__}(): {error}") from None
        known = {name: value for name, value in told.items() if value is not None}
        path = re.sub(r"{(\w+)}", lambda name: quote(str(told[name[1]]), safe=""), self._path)
        body = {name: value for name, value in known.items() if name in self._body} if self._body else None
        query = {name: value for name, value in known.items() if name in self._query}
        return Request(method=self._method, path=path, query=query, body=body)


def operation(method: str, path: str, *query: str) -> Callable[[Callable[Concatenate[Any, P], T]], Operation[P, T]]:
    """Makes a method an operation. What is not in the path is of the body, or for GET, DELETE and names in `query` of the query."""
    return lambda function: Operation(method, path, query, function)
