#!/usr/bin/env python3
"""Random models against eager torch: attention, state, row programs, gathers, convolutions and what lies between them.

    python3 random_models.py QCODEGEN [--seed N] [--count N] [--target T] [--keep DIR] [--flags "..."]

A model is a list of operators drawn from a seed. It is exported (training IR, decomposed, static or dynamic sizes), compiled and run on
other inputs than the exported ones; a model with state is called several times, and the state after the last call is compared as well.

A number is wrong if it is farther from the model in float64 than eager's own number by a factor, and by more than roundings of the
dtypes at hand explain. A model whose integers (positions of a sort, comparisons) differ between eager and float64 is counted as fickle.

Exit status 1 if a number is wrong. A refusal (error of `compile`) is printed and counted.
"""
import argparse
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

import torch
from safetensors.torch import load_file, save_file
from torch.export import Dim

warnings.filterwarnings("ignore")
F = torch.nn.functional
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
EPS = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10, torch.float64: 2.0**-23}


class Model(torch.nn.Module):
    """Runs a list of steps: (function, operands, keyword arguments) over a list of values, which begins with the inputs."""

    def __init__(self):
        super().__init__()
        self.steps, self.results, self.real = [], [], torch.float32

    def forward(self, *inputs):
        values = list(inputs)
        for function, operands in self.steps:
            values.append(function(self, *[values[i] for i in operands]))
        return tuple(values[i] for i in self.results)


