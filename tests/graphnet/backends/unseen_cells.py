"""Cells that appear nowhere else in the repository, to test that any equations compile."""

from __future__ import annotations

import graphnet as gn
import graphnet_rnn as rnn


class Tied(rnn.Cell):
    """z, r = σ(x W + h U + b·), of the same W and U;  h' = z h + (1 - z) tanh(x W - (r h) Uᵀ)"""

    states = (rnn.State("h"),)

    def step(self, x, h):
        W, U = self.weight("W", (x.shape[1], self.units)), self.weight("U", (self.units, self.units))
        common = x @ W + h @ U
        z = gn.sigmoid(common + self.weight("b_z", (self.units,)))
        r = gn.sigmoid(common + self.weight("b_r", (self.units,)))
        return z * h + (1 - z) * gn.tanh(x @ W - (r * h) @ U.T)


class Multiplicative(rnn.Cell):
    """m = (x W_xm) (h W_hm);  h' = softplus(m) tanh(m W_mh + x W_xh + b_h) / (1 + m²)"""

    states = (rnn.State("h"),)

    def step(self, x, h):
        m = self.affine("m", x=x, bias=None) * self.affine("n", h=h, bias=None)
        return gn.softplus(m) * gn.tanh(self.affine("h", m=m, x=x)) / (1 + m * m)


class TwoTimes(rnn.Cell):
    """s' = s + (tanh(x, s, f) - s) / 8;  f' = f + (tanh(x, f, s') - f) / 2, half as many f;  h = [s', f'] W"""

    states = (rnn.State("h"), rnn.State("s"), rnn.State("f", "fast"))

    def __init__(self, units: int = 128, **settings) -> None:
        super().__init__(units, **settings)
        self.fast = (units + 1) // 2

    def step(self, x, h, s, f):
        s = s + (gn.tanh(self.affine("s", x=x, s=s, f=f)) - s) / 8
        f = f + (gn.tanh(self.affine("f", x=x, f=f, s=s, units=self.fast)) - f) / 2
        return self.affine("h", s=s, f=f) + 0.1 * h, s, f


class Deep(rnn.Cell):
    """a = relu-like(x, h);  b = sin(a);  h' = h / 2 + (b, x) with a softmax over its units: three layers a step"""

    states = (rnn.State("h"),)

    def step(self, x, h):
        a = gn.softplus(self.affine("a", x=x, h=h, units=self.units + 2))
        b = gn.sin(self.affine("b", a=a, units=self.units + 1))
        attention = gn.softmax(self.affine("p", b=b, x=x))
        return 0.5 * h + attention * gn.tanh(self.affine("h", b=b))


class Wasteful(rnn.Cell):
    """h is multiplied twice, u counts and is never read, v keeps h reversed;  h' = norm(x, h, v) + h W_2 σ(h W_2)"""

    states = (rnn.State("h"), rnn.State("u"), rnn.State("v"))

    def step(self, x, h, u, v):
        a = self.affine("a", x=x, h=h, v=v)
        centred = a - gn.mean(a, 1, keepdims=True)
        scaled = centred / gn.sqrt(gn.mean(centred * centred, 1, keepdims=True) + 0.1)
        other = self.affine("two", h=h)
        return gn.tanh(scaled + other * gn.sigmoid(other)), u + 1.0, h[:, ::-1]


CELLS = (Tied, Multiplicative, TwoTimes, Deep, Wasteful)
