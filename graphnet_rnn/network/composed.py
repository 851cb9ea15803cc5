"""Networks put together by a function: a model of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import graphnet as gn
from graphnet_rnn.errors import UsageError
from graphnet_rnn.model import HELD, Model
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.settings import shown

__all__ = ["Composed", "composed", "takes_what_is_asked"]

#: What a Trainer says of a graph that it asks for.
ASKED = ("training", "random")


class Composed(Model):
    """What `composed` makes classes of: a model whose parts are its arguments, and whose graph a function makes."""

    build: ClassVar[Callable[..., Any]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        own = type(self)
        given = inspect.signature(own).bind(*args, **kwargs)
        given.apply_defaults()
        for name, value in given.arguments.items():
            setattr(self, name, value)
        first = next((part for _, part in self._models_among_arguments()), None)
        if first is None:
            raise UsageError(
                f"{own.__name__}: among its arguments must be a model, e.g. an rnn.Network, not {shown(given.args)}"
            )
        self.declare_parameters({}, 0, next(iter(first.parameters.values())).dtype)

    def unroll(self, batch: int, *args: Any, **kwargs: Any) -> Any:
        """What the function makes of the parts, for so many cases, and of what it is asked for besides."""
        return type(self).build(*(getattr(self, name) for name in self.settings()), batch, *args, **kwargs)

    def __graph__(self) -> gn.Graph:
        """Of one case, for pictures, and for files, which tell by it whether the equations have changed since."""
        found = self.unroll(1, training=False)
        if isinstance(found, Unrolled):
            return found.__graph__()
        with gn.scope(layer="cost"):
            return gn.Graph([gn.mean(found[0] if isinstance(found, tuple) else found)])

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({listed})"


def takes_what_is_asked(function: Callable[..., Any]) -> bool:
    """Whether it can be called as a Trainer does."""
    parameters = inspect.signature(function).parameters
    open_ended = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return open_ended or set(ASKED) <= set(parameters)


def composed(function: Callable[..., Any]) -> type[Composed]:
    """A class of models from a function of parts: networks put together, and what follows from that

        @rnn.composed
        def translator(encoder, decoder, batch, feedback=None, **how):
            e = encoder.unroll(9, batch, inputs="word", initial="zero", **how)
            return decoder.unroll(
                9, batch, inputs="before", targets="answer", initial=e.final, feedback=feedback, **how
            )

        model = translator(encoder, decoder)

    Arguments before `batch` are what the model is made of: networks, other models, lists of these, and whatever JSON
    holds; a file keeps them, and `rnn.load(path, [translator])` makes the model again. `model.unroll(batch, ...)` calls
    the function, here model.unroll(3, feedback="likeliest"). A Trainer adds training= and random=, which are handed on
    to each `unroll` of a network. What the function returns is for its caller; for rnn.GraphCases it is an Unrolled, or
    losses (batch,), or (losses, {name: value of each case}). A network that is unrolled twice shares its weights.
    For parameters of one's own there is rnn.Model.
    Raises UsageError for a function whose arguments are others, and, when a model is made, if none of them is a model.
    """
    if not inspect.isfunction(function):
        raise UsageError(f"composed: a function is needed, not {shown(function)}")
    parameters = list(inspect.signature(function).parameters.values())
    names = [parameter.name for parameter in parameters]
    if "batch" not in names[1:]:
        raise UsageError(
            f"composed: {function.__name__}({', '.join(names)}) must have parts, and behind them `batch`, e.g. "
            "(encoder, decoder, batch, **how)"
        )
    if not takes_what_is_asked(function):
        raise UsageError(
            f"composed: {function.__name__} must take training= and random=, as a Trainer gives them: end its "
            "arguments by **how, and hand these on to each unroll"
        )
    own = parameters[: names.index("batch")]
    for parameter in own:
        if parameter.name in HELD or hasattr(Composed, parameter.name):  # Model refuses the others
            raise UsageError(
                f"composed: {function.__name__} has an argument {parameter.name!r}, which every model has already; "
                "call it otherwise"
            )
    members = {
        "build": staticmethod(function),
        "__doc__": function.__doc__,
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
        "__signature__": inspect.Signature(own),
    }
    return type(function.__name__, (Composed,), members)