class Drawer:
    """Draws one model. A value is known by its dtype and its shape, in which B and S are the sizes that may be dynamic."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.model = Model()
        self.shapes, self.dtypes = [], []
        self.inputs = []  # (shape, dtype, limit of integers)
        self.is_input = set()
        self.count = 0
        self.used = set()

    # -- values

    def weight(self, *shape, scale=None):
        name = f"w{self.count}"
        self.count += 1
        scale = scale if scale is not None else 1 / max(1, shape[-1]) ** 0.5
        self.model.register_parameter(name, torch.nn.Parameter(torch.randn(shape, generator=self.generator) * scale, False))
        return name

    def buffer(self, tensor):
        name = f"state{self.count}"
        self.count += 1
        self.model.register_buffer(name, tensor)
        return name

    def input(self, shape, dtype=torch.float32, limit=0):
        self.inputs.append((shape, dtype, limit))
        self.is_input.add(len(self.shapes))
        return self.note(shape, dtype)

    def note(self, shape, dtype):
        self.shapes.append(tuple(shape))
        self.dtypes.append(dtype)
        return len(self.shapes) - 1

    def step(self, function, operands, shape, dtype=None):
        self.model.steps.append((function, operands))
        self.used.update(operands)
        return self.note(shape, dtype if dtype is not None else self.dtypes[operands[0]])

    def pick(self, condition):
        found = [i for i in range(len(self.shapes)) if condition(self.shapes[i], self.dtypes[i])]
        if not found:
            return None
        recent = found[-4:]
        return self.rng.choice(recent if self.rng.random() < 0.7 else found)

    def pick_real(self, condition=lambda shape: True):
        return self.pick(lambda s, t: t in FLOATS and condition(s))

    # -- operators; each returns whether it could be drawn

    def unary(self):
        x = self.pick_real()
        f = self.rng.choice([torch.relu, torch.tanh, torch.sigmoid, F.gelu, F.silu, torch.sin, torch.cos, torch.abs, torch.neg,
                             lambda v: F.gelu(v, approximate="tanh"), lambda v: v * 0.5 + 1, lambda v: 1 - v, lambda v: v.clamp(-1, 1),
                             lambda v: torch.exp(-v.abs()), lambda v: torch.sqrt(v.abs() + 1), lambda v: torch.log1p(v.abs()),
                             lambda v: v.pow(2) * 0.1, lambda v: F.softplus(v), lambda v: F.leaky_relu(v, 0.1), lambda v: F.hardswish(v),
                             lambda v: v / 3, lambda v: 2 / (v.abs() + 1), F.mish, F.elu, F.relu6, torch.erf,
                             lambda v: v.masked_fill(v > 0.5, 0.25), lambda v: torch.where(v < 0, v * 0.1, v),
                             lambda v: v.to(torch.bfloat16).to(v.dtype) if v.dtype == torch.float32 else v])
        self.step(lambda m, v, f=f: f(v), [x], self.shapes[x])
        return True

    def binary(self):
        x = self.pick_real()
        def fits(s):
            t = self.shapes[x]
            return len(s) <= len(t) and all(a == b or a == 1 for a, b in zip(s[::-1], t[::-1]))
        y = self.pick(lambda s, d: d == self.dtypes[x] and fits(s))
        f = self.rng.choice([torch.add, torch.mul, torch.sub, torch.maximum, torch.minimum, lambda a, b: a / (b.abs() + 1),
                             lambda a, b: a + 0.5 * b, lambda a, b: torch.lerp(a, b.expand_as(a), 0.3), lambda a, b: torch.where(a > b, a, b),
                             lambda a, b: a * torch.sigmoid(b)])
        self.step(lambda m, a, b, f=f: f(a, b), [x, y], self.shapes[x])
        return True

    def linear(self):
        x = self.pick_real(lambda s: len(s) >= 2 and isinstance(s[-1], int) and s[-1] >= 4)
        if x is None:
            return False
        n = self.rng.choice([8, 16, 24, 32, 13])
        w = self.weight(n, self.shapes[x][-1])
        b = self.weight(n, scale=0.3) if self.rng.random() < 0.5 else None
        g = lambda m, v: F.linear(v, getattr(m, w).to(v.dtype), getattr(m, b).to(v.dtype) if b else None)
        if self.rng.random() < 0.3:  # spelled as a product
            g = lambda m, v: v @ getattr(m, w).t().to(v.dtype)
        self.step(g, [x], self.shapes[x][:-1] + (n,))
        return True

    def norm(self):
        x = self.pick_real(lambda s: len(s) >= 2 and isinstance(s[-1], int) and s[-1] >= 4)
        if x is None:
            return False
        n = self.shapes[x][-1]
        w = self.weight(n, scale=0.3)
        def rms(m, v):
            h = v.to(torch.float32 if m.real != torch.float64 else torch.float64)
            return (1 + getattr(m, w)).to(v.dtype) * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(v.dtype)
        f = self.rng.choice([
            rms, lambda m, v: F.layer_norm(v, (n,), getattr(m, w).to(v.dtype) + 1), lambda m, v: F.softmax(v, -1),
            lambda m, v: F.log_softmax(v, -1), lambda m, v: F.normalize(v, dim=-1), lambda m, v: F.rms_norm(v, (n,), getattr(m, w).to(v.dtype)),
            lambda m, v: (v - v.mean(-1, keepdim=True)) / (v.std(-1, keepdim=True) + 0.1), lambda m, v: v / (v.abs().amax(-1, keepdim=True) + 0.1),
            lambda m, v: v - torch.logsumexp(v, -1, keepdim=True), lambda m, v: torch.softmax(v.float(), -1).to(v.dtype)
            if m.real != torch.float64 else torch.softmax(v, -1)])
        self.step(f, [x], self.shapes[x])
        return True

    def reduce(self):
        x = self.pick_real(lambda s: len(s) >= 2)
        if x is None:
            return False
        axis = self.rng.randrange(len(self.shapes[x]))
        keep = self.rng.random() < 0.5
        f = self.rng.choice([torch.sum, torch.mean, torch.amax, torch.amin, lambda v, a, k: torch.logsumexp(v, a, k),
                             lambda v, a, k: v.var(a, keepdim=k, unbiased=False), lambda v, a, k: v.max(a, keepdim=k)[0],
                             lambda v, a, k: torch.linalg.vector_norm(v, dim=a, keepdim=k)])
        s = self.shapes[x]
        self.step(lambda m, v: f(v, axis, keep), [x], s[:axis] + ((1,) if keep else ()) + s[axis + 1:])
        return True

    def running(self):
        x = self.pick_real(lambda s: len(s) >= 1)
        axis = self.rng.randrange(len(self.shapes[x]))
        f = self.rng.choice([lambda v: v.cumsum(axis) * 0.2, lambda v: v.flip(axis), lambda v: v.roll(1, axis), lambda v: v.sort(axis)[0],
                             lambda v: torch.softmax(v, axis)])
        self.step(lambda m, v: f(v), [x], self.shapes[x])
        return True

    def heads(self, m, v, h):
        return v.view(v.shape[0], v.shape[1], h, -1).transpose(1, 2)

    def attention(self):
        x = self.pick(lambda s, t: t in FLOATS and len(s) == 3 and s[0] == "B" and s[1] == "S" and isinstance(s[2], int) and s[2] >= 4)
        if x is None:
            return False
        y = x
        if self.rng.random() < 0.25:  # cross attention
            y = self.pick(lambda s, t: t == self.dtypes[x] and len(s) == 3 and s[0] == "B" and isinstance(s[2], int) and s[1] in ("S", 5))
        h, d = self.rng.choice([2, 4]), self.rng.choice([4, 8, 16])
        groups = self.rng.choice([1, 2]) if h > 1 else 1
        n, k = self.shapes[x][2], self.shapes[y][2]
        q, kw, vw, o = self.weight(h * d, n), self.weight(h // groups * d, k), self.weight(h // groups * d, k), self.weight(n, h * d)
        own = self.shapes[y][1] == "S"
        mask = self.rng.choice(["none", "causal", "window", "padding", "alibi", "additive"] if own else ["none", "none"])
        style = self.rng.choice(["sdpa", "eager", "softcap", "eager32"])
        rope = self.rng.random() < 0.4 and own and d >= 4
        lengths = self.input(("B",), torch.int64, 6) if mask == "padding" else None

        def turn(v):
            t = torch.arange(v.shape[2])[:, None] * torch.exp(-torch.arange(0, v.shape[3] // 2) * 0.7)[None]
            t = torch.cat([t, t], -1)
            half = v.shape[3] // 2
            return v * t.cos().to(v.dtype) + torch.cat([-v[..., half:], v[..., :half]], -1) * t.sin().to(v.dtype)

        def f(m, a, b, lens=None):
            w = lambda name: getattr(m, name).to(a.dtype)
            Q, K, V = self.heads(m, F.linear(a, w(q)), h), self.heads(m, F.linear(b, w(kw)), h // groups), self.heads(m, F.linear(b, w(vw)), h // groups)
            if rope:
                Q, K = turn(Q), turn(K)
            if groups > 1:
                K, V = (t[:, :, None].expand(-1, -1, groups, -1, -1).reshape(t.shape[0], h, t.shape[2], d) for t in (K, V))
            rows, columns = torch.arange(a.shape[1])[:, None], torch.arange(b.shape[1])[None]
            see = add = None
            if mask == "causal":
                see = columns <= rows
            elif mask == "window":
                see = (columns <= rows) & (columns > rows - 3)
            elif mask == "padding":
                see = ((columns <= lens[:, None]) | (columns == 0))[:, None, None, :]
            elif mask == "alibi":
                slope = torch.exp2(-torch.arange(1, h + 1).to(m.real))[:, None, None]
                add = (slope * (columns - rows)).to(a.dtype)
                see = columns <= rows
            elif mask == "additive":
                add = torch.where(columns <= rows, 0.0, torch.finfo(torch.float32 if a.dtype == torch.float64 else a.dtype).min).to(a.dtype)
            if style == "sdpa":
                bias = see if add is None else add if see is None else add.masked_fill(~see, float("-inf"))
                if mask == "causal" and self.flag:
                    r = F.scaled_dot_product_attention(Q, K, V, is_causal=True)
                else:
                    r = F.scaled_dot_product_attention(Q, K, V, attn_mask=bias)
            else:
                s = Q @ K.transpose(-1, -2) * d**-0.5
                if style == "softcap":
                    s = torch.tanh(s / 3) * 3
                if add is not None:
                    s = s + add
                if see is not None:
                    s = s.masked_fill(~see, torch.finfo(torch.float32 if a.dtype == torch.float64 else a.dtype).min)
                p = torch.softmax(s, -1, dtype=m.real).to(a.dtype) if style == "eager32" else torch.softmax(s, -1)
                r = p @ V
            return F.linear(r.transpose(1, 2).reshape(a.shape[0], a.shape[1], h * d), w(o))

        self.flag = self.rng.random() < 0.5
        flag = self.flag

        def g(m, *operands):
            self.flag = flag
            return f(m, *operands)

        self.step(g, [x, y] + ([lengths] if lengths is not None else []), self.shapes[x])
        return True

    def cache(self):
        """A cache of rows, written at positions, read as a whole: attention over it."""
        x = self.pick(lambda s, t: t == torch.float32 and len(s) == 3 and s[0] == "B" and s[1] == "S" and isinstance(s[2], int))
        if x is None or self.batch_is_free:
            return False
        n = self.shapes[x][2]
        rows = 12
        name = self.buffer(torch.zeros(2, rows, n))
        style = self.rng.choice(["index_copy", "index_put", "slice", "copy"])
        at = self.input(("S",), torch.int64, -1)  # positions in order

        def f(m, v, p):
            c = getattr(m, name)
            if style == "index_copy":
                c.index_copy_(1, p, v)
            elif style == "index_put":
                c[:, p] = v
            elif style == "slice":
                c[:, :2] = v.mean(1, keepdim=True)
            else:
                c.copy_(c * 0.5 + v.sum(1, keepdim=True) * 0.1)
            s = v @ c.transpose(1, 2) * n**-0.5
            s = s.masked_fill(torch.arange(rows)[None] > p[:, None], float("-inf"))
            return torch.softmax(s, -1) @ c

        self.step(f, [x, at], self.shapes[x])
        return True

    def counter(self):
        x = self.pick(lambda s, t: t == torch.float32 and len(s) >= 1 and isinstance(s[-1], int))
        if x is None:
            return False
        n = self.shapes[x][-1]
        name = self.buffer(torch.zeros(n))
        first = self.rng.random() < 0.5

        def f(m, v):
            c = getattr(m, name)
            old = c.clone()
            c.mul_(0.5).add_(v.reshape(-1, n).mean(0))
            return v + (c if first else old)

        self.step(f, [x], self.shapes[x])
        return True

    def embedding(self):
        ids = self.pick(lambda s, t: t == torch.int64 and s == ("B", "S"))
        if ids is None:
            ids = self.input(("B", "S"), torch.int64, 17)
        n = self.rng.choice([8, 16, 24])
        w = self.weight(17, n, scale=1)
        kind = self.rng.choice(["embedding", "index", "select"])
        f = {"embedding": lambda m, i: F.embedding(i, getattr(m, w)), "index": lambda m, i: getattr(m, w)[i],
             "select": lambda m, i: getattr(m, w).index_select(0, i.reshape(-1)).view(i.shape[0], i.shape[1], n)}[kind]
        self.step(lambda m, i: f(m, i % 17), [ids], ("B", "S", n), torch.float32)
        return True

    def gather(self):
        x = self.pick_real(lambda s: len(s) >= 2 and s[-1] != 1 and isinstance(s[-1], int) and s[-1] >= 4)
        if x is None:
            return False
        s = self.shapes[x]
        c = self.rng.choice(["gather", "topk", "take_along", "argmax"])
        if c == "topk":
            self.step(lambda m, v: v.topk(3, -1)[0], [x], s[:-1] + (3,))
        elif c == "gather":
            self.step(lambda m, v: v.gather(-1, (v * 3).long().abs() % v.shape[-1]), [x], s)
        elif c == "take_along":
            self.step(lambda m, v: torch.take_along_dim(v, v.argsort(-1)[..., :2], -1), [x], s[:-1] + (2,))
        else:
            w = self.weight(s[-1], 8, scale=1)
            self.step(lambda m, v: F.embedding(v.argmax(-1), getattr(m, w).to(v.dtype)), [x], s[:-1] + (8,))
        return True

    def view(self):
        x = self.pick_real(lambda s: len(s) >= 2)
        if x is None:
            return False
        s = self.shapes[x]
        a, b = sorted(self.rng.sample(range(len(s)), 2))
        c = self.rng.choice(["transpose", "unsqueeze", "slice", "flip", "step", "merge", "chunk", "select", "expand", "strided"])
        if c == "transpose":
            t = list(s)
            t[a], t[b] = t[b], t[a]
            self.step(lambda m, v: v.transpose(a, b), [x], t)
        elif c == "unsqueeze" and len(s) < 4:
            self.step(lambda m, v: v.unsqueeze(a), [x], s[:a] + (1,) + s[a:])
        elif c == "slice" and isinstance(s[b], int) and s[b] > 4:
            self.step(lambda m, v: v.narrow(b, 1, s[b] - 2), [x], s[:b] + (s[b] - 2,) + s[b + 1:])
        elif c == "flip":
            self.step(lambda m, v: v.flip(a) + 0.5, [x], s)
        elif c == "step" and isinstance(s[b], int) and s[b] > 4:
            index = (slice(None),) * b + (slice(0, None, 2),)
            self.step(lambda m, v: v[index], [x], s[:b] + ((s[b] + 1) // 2,) + s[b + 1:])
        elif c == "merge" and isinstance(s[-1], int) and isinstance(s[-2], int) and len(s) > 2:
            self.step(lambda m, v: v.flatten(-2), [x], s[:-2] + (s[-1] * s[-2],))
        elif c == "chunk" and isinstance(s[-1], int) and s[-1] % 2 == 0 and s[-1] > 4:
            self.step(lambda m, v: (lambda p: p[0] * torch.sigmoid(p[1]))(v.chunk(2, -1)), [x], s[:-1] + (s[-1] // 2,))
        elif c == "select" and len(s) > 2:
            self.step(lambda m, v: v.select(a, 0), [x], s[:a] + s[a + 1:])
        elif c == "strided" and isinstance(s[-1], int) and s[-1] % 4 == 0:
            self.step(lambda m, v: v.unflatten(-1, (4, -1)).transpose(-1, -2).flatten(-2), [x], s)
        else:
            return False
        return True

    def join(self):
        x = self.pick_real(lambda s: len(s) >= 1 and isinstance(s[-1], int))
        if x is None:
            return False
        y = self.pick(lambda s, t: t == self.dtypes[x] and s[:-1] == self.shapes[x][:-1] and len(s) == len(self.shapes[x]) and isinstance(s[-1], int))
        s = self.shapes[x]
        if self.rng.random() < 0.7:
            self.step(lambda m, a, b: torch.cat([a, b, a], -1), [x, y], s[:-1] + (2 * s[-1] + self.shapes[y][-1],))
        else:
            self.step(lambda m, a: torch.stack([a, a * 2], -2), [x], s[:-1] + (2, s[-1]))
        return True

    def pad(self):
        x = self.pick_real(lambda s: len(s) >= 1 and isinstance(s[-1], int))
        if x is None:
            return False
        s = self.shapes[x]
        self.step(lambda m, v: F.pad(v, (1, 2), value=0.5), [x], s[:-1] + (s[-1] + 3,))
        return True

    def convolve(self):
        x = self.pick(lambda s, t: t == torch.float32 and len(s) == 3 and s[0] == "B" and s[1] == "S" and isinstance(s[2], int) and s[2] % 4 == 0)
        if x is None:
            return False
        n = self.shapes[x][2]
        groups = self.rng.choice([1, 1, 2, n])
        k = self.rng.choice([1, 3])
        dilation = self.rng.choice([1, 2])
        w = self.weight(n, n // groups, k, scale=(groups / n / k) ** 0.5)
        b = self.weight(n, scale=0.3)
        c = self.rng.choice(["conv", "causal", "conv2d", "pool"])
        if c == "conv":
            f = lambda m, v: F.conv1d(v.transpose(1, 2), getattr(m, w), getattr(m, b), padding=(k // 2) * dilation, dilation=dilation, groups=groups).transpose(1, 2)
        elif c == "causal":
            f = lambda m, v: F.conv1d(F.pad(v.transpose(1, 2), ((k - 1) * dilation, 0)), getattr(m, w), None, dilation=dilation, groups=groups).transpose(1, 2)
        elif c == "pool":
            f = lambda m, v: (F.avg_pool1d(v.transpose(1, 2), 3, 1, 1) + F.max_pool1d(v.transpose(1, 2), 3, 1, 1)).transpose(1, 2)
        else:
            w2 = self.weight(3, 1, 3, 3, scale=0.4)
            f = lambda m, v: F.conv2d(v[:, None], getattr(m, w2), padding=1).mean(1)
        self.step(f, [x], self.shapes[x])
        return True

    def cast(self):
        x = self.pick_real()
        t = self.rng.choice([torch.bfloat16, torch.float16, torch.float32])
        self.step(lambda m, v: v.to(t if m.real != torch.float64 else torch.float64), [x], self.shapes[x], t)
        return True

    def mix(self):
        """A small mixture of experts: a router, the two best of four, dense."""
        x = self.pick(lambda s, t: t == torch.float32 and len(s) == 3 and isinstance(s[-1], int) and s[-1] >= 4)
        if x is None:
            return False
        n = self.shapes[x][-1]
        r, w = self.weight(4, n), self.weight(4, n, n)

        def f(m, v):
            t = v.reshape(-1, n)
            p, at = torch.softmax(F.linear(t, getattr(m, r)), -1).topk(2, -1)
            gate = torch.zeros(t.shape[0], 4, dtype=t.dtype).scatter(1, at, p)
            every = torch.einsum("td,edf->etf", t, getattr(m, w))
            return (every * gate.t()[..., None]).sum(0).view(v.shape)

        self.step(f, [x], self.shapes[x])
        return True

    def draw(self):
        self.batch_is_free = self.rng.random() < 0.6
        self.with_state = not self.batch_is_free
        self.input(("B", "S", self.rng.choice([8, 16, 32])), torch.float32)
        if self.rng.random() < 0.5:
            self.input(("B", "S"), torch.int64, 17)
        if self.rng.random() < 0.3:
            self.input(("B", 5, 8), torch.float32)
        kinds = [self.unary] * 4 + [self.binary] * 4 + [self.linear] * 4 + [self.norm] * 4 + [self.attention] * 4 + [self.view] * 4 + [
            self.reduce, self.running, self.embedding, self.gather, self.join, self.pad, self.convolve, self.convolve, self.cast, self.mix]
        if self.with_state:
            kinds += [self.cache] * 3 + [self.counter] * 2
        todo = self.rng.randrange(4, 16)
        while todo > 0:
            if self.rng.choice(kinds)():
                todo -= 1
        ends = [i for i in range(len(self.shapes)) if i not in self.used and i not in self.is_input]
        self.model.results = ends[-3:]
        self.number_inputs_first()
        return self

    def number_inputs_first(self):
        """forward() takes inputs as the first values; they were drawn between steps."""
        given = sorted(self.is_input)
        made = [i for i in range(len(self.shapes)) if i not in self.is_input]
        place = {old: new for new, old in enumerate(given + made)}
        self.model.steps = [(f, [place[i] for i in operands]) for f, operands in self.model.steps]
        self.model.results = [place[i] for i in self.model.results]


def make_inputs(drawer, sizes, seed, position):
    generator = torch.Generator().manual_seed(seed)
    made = []
    for shape, dtype, limit in drawer.inputs:
        extents = [sizes.get(s, s) for s in shape]
        if limit < 0:
            made.append(torch.arange(position, position + extents[0]))
        elif dtype == torch.int64:
            made.append(torch.randint(0, limit, extents, generator=generator))
        else:
            made.append(torch.randn(extents, generator=generator))
    return made


def names_of(program):
    signature = program.graph_signature
    of = lambda specs, kind: [s.arg.name for s in specs if s.kind.name == kind]
    return of(signature.input_specs, "USER_INPUT"), of(signature.output_specs, "USER_OUTPUT")


def doubled(model):
    twin = copy.deepcopy(model).double()
    twin.real = torch.float64
    return twin


def evaluate(model, calls):
    torch.set_default_dtype(model.real)  # constants that a model makes
    try:
        with torch.no_grad():
            outputs = [model(*[v.to(model.real) if v.is_floating_point() else v for v in call]) for call in calls]
    finally:
        torch.set_default_dtype(torch.float32)
    return [[v.clone() for v in call] for call in outputs], {n: b.clone() for n, b in model.named_buffers()}


def judge(name, ours, eager, exact):
    """None, or what is wrong."""
    if ours.shape != eager.shape or ours.dtype != eager.dtype:
        return f"{name}: {ours.dtype}{tuple(ours.shape)} instead of {eager.dtype}{tuple(eager.shape)}"
    a, b, c = ours.double(), eager.double(), exact.double()
    odd = ~torch.isfinite(b)
    if not torch.equal(~torch.isfinite(a), odd):
        return f"{name}: infinities or NaN differ"
    a, b, c = (torch.where(odd, 0.0, v) for v in (a, b, c))
    if not c.numel():
        return None
    own, theirs, size = (a - c).norm(), (b - c).norm(), c.norm()
    worst, largest = (a - c).abs().max(), c.abs().max()
    if own > 4 * theirs + 200 * EPS[eager.dtype] * size or worst > 8 * (b - c).abs().max() + 400 * EPS[eager.dtype] * largest:
        return f"{name}: off by {own / size.clamp_min(1e-30):.2e} (eager {theirs / size.clamp_min(1e-30):.2e})"
    return None


def run_one(qcodegen, seed, folder, target, flags):
    """The verdict on one model: ok, refused, fickle, unexported, or wrong, and why."""
    rng = random.Random(seed + 1)
    drawer = Drawer(seed).draw()
    model = drawer.model.eval()
    dynamic = rng.random() < 0.6
    batch = 3 if drawer.batch_is_free else 2
    shown = make_inputs(drawer, {"B": batch, "S": 6}, seed, 0)
    axes = {"S": Dim("s", min=2, max=9)}
    if drawer.batch_is_free:
        axes["B"] = Dim("b", min=1, max=9)
    shapes = tuple({i: axes[s] for i, s in enumerate(shape) if s in axes} for shape, _, _ in drawer.inputs) if dynamic else None
    decompose = rng.random() < 0.5
    try:
        with torch.no_grad():
            program = torch.export.export(copy.deepcopy(model), tuple(shown), dynamic_shapes=(shapes,) if shapes else None)
            if decompose:
                program = program.run_decompositions()
    except Exception as error:  # torch itself cannot export or run it
        return "unexported", str(error).splitlines()[0][:150]
    calls = []
    position = 0
    for call in range(3 if drawer.with_state else 2):
        sizes = {"B": rng.choice([1, 2, 5]) if dynamic and drawer.batch_is_free else batch,
                 "S": rng.choice([2, 3, 4] if drawer.with_state else [2, 4, 7, 9]) if dynamic else 6}
        if position + sizes["S"] > 12:
            position = 0
        calls.append(make_inputs(drawer, sizes, seed + 10 + call, position))
        position += sizes["S"]
    eager, eager_state = evaluate(copy.deepcopy(model), calls)
    exact, exact_state = evaluate(doubled(model), calls)
    for e, x in zip(sum(eager, []), sum(exact, [])):
        e, x = e.double(), x.double()
        both = torch.isfinite(e) & torch.isfinite(x)
        e, x = torch.where(both, e, 0), torch.where(both, x, 0)
        if (e - x).norm() > 0.2 * x.norm() + 1e-6:
            return "fickle", ""
    torch.export.save(program, os.path.join(folder, "graph.pt2"))
    inputs, outputs = names_of(program)
    paths = []
    for i, call in enumerate(calls):
        paths.append(os.path.join(folder, f"t{i}.inputs.safetensors"))
        save_file({n: v.contiguous() for n, v in zip(inputs, call)}, paths[-1])
    place = os.path.join(folder, "p.qcg")
    command = [qcodegen, "compile", os.path.join(folder, "graph.pt2"), "-o", place, "--tune=off", "--target", target, *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        text = done.stderr.strip()
        return ("wrong" if "differ" in text.splitlines()[0] else "refused"), text[:400]
    results = [p.replace("inputs", "ours") for p in paths]
    state = [n for n, _ in model.named_buffers()]
    after = os.path.join(folder, "state.safetensors")
    command = [qcodegen, "run", place, "--inputs", ",".join(paths), "--outputs", ",".join(results)]
    done = subprocess.run(command + (["--state-out", after] if state else []), capture_output=True, text=True)
    if done.returncode:
        return "wrong", "run: " + done.stderr.strip()[:400]
    for i, path in enumerate(results):
        ours = load_file(path)
        for name, e, x in zip(outputs, eager[i], exact[i]):
            verdict = judge(f"call {i}, {name}", ours[name], e, x)
            if verdict:
                return "wrong", verdict
    if state:
        ours = load_file(after)
        for name in state:
            verdict = judge(f"state {name}", ours[name], eager_state[name], exact_state[name]) if name in ours else f"no state {name}"
            if verdict:
                return "wrong", verdict
    return "ok", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("qcodegen")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--flags", default="")
    parser.add_argument("--keep", help="where the models stay that are wrong or refused")
    a = parser.parse_args()
    torch.set_num_threads(1)
    counts = {}
    for seed in range(a.seed, a.seed + a.count):
        with tempfile.TemporaryDirectory() as folder:
            verdict, why = run_one(a.qcodegen, seed, folder, a.target, a.flags.split())
            counts[verdict] = counts.get(verdict, 0) + 1
            if verdict in ("wrong", "refused"):
                print(f"{verdict}: seed {seed}: {why}", flush=True)
                if a.keep:
                    shutil.copytree(folder, os.path.join(a.keep, f"{verdict}_{seed}"), dirs_exist_ok=True)
            elif verdict == "unexported":
                print(f"unexported: seed {seed}: {why}", flush=True)
    print(", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())))
    return 1 if counts.get("wrong") or not counts.get("ok") else 0


if __name__ == "__main__":
    sys.exit(main())
