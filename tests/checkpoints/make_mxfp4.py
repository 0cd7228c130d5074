#!/usr/bin/env python3
"""Writes experts in mxfp4 as gpt-oss stores them, and what transformers dequantizes them to."""
import json
import pathlib

import torch
from safetensors.torch import save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

E, N, K, NAME = 3, 48, 64, "model.layers.0.mlp.experts.gate_up_proj"
torch.manual_seed(5)

folder = pathlib.Path(__file__).parent / "fixtures" / "mxfp4_experts"
folder.mkdir(exist_ok=True)
blocks = torch.randint(0, 256, (E, N, K // 32, 16), dtype=torch.uint8)
scales = torch.randint(120, 131, (E, N, K // 32), dtype=torch.uint8)
save_file({NAME + "_blocks": blocks, NAME + "_scales": scales}, folder / "model.safetensors")
config = {"model_type": "gpt_oss", "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": []}}
(folder / "config.json").write_text(json.dumps(config, indent=1))
dense = convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16).contiguous()
assert dense.shape == (E, K, N)
save_file({NAME: dense}, folder.with_suffix(".expected.safetensors"))
