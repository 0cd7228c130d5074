"""Export a PyTorch model for qcodegen. The ten lines that matter are in export(); the rest makes the shipped examples.

    python export.py OUT        writes OUT/<example>/{graph.pt2, m<M>.inputs.safetensors, m<M>.expected.safetensors}

Needs torch >= 2.9, torchao and safetensors: on the machine that exports, never where programs are compiled or run.
"""
import os
import re
import sys
import warnings
import zipfile

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torchao.quantization import Int8WeightOnlyConfig, quantize_
from torchao.utils import unwrap_tensor_subclass

warnings.filterwarnings("ignore")


def export(model, inputs, path):
    """Writes `model` as path (.pt2); the first axis of every input is symbolic, 1 to 4096."""
    rows = torch.export.Dim("m", min=1, max=4096)
    model = unwrap_tensor_subclass(model.eval())  # torchao's weights become plain tensors
    with torch.no_grad():
        program = torch.export.export(model, inputs, dynamic_shapes=[{0: rows} for _ in inputs], strict=True)
    torch.export.save(program, path)
    return program


class Mlp(nn.Module):
    """The feed-forward block of a Llama decoder layer."""

    def __init__(self, hidden, intermediate):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class CatLinear(nn.Module):
    """A recommendation model's first layer: features concatenated, then a linear."""

    def __init__(self, widths, out):
        super().__init__()
        self.fc = nn.Linear(sum(widths), out)

    def forward(self, user, item, context):
        return F.relu(self.fc(torch.cat([user, item, context], dim=-1)))


def scrub(path, compression=zipfile.ZIP_STORED):
    """Replaces the paths of the exporting machine in stack traces by file names."""
    with zipfile.ZipFile(path) as archive:
        entries = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w", compression) as archive:
        for info, data in entries:
            if info.filename.endswith(".json"):
                data = re.sub(rb'File \\"/[^"]*?/([^/"\\]+)\\"', rb'File \\"\1\\"', data)
            archive.writestr(info.filename, data, compression)


def write_example(folder, model, make_inputs):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "graph.pt2")
    program = export(model, make_inputs(7), path)
    scrub(path)
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    outputs = program.graph_signature.user_outputs
    for m in (1, 5, 33):
        inputs = make_inputs(m)
        with torch.no_grad():
            result = model(*inputs)
        result = result if isinstance(result, tuple) else (result,)
        save_file({n: t.contiguous() for n, t in zip(names, inputs)}, os.path.join(folder, f"m{m}.inputs.safetensors"))
        save_file({n: t.contiguous() for n, t in zip(outputs, result)}, os.path.join(folder, f"m{m}.expected.safetensors"))


def main(out):
    torch.manual_seed(1)
    mlp = Mlp(256, 704).to(torch.bfloat16)
    quantize_(mlp, Int8WeightOnlyConfig())
    write_example(os.path.join(out, "llama_mlp_int8"), mlp, lambda m: (torch.randn(m, 256, dtype=torch.bfloat16),))
    widths = (64, 96, 33)
    write_example(os.path.join(out, "recsys_cat_linear"), CatLinear(widths, 80),
                  lambda m: tuple(torch.randn(m, w) for w in widths))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))
