#!/usr/bin/env python3
"""Writes folders with the layers of auto-gptq and autoawq (PyPI), and FOLDER.expected.safetensors with what those layers
multiply by.

Their packages import much that is not needed here: unpack both and name their folders, `make_gptq_awq.py GPTQ AWQ`.
"""
import importlib.util
import json
import pathlib
import sys
import types

import torch
from safetensors.torch import save_file

GPTQ, AWQ = map(pathlib.Path, sys.argv[1:3])
N, K, GROUP, LINEAR = 32, 128, 32, "model.layers.0.mlp.up_proj"
torch.manual_seed(5)


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gptq = load("gptq_layer", GPTQ / "auto_gptq/nn_modules/qlinear/qlinear_cuda.py")
for package in ("awq", "awq.utils", "awq.modules", "awq.modules.linear"):
    sys.modules[package] = types.ModuleType(package)
    sys.modules[package].__path__ = [str(AWQ / package.replace(".", "/"))]
helpers = types.ModuleType("awq.utils.utils")
helpers.get_best_device = lambda: "cpu"
sys.modules["awq.utils.utils"] = helpers
from awq.modules.linear.gemm import WQLinear_GEMM  # noqa: E402
from awq.utils.packing_utils import dequantize_gemm  # noqa: E402


def write(name, layer, expected, config):
    folder = pathlib.Path(name)
    folder.mkdir(exist_ok=True)
    parts = {part: t for part, t in layer.state_dict().items()}
    save_file({f"{LINEAR}.{part}": t.contiguous() for part, t in parts.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"quantization_config": config}, indent=1) + "\n")
    save_file({f"{LINEAR}.weight": expected.float().contiguous()}, f"{name}.expected.safetensors")


def qparams(weight, bits):
    """Scales and zero points [N, G] of groups of columns."""
    parts = weight.reshape(N, -1, GROUP)
    low, high = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
    scale = ((high - low) / (2**bits - 1)).half().float()
    return scale, (-low / scale).round().clamp(1, 2**bits - 1)


def write_gptq(name, bits, act_order=False, version=1):
    linear = torch.nn.Linear(K, N, bias=False)
    g_idx = torch.arange(K, dtype=torch.int32) // GROUP
    if act_order:
        g_idx = g_idx[torch.randperm(K)]
    order = torch.argsort(g_idx, stable=True)
    scale, zero = qparams(linear.weight.data[:, order], bits)
    groups = g_idx.long()
    codes = (linear.weight.data / scale[:, groups] + zero[:, groups]).round().clamp(0, 2**bits - 1)
    linear.weight.data = ((codes - zero[:, groups]) * scale[:, groups]).half()
    layer = gptq.QuantLinear(bits, GROUP, K, N, False)
    layer.pack(linear, scale.half(), zero.half(), g_idx)
    if version == 2:  # as GPTQModel's conversion: the 1 that version 1 takes off comes back
        layer.qzeros = (layer.qzeros.long() + sum(1 << s for s in range(0, 32, bits))).to(torch.int32)
    parts = layer.state_dict()
    assert parts["qweight"].shape == (K * bits // 32, N)
    expected = (codes - zero[:, groups]) * scale[:, groups]
    if version == 1:  # what the layer itself multiplies by
        layer.scales = layer.scales.float()
        assert torch.equal(layer(torch.eye(K)).t(), expected)
    write(name, load_back(layer), expected,
          {"quant_method": "gptq", "bits": bits, "group_size": GROUP, "desc_act": act_order, "sym": False,
           "checkpoint_format": "gptq" if version == 1 else "gptq_v2"})


def load_back(layer):
    layer.scales = layer.scales.half()
    return layer


write_gptq("gptq4", 4)
write_gptq("gptq4_v2", 4, version=2)
write_gptq("gptq4_order", 4, act_order=True)
write_gptq("gptq8", 8)
write_gptq("gptq2", 2)

linear = torch.nn.Linear(K, N, bias=False)
scale, zero = qparams(linear.weight.data, 4)
groups = torch.arange(K) // GROUP
codes = (linear.weight.data / scale[:, groups] + zero[:, groups]).round().clamp(0, 15)
linear.weight.data = (codes - zero[:, groups]) * scale[:, groups]
layer = WQLinear_GEMM.from_linear(linear, 4, GROUP, scales=scale.t().contiguous(), zeros=zero.t().contiguous())
expected = dequantize_gemm(layer.qweight, layer.qzeros, layer.scales.float(), 4, GROUP).t()
write("awq", layer, expected,
      {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True})
write_gptq("gptq3", 3)
write_gptq("gptq3_order", 3, act_order=True)
