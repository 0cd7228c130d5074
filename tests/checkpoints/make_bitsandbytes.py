#!/usr/bin/env python3
"""Writes folders with weights that bitsandbytes (PyPI) has quantized on the CPU, under the names that transformers gives
them, and FOLDER.expected.safetensors with what the library dequantizes them to."""
import json
import pathlib

import torch
from bitsandbytes.functional import dequantize_4bit, quantize_4bit
from safetensors.torch import save_file

N, K, WEIGHT = 16, 128, "model.layers.0.mlp.up_proj.weight"
torch.manual_seed(9)

for name, nested in (("bnb_nf4", False), ("bnb_nf4_nested", True)):
    weight = torch.randn(N, K) * 0.1
    packed, state = quantize_4bit(weight, blocksize=64, quant_type="nf4", compress_statistics=nested)
    folder = pathlib.Path(name)
    folder.mkdir(exist_ok=True)
    tensors = {WEIGHT: packed} | {f"{WEIGHT}.{part}": t.contiguous() for part, t in state.as_dict(packed=True).items()}
    save_file(tensors, folder / "model.safetensors")
    config = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
              "bnb_4bit_use_double_quant": nested}
    (folder / "config.json").write_text(json.dumps({"quantization_config": config}, indent=1) + "\n")
    save_file({WEIGHT: dequantize_4bit(packed, state).float().contiguous()}, f"{name}.expected.safetensors")
