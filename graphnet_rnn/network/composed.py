"""Models composed of networks by a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import graphnet as gn
from graphnet_rnn.errors import UsageError
from graphnet_rnn.model import HELD, Model
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.settings import shown

#: Arguments that a Trainer passes to the function.
ASKED = ("training", "random")


class Composed(Model):
    """Base of the classes that `composed` makes: the arguments are its parts, and a function builds its graph."""

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
                f"{own.__name__}: at least one argument must be a model, e.g. an rnn.Network, not {shown(given.args)}"
            )
        self.declare_parameters({}, 0, next(iter(first.parameters.values())).dtype)

    def unroll(self, batch: int, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with the parts, the number of cases, and further arguments."""
        return type(self).build(*(getattr(self, name) for name in self.settings()), batch, *args, **kwargs)

    def __graph__(self) -> gn.Graph:
        """Graph of one case for drawing; model files use it to detect changed equations."""
        found = self.unroll(1, training=False)
        if isinstance(found, Unrolled):
            return found.__graph__()
        with gn.scope(layer="cost"):
            return gn.Graph([gn.mean(found[0] if isinstance(found, tuple) else found)])

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({listed})"


def takes_what_is_asked(function: Callable[..., Any]) -> bool:
    """True if a Trainer can call the function."""
    parameters = inspect.signature(function).parameters
    open_ended = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return open_ended or set(ASKED) <= set(parameters)


def composed(function: Callable[..., Any]) -> type[Composed]:
    """Returns a class of models, whose graph `function` builds from networks and other parts.

    function: takes the parts of the model, then `batch`, then options, among them training= and random= (or **how).

        @rnn.composed
        def translator(encoder, decoder, batch, feedback=None, **how):
            e = encoder.unroll(9, batch, inputs="word", initial="zero", **how)
            return decoder.unroll(
                9, batch, inputs="before", targets="answer", initial=e.final, feedback=feedback, **how
            )

        model = translator(encoder, decoder)

    The parts are the arguments before `batch`: networks, other models, lists of these, and values that JSON holds.
    Model files keep them; `rnn.load(path, [translator])` restores the model. `model.unroll(batch, ...)` calls the
    function, here model.unroll(3, feedback="likeliest"). A Trainer passes training= and random=; pass both on to each
    `unroll` of a network. For rnn.GraphCases the function returns an Unrolled, or losses (batch,), or (losses, {name:
    value of each case}). A network that is unrolled twice shares its weights. For a model with further parameters
    subclass rnn.Model.
    Raises UsageError for a function with other arguments, and, when a model is created, if no argument is a model.

    >>> @rnn.composed
    ... def pair(encoder, decoder, batch, **how):
    ...     e = encoder.unroll(5, batch, inputs="word", initial="zero", **how)
    ...     return decoder.unroll(4, batch, inputs="before", targets="answer", initial=e.final, **how)
    >>> model = pair(rnn.Network([rnn.GRU(4)], 3, 0), rnn.Network([rnn.GRU(4)], 3, 3))
    >>> model.unroll(2).logits.shape
    (4, 2, 3)
    """
    if not inspect.isfunction(function):
        raise UsageError(f"composed: the argument must be a function, not {shown(function)}")
    parameters = list(inspect.signature(function).parameters.values())
    names = [parameter.name for parameter in parameters]
    if "batch" not in names[1:]:
        raise UsageError(
            f"composed: {function.__name__}({', '.join(names)}) must take parts, then `batch`, e.g. "
            "(encoder, decoder, batch, **how)"
        )
    if not takes_what_is_asked(function):
        raise UsageError(
            f"composed: {function.__name__} must take training= and random=, which a Trainer passes: end its "
            "arguments with **how, and pass these on to each unroll"
        )
    own = parameters[: names.index("batch")]
    for parameter in own:
        # Model checks the others.
        if parameter.name in (*HELD, "self", "seed") or hasattr(Composed, parameter.name):
            raise UsageError(
                f"composed: {function.__name__} has an argument {parameter.name!r}, a name that every model uses; "
                "rename it"
            )
    members = {
        "build": staticmethod(function),
        "__doc__": function.__doc__,
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
        "__signature__": inspect.Signature(own),
    }
    return type(function.__name__, (Composed,), members)
