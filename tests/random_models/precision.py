#!/usr/bin/env python3
"""The error of compiled models against float64, beside eager's own.

    python3 precision.py QCODEGEN DIR [--only GLOB] [--target T] [--limit 1.05] [--draws N]

DIR holds a folder per model: graph.pt2, and m*.{inputs,expected}.safetensors (stateless) or t*.{inputs,expected}.safetensors
(successive calls on one state), where `expected` is eager's. The graph is run once more with all floats as float64. A line per model
gives |ours - f64| / |eager - f64| over all its outputs. Exit status 1 if a ratio is above the limit.

A model of few outputs has few roundings, and its ratio is a draw. With --draws, N more sets of inputs are drawn like the given ones
(numbers from a normal distribution; token ids anew, positions and masks as they are), and eager runs here.
"""
import argparse
import fnmatch
import glob
import importlib
import os
import subprocess
import sys
import tempfile
import warnings

import torch
from safetensors.torch import load_file, save_file

for library in ("torchao.quantization", "transformers.modeling_outputs", "transformers.integrations.moe"):  # they register operators and outputs of exports
    try:
        importlib.import_module(library)
    except ImportError:
        pass

warnings.filterwarnings("ignore")
NARROW = (torch.float32, torch.bfloat16, torch.float16)


def widened(argument):
    if isinstance(argument, torch.dtype):
        return torch.float64 if argument in NARROW else argument
    if isinstance(argument, (list, tuple)):
        return type(argument)(widened(a) for a in argument)
    return argument


def quantizing(function):
    """An operator of torchao that gives codes or scales, which takes no float64: of what f32 holds of its operands."""

    def call(*arguments, **keywords):
        convert = lambda f: lambda v: f(v) if isinstance(v, torch.Tensor) and v.is_floating_point() else v
        mapped = torch.utils._pytree.tree_map(convert(torch.Tensor.float), (arguments, keywords))
        return torch.utils._pytree.tree_map(convert(torch.Tensor.double), function(*mapped[0], **mapped[1]))

    return call


