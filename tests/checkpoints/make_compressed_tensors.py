#!/usr/bin/env python3
"""Writes one folder per format with the library compressed-tensors (PyPI), and FOLDER.expected.safetensors with what that
library decompresses it to; where activations are rounded, also an x and the y of the linear."""
import json
import pathlib

import torch
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import fake_quantize
from compressed_tensors.quantization.utils import calculate_qparams, compute_dynamic_scales_and_zp
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


def round_activations(x, args):
    """What linears read, and the tensors of the checkpoint that say how: x [1, M, K]."""
    if args.dynamic:
        return fake_quantize(x, *compute_dynamic_scales_and_zp(x, args, torch.nn.Module()), args), {}
    scale, zero = calculate_qparams(x.amin().reshape(1), x.amax().reshape(1), args)
    return fake_quantize(x, scale, zero, args), {"input_scale": scale, "input_zero_point": zero.to(torch.int8)}


def write(name, form, activations=None, **arguments):
    args = QuantizationArgs(**arguments)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, input_activations=activations)
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
    rounded = None
    if activations:
        x = torch.randn(1, 5, K) * torch.tensor([1e-3, 1, 1, 20, 0]).reshape(1, 5, 1)
        rounded, parts = round_activations(x, activations)
        stored.update(parts)
    folder = pathlib.Path(name)
    folder.mkdir(exist_ok=True)
    save_file({f"{LINEAR}.{part}": tensor.contiguous() for part, tensor in stored.items()}, folder / "model.safetensors")
    config = QuantizationConfig(config_groups={"group_0": scheme}, format=form, ignore=["lm_head"])
    text = json.dumps({"quantization_config": json.loads(config.model_dump_json())}, indent=1)
    (folder / "config.json").write_text(text + "\n")
    back = compressor.decompress(stored, scheme)["weight"].float()
    expected = {f"{LINEAR}.weight": back.contiguous()}
    if rounded is not None:
        expected.update(x=x[0].contiguous(), y=(rounded[0] @ back.T).contiguous())
    save_file(expected, f"{name}.expected.safetensors")


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
for name, symmetric, dynamic in [("ct_int8_token", True, True), ("ct_int8_token_zeros", False, True),
                                 ("ct_int8_static", False, False)]:
    write(name, "int-quantized", num_bits=8, type="int", strategy="channel", symmetric=True,
          activations=QuantizationArgs(num_bits=8, type="int", strategy="token" if dynamic else "tensor",
                                       symmetric=symmetric, dynamic=dynamic))
