"""Export to ONNX of elementwise ops; shapes of inputs broadcast, and so does the result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphnet.graph.dtypes import BOOL, is_float
from graphnet.graph.node import Dtype, Op
from graphnet.onnx.call import WIDENED, Call
from graphnet.onnx.sizes import Size
from graphnet.ops import elementwise, loss

#: Adds operators for a node; returns the name of its value.
Saying = Callable[[Call], str]


def operator(name: str) -> Saying:
    """Exports a node as one operator of ONNX, on widened numbers where runtimes need that."""

    def written(call: Call) -> str:
        inputs = [call.wide(x, call.input_dtype(i)) for i, x in enumerate(call.names)]
        return call.narrow(call.say(name, *inputs))

    return written


def comparison(name: str) -> Saying:
    """Exports a comparison."""

    def written(call: Call) -> str:
        return call.say(name, *(call.wide(x, call.input_dtype(i)) for i, x in enumerate(call.names)))

    return written


def logical(name: str) -> Saying:
    """Exports a logical operator; for numbers, 0 is false and all others are true."""

    def written(call: Call) -> str:
        return call.say(name, *(_truth(call, x, call.input_dtype(i)) for i, x in enumerate(call.names)))

    return written


def _truth(call: Call, x: str, dtype: Dtype) -> str:
    return x if dtype == BOOL else call.cast(x, BOOL)


def _add(call: Call) -> str:
    if len(call.inputs) == 1:
        return call.names[0]
    if is_float(call.dtype):
        return call.say("Sum" if len(call.inputs) > 2 else "Add", *call.names)
    total, *rest = [call.wide(x, call.dtype) for x in call.names]
    for x in rest:
        total = call.say("Add", total, x)
    return call.narrow(total)


def _relu(call: Call) -> str:
    if is_float(call.dtype):
        return call.say("Relu", *call.names)
    zero = call.wide(call.number(0), call.dtype)
    return call.narrow(call.say("Max", call.wide(call.names[0], call.dtype), zero))


def _softplus(call: Call) -> str:
    """Some runtimes support Softplus only for float32, although the specification allows all floats."""
    (x,) = call.names
    if call.dtype == np.float32:
        return call.say("Softplus", x)
    small = call.say("Exp", call.say("Neg", call.say("Abs", x)))
    # log1p: log(u) small / (u - 1), where u = 1 + small is rounded; small if u is 1.
    one = call.number(1)
    u = call.say("Add", one, small)
    rounded = call.say("Equal", u, one)
    ratio = call.say("Div", small, call.say("Where", rounded, one, call.say("Sub", u, one)))
    log = call.say("Where", rounded, small, call.say("Mul", call.say("Log", u), ratio))
    return call.say("Add", call.say("Relu", x), log)


def _power(call: Call) -> str:
    (x,), exponent = call.names, call.setting("exponent")
    x = call.wide(x, call.dtype)
    dtype = np.dtype("int64") if not is_float(call.dtype) else call.dtype
    if exponent == 2:
        return call.narrow(call.say("Mul", x, x))
    if not is_float(call.dtype) and isinstance(exponent, int) and exponent > 2:
        return call.narrow(_whole_power(call, x, exponent))
    if exponent == 0.5 and is_float(call.dtype):
        return call.say("Sqrt", x)
    if isinstance(exponent, Size):
        return call.narrow(call.say("Pow", x, call.cast(call.writer.scalar(exponent), dtype)))
    return call.narrow(call.say("Pow", x, call.number(exponent, dtype)))


def _whole_power(call: Call, x: str, exponent: int) -> str:
    """Products: some runtimes compute powers of integers in float64."""
    if exponent == 1:
        return x
    half = _whole_power(call, x, exponent // 2)
    square = call.say("Mul", half, half)
    return call.say("Mul", square, x) if exponent % 2 else square


def _mod(call: Call) -> str:
    """ONNX's float remainder has the sign of the dividend, as in C; integer division by 0 crashes."""
    x, y = call.names
    if is_float(call.dtype):
        zero, rest = call.number(0), call.say("Mod", x, y, fmod=1)
        other = call.say("Less", call.say("Mul", call.say("Sign", rest), call.say("Sign", y)), zero)
        return call.say("Where", other, call.say("Add", rest, y), rest)
    x, y = (call.wide(each, call.dtype) for each in (x, y))
    dtype = np.dtype("int64") if call.dtype in WIDENED else call.dtype
    is_zero = call.say("Equal", y, call.number(0, dtype))
    return call.narrow(call.say("Mod", x, call.say("Where", is_zero, call.number(1, dtype), y)))


def _where(call: Call) -> str:
    condition, *choices = call.names
    return call.narrow(call.say("Where", condition, *(call.wide(x, call.dtype) for x in choices)))


def _cast(call: Call) -> str:
    return call.names[0] if call.input_dtype() == call.dtype else call.cast(call.names[0], call.dtype)


def _sigmoid_cross_entropy(call: Call) -> str:
    """s |z| + log(1 + exp(-|z|)), s = 1 - t where z > 0, else t; a share s of 0 costs nothing"""
    z, t = call.names
    zero, size = call.number(0), call.say("Abs", z)
    share = call.say("Where", call.say("Greater", z, zero), call.say("Sub", call.number(1), t), t)
    cost = call.say("Where", call.say("Equal", share, zero), zero, call.say("Mul", share, size))
    small = call.say("Exp", call.say("Neg", size))
    return call.say("Add", cost, call.say("Log", call.say("Add", call.number(1), small)))


def _squared_error(call: Call) -> str:
    difference = call.say("Sub", *call.names)
    return call.say("Mul", difference, difference)


ELEMENTWISE: dict[type[Op], Saying] = {
    elementwise.Add: _add,
    elementwise.Subtract: operator("Sub"),
    elementwise.Multiply: operator("Mul"),
    elementwise.Divide: operator("Div"),
    elementwise.Negative: operator("Neg"),
    elementwise.Power: _power,
    elementwise.PowerOf: operator("Pow"),
    elementwise.Mod: _mod,
    elementwise.Tanh: operator("Tanh"),
    elementwise.Sigmoid: operator("Sigmoid"),
    elementwise.Exp: operator("Exp"),
    elementwise.Log: operator("Log"),
    elementwise.ReLU: _relu,
    elementwise.Softplus: _softplus,
    elementwise.Sqrt: operator("Sqrt"),
    elementwise.Sin: operator("Sin"),
    elementwise.Cos: operator("Cos"),
    elementwise.Erf: operator("Erf"),
    elementwise.Absolute: operator("Abs"),
    elementwise.Sign: operator("Sign"),
    elementwise.Floor: operator("Floor"),
    elementwise.Ceil: operator("Ceil"),
    elementwise.Round: operator("Round"),
    elementwise.Maximum: operator("Max"),
    elementwise.Minimum: operator("Min"),
    elementwise.Where: _where,
    elementwise.Less: comparison("Less"),
    elementwise.LessEqual: comparison("LessOrEqual"),
    elementwise.Greater: comparison("Greater"),
    elementwise.GreaterEqual: comparison("GreaterOrEqual"),
    elementwise.Equal: comparison("Equal"),
    elementwise.LogicalAnd: logical("And"),
    elementwise.LogicalOr: logical("Or"),
    elementwise.LogicalNot: logical("Not"),
    elementwise.Cast: _cast,
    loss.SigmoidCrossEntropy: _sigmoid_cross_entropy,
    loss.SquaredError: _squared_error,
}