def dequantized(codes, block_size, scale, zero_point, *_arguments, **_keywords):
    """torchao.dequantize_affine, whose own arithmetic is that of f32: (codes - zero_point) * scale of each block."""

    def expanded(parameter):
        blocks = parameter.reshape([n // b for n, b in zip(codes.shape, block_size)])
        for axis, size in enumerate(block_size):
            blocks = blocks.repeat_interleave(size, axis)
        return blocks.double()

    return (codes.double() - (0 if zero_point is None else expanded(zero_point))) * expanded(scale)


def doubled(program):
    """The program's module with float64 in the place of every float."""
    module = program.module()
    for part in module.modules():
        if not isinstance(part, torch.fx.GraphModule):
            continue
        for node in list(part.graph.nodes):
            if node.op == "call_module" and "guard" in str(node.target):
                part.graph.erase_node(node)
            elif node.op == "call_function" and "_assert_tensor_metadata" in str(node.target):
                part.graph.erase_node(node)
            elif node.op == "call_function" and "dequantize_affine" in str(node.target):
                node.target = dequantized
            elif node.op == "call_function" and any(name in str(node.target) for name in ("choose_qparams", "torchao.quantize")):
                node.target = quantizing(node.target)
            elif node.op == "call_function":
                node.args = widened(tuple(node.args))
                node.kwargs = {k: widened(v) for k, v in node.kwargs.items()}
        part.graph.lint()
        part.recompile()
    module.double()
    for part in module.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                setattr(part, name, value.double())
    return module


def run_module(program, module, calls, real):
    """By call, the outputs by name: of successive calls on one state."""
    names = [s.arg.name for s in program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    inputs = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    results = []
    torch.set_default_dtype(real)
    try:
        for call in calls:
            given = [call[n].double() if call[n].is_floating_point() and real is torch.float64 else call[n] for n in inputs if n in call]
            arguments, keywords = torch.utils._pytree.tree_unflatten(given, program.call_spec.in_spec)
            with torch.no_grad():
                flat = torch.utils._pytree.tree_leaves(module(*arguments, **keywords))
            results.append({n: v.clone() for n, v in zip(names, flat)})
    finally:
        torch.set_default_dtype(torch.float32)
    return results


def drawn(value, generator):
    if value.is_floating_point():
        return torch.randn(value.shape, generator=generator).to(value.dtype)
    flat = value.flatten()
    ascends = flat.numel() > 0 and bool((flat[1:] > flat[:-1]).all())
    if value.dtype == torch.bool or ascends or flat.max() < 2:
        return value
    return torch.randint(int(flat.min()), int(flat.max()) + 1, value.shape, generator=generator).to(value.dtype)


def cases_of(folder, graph, draws):
    """By case its calls: inputs by name, and what eager gives."""
    steps = sorted(glob.glob(os.path.join(folder, "t[0-9]*.inputs.safetensors")), key=lambda f: int(os.path.basename(f)[1:].split(".")[0]))
    files = [steps] if steps else [[f] for f in sorted(glob.glob(os.path.join(folder, "m*.inputs.safetensors")))]
    given = [[load_file(f) for f in case] for case in files]
    if not draws:
        return [(calls, [load_file(f.replace(".inputs.", ".expected.")) for f in case]) for calls, case in zip(given, files)]
    cases = []
    for seed in range(draws):
        generator = torch.Generator().manual_seed(seed)
        for calls in given:
            calls = [{n: drawn(v, generator) for n, v in call.items()} for call in calls]
            program = torch.export.load(graph)
            cases.append((calls, run_module(program, program.module(), calls, torch.float32)))
    return cases


def ratio_of(qcodegen, folder, target, draws):
    ours_error = eager_error = 0.0
    graph = os.path.join(folder, "graph.pt2")
    with tempfile.TemporaryDirectory() as place:
        compiled = os.path.join(place, "p.qcg")
        subprocess.run([qcodegen, "compile", graph, "-o", compiled, "--tune=off", "--target", target], check=True, capture_output=True)
        for calls, expected in cases_of(folder, graph, draws):
            inputs = [os.path.join(place, f"i{i}.safetensors") for i in range(len(calls))]
            outputs = [os.path.join(place, f"o{i}.safetensors") for i in range(len(calls))]
            for path, call in zip(inputs, calls):
                save_file(call, path)
            subprocess.run([qcodegen, "run", compiled, "--inputs", ",".join(inputs), "--outputs", ",".join(outputs)], check=True, capture_output=True)
            program = torch.export.load(graph)
            exact = run_module(program, doubled(program), calls, torch.float64)
            for output, eager, right in zip(outputs, expected, exact):
                ours = load_file(output)
                for name, value in eager.items():
                    if not value.is_floating_point():
                        continue
                    both = torch.isfinite(value) & torch.isfinite(right[name])
                    apart = lambda v: torch.where(both, v.double() - right[name].double(), 0.0).square().sum().item()
                    ours_error += apart(ours[name])
                    eager_error += apart(value)
    return ours_error**0.5, eager_error**0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("qcodegen")
    parser.add_argument("folder")
    parser.add_argument("--only", default="*")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--limit", type=float, default=1.05)
    parser.add_argument("--draws", type=int, default=0)
    a = parser.parse_args()
    above = 0
    for graph in sorted(glob.glob(os.path.join(a.folder, "*", "graph.pt2"))):
        name = os.path.basename(os.path.dirname(graph))
        if not fnmatch.fnmatch(name, a.only):
            continue
        try:
            ours, eager = ratio_of(a.qcodegen, os.path.dirname(graph), a.target, a.draws)
        except Exception as error:  # an operator without a float64 form, a refusal
            print(f"{name}: not compared: {str(error).splitlines()[0][:150]}", flush=True)
            continue
        bad = ours > a.limit * eager
        above += bad
        print(f"{name}: {ours / max(eager, 1e-300):.3f} ({ours:.2e} beside {eager:.2e}){'  ABOVE' if bad else ''}", flush=True)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
