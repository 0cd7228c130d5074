#!/usr/bin/env python3
"""Writes one folder per format with the library compressed-tensors (PyPI), and FOLDER.expected.safetensors with what that
library decompresses it to."""
import json
import pathlib

import torch
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import save_file

N, K, LINEAR = 16, 128, "model.layers.0.mlp.up_proj"
torch.manual_seed(3)


def ranges(weight, args):
    """Least and greatest number of what shares a scale."""
    if args.strategy == "group" or args.strategy == "tensor_group":
        parts = weight.reshape(N, K // args.group_size, args.group_size)
        return parts.amin(-1), parts.amax(-1)
    if args.strategy == "block":
        rows, columns = args.block_structure
        parts = weight.reshape(N // rows, rows, K // columns, columns)
        return parts.amin((1, 3)), parts.amax((1, 3))
    if args.strategy == "tensor":
        return weight.amin().reshape(1), weight.amax().reshape(1)
    return weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)


def write(name, form, **arguments):
    args = QuantizationArgs(**arguments)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    weight = torch.randn(N, K) * 0.1
    low, high = ranges(weight, args)
    state = {"weight": weight}
    if form == "nvfp4-pack-quantized":
        state["weight_global_scale"] = (448 * 6 / weight.abs().max()).reshape(1).float()
        scale, zero = calculate_qparams(low, high, args, global_scale=state["weight_global_scale"])
    else:
        scale, zero = calculate_qparams(low, high, args)
    state["weight_scale"], state["weight_zero_point"] = scale, zero
    compressor = BaseCompressor.get_value_from_registry(form)
    stored = compressor.compress(state, scheme)
    folder = pathlib.Path(name)
    folder.mkdir(exist_ok=True)
    save_file({f"{LINEAR}.{part}": tensor.contiguous() for part, tensor in stored.items()}, folder / "model.safetensors")
    config = QuantizationConfig(config_groups={"group_0": scheme}, format=form, ignore=["lm_head"])
    text = json.dumps({"quantization_config": json.loads(config.model_dump_json())}, indent=1)
    (folder / "config.json").write_text(text + "\n")
    back = compressor.decompress(stored, scheme)["weight"].float()
    save_file({f"{LINEAR}.weight": back.contiguous()}, f"{name}.expected.safetensors")


write("ct_pack4_group", "pack-quantized", num_bits=4, type="int", strategy="group", group_size=32, symmetric=True)
write("ct_pack4_zeros", "pack-quantized", num_bits=4, type="int", strategy="group", group_size=32, symmetric=False)
write("ct_pack8_channel", "pack-quantized", num_bits=8, type="int", strategy="channel", symmetric=True)
write("ct_int8_channel", "int-quantized", num_bits=8, type="int", strategy="channel", symmetric=True)
write("ct_int8_tensor", "int-quantized", num_bits=8, type="int", strategy="tensor", symmetric=True)
write("ct_float8_channel", "float-quantized", num_bits=8, type="float", strategy="channel", symmetric=True)
write("ct_float8_block", "float-quantized", num_bits=8, type="float", strategy="block", block_structure=[8, 32],
      symmetric=True)
write("ct_nvfp4", "nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16,
      symmetric=True, scale_dtype=torch.float8_e4m3fn)
write("ct_mxfp4", "mxfp4-pack-quantized", num_bits=4, type="float", strategy="group", group_size=32, symmetric=True,
      scale_dtype=torch.uint8)
