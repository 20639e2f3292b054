"""An attribute that is worked out when first asked for. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class lazy(Generic[Value]):
    """Works like ``functools.cached_property``, without the lock that costs more than the gates' work."""

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self.make = make
        self.name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> lazy[Value]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...

    def __get__(self, owner: object | None, kind: type) -> lazy[Value] | Value:
        """Work the value out and leave it where the next look finds it first."""
        if owner is None:
            return self
        value = owner.__dict__[self.name] = self.make(owner)
        return value
