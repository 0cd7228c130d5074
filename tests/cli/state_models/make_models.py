"""Writes the folders beside it: models that change their buffers, exported by torch 2.13, with inputs and results of eager PyTorch.

    python3 tests/cli/state_models/make_models.py

training: as torch.export writes it, with operators that write in place; functional: the same after run_decompositions();
inputs: one that changes an input.
"""
import copy
import pathlib

import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent


class Buffers(torch.nn.Module):
    """Every way to write into a buffer: as a whole, into a slice, a row, a transposed view, and by what .to() returns."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 0.0, -1.0, 0.5]))
        self.register_buffer("decayed", torch.ones(4), persistent=False)
        self.register_buffer("cache", torch.zeros(1, 2, 8, 4))
        self.register_buffer("window", torch.zeros(3, 4))
        self.register_buffer("rows", torch.arange(12.0).reshape(4, 3))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x, k):
        before = self.total * 2
        self.total.add_(x)
        self.decayed.mul_(0.5)
        self.decayed += x
        head = self.cache[:, 0]
        self.cache[:, :, 2:3] = k
        self.cache[:, 1, 0] = x
        self.window.copy_(torch.cat([self.window[1:], x.unsqueeze(0)]))
        self.rows.t()[1].copy_(x)
        self.count.to(torch.int64).add_(1)
        y = self.cache.sum(dim=2) * self.total + self.decayed + before
        # A view that was taken before the writes shows what they wrote.
        z = self.window.mean(dim=0) + self.rows.sum(dim=1) + head[:, 2:4].sum(dim=1)
        return y, z, self.count * 2


class Inputs(torch.nn.Module):
    def forward(self, x, seen):
        seen.mul_(0.5)
        seen[1:3] += x
        return seen.sum(dim=0) - x.sum(dim=0)


class Positions(torch.nn.Module):
    """Rows of buffers are written at positions known at run time, in every way that exports have."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 8, 4))
        self.register_buffer("values", torch.zeros(1, 2, 8, 4))
        self.register_buffer("table", torch.arange(15.0).reshape(5, 3))
        self.register_buffer("marks", torch.zeros(2, 5, dtype=torch.int64))

    def forward(self, x, at, ids):
        k = x.view(1, -1, 2, 4).transpose(1, 2)
        self.keys.index_copy_(2, at, k * 2)
        self.values[:, :, at] = k
        self.table[ids, 1] = x[0, :2]
        self.marks.scatter_(1, ids.unsqueeze(1), 7)
        weights = torch.softmax(k @ self.keys.transpose(2, 3), dim=-1)
        return weights @ self.values, self.table.sum(dim=0), self.marks + 0


def write(name, exported, eager, calls, state):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    for node in exported.graph.nodes:
        node.meta.pop("stack_trace", None)  # it names files of whoever ran this
    torch.export.save(exported, folder / "graph.pt2")
    names = [s.arg.name for s in exported.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    outputs = [s.arg.name for s in exported.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    for i, call in enumerate(calls):
        given = {n: t.clone() for n, t in zip(names, call)}
        save_file(given, folder / f"t{i}.inputs.safetensors")
        with torch.no_grad():
            results = eager(*given.values())
        results = results if isinstance(results, tuple) else (results,)
        expected = {n: t.clone() for n, t in zip(outputs, results)}
        if not state:
            expected |= {n: t for n, t in given.items() if not torch.equal(t, dict(zip(names, call))[n])}
        save_file(expected, folder / f"t{i}.expected.safetensors")
    if state:
        save_file({n: b.clone() for n, b in eager.named_buffers()}, folder / "state.expected.safetensors")


torch.manual_seed(7)
calls = [(torch.randn(4), torch.randn(1, 2, 1, 4)) for _ in range(3)]
exported = torch.export.export(Buffers(), copy.deepcopy(calls[0]))
write("training", exported, Buffers(), calls, True)
write("functional", exported.run_decompositions(), Buffers(), calls, True)
calls = [(torch.randn(2, 3), torch.randn(4, 3)) for _ in range(2)]
write("inputs", torch.export.export(Inputs(), copy.deepcopy(calls[0])), Inputs(), calls, False)
calls = [(torch.randn(2, 8), torch.tensor(at), torch.tensor(ids))
         for at, ids in (([0, 1], [4, 0]), ([2, 7], [1, 2]), ([7, 3], [3, 1]))]
sequence = torch.export.Dim("sequence", min=1, max=8)
shapes = ({0: sequence}, {0: sequence}, None)
exported = torch.export.export(Positions(), copy.deepcopy(calls[0]), dynamic_shapes=shapes)
write("positions", exported, Positions(), calls, True)
write("positions_functional", exported.run_decompositions(), Positions(), calls, True)
