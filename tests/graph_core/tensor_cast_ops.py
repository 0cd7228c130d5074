"""The quantized linears of tensor_cast (Ascend/msmodeling) and the quantization of what they read, from its docstrings;
upstream they have shapes only.

    import tensor_cast_ops          # registers torch.ops.tensor_cast.*; torch.export then writes graphs with those targets

static_quant_linear_int4 stores two codes to a byte along K, even k in the high nibble, each 8 too large (upstream's
pack_int4). mxfp4 operands are e2m1 codes, two to a byte along K, even k in the low nibble; scales are e8m0, 32 along K.
"""
from typing import Optional

import torch
from torch import Tensor

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def dequantize(v, scale, offset=None):
    v = v.float() if offset is None else v.float() - offset.float()
    return v if scale is None else v * scale.float()


def multiply(x, w, bias, out_dtype):
    y = x @ w
    return (y if bias is None else y + bias.float()).to(out_dtype)


def unpack_int4(w):
    return torch.stack([(w >> 4).to(torch.int8) - 8, (w & 15).to(torch.int8) - 8], 1).reshape(-1, w.shape[1])


def dequantize_mxfp4(rows, scale):
    """[R, K / 2] bytes and [R, K / 32] scales -> [R, K]"""
    values = E2M1[torch.stack([rows & 15, rows >> 4], -1).reshape(rows.shape[0], -1).long()]
    return values * scale.float().repeat_interleave(32, 1)


def quantize(x: Tensor, scale: Tensor, offset: Optional[Tensor], out_dtype: torch.dtype = torch.int8) -> Tensor:
    q = torch.round(x.float() / scale.float())
    limits = torch.iinfo(out_dtype)
    return torch.clamp(q if offset is None else q + offset.float(), limits.min, limits.max).to(out_dtype)


def register(function, dtype_of):
    op = torch.library.custom_op(f"tensor_cast::{function.__name__}", mutates_args=())(function)
    op.register_fake(lambda x, w, *rest: torch.empty((x.shape[0], w.shape[1]), dtype=dtype_of(x, rest[-1])))


def static_quant_linear(x: Tensor, w: Tensor, w_scale: Tensor, w_offset: Optional[Tensor], x_scale: Optional[Tensor],
                        x_offset: Optional[Tensor], bias: Optional[Tensor], out_dtype: Optional[torch.dtype]) -> Tensor:
    return multiply(dequantize(x, x_scale, x_offset), dequantize(w, w_scale, w_offset), bias, out_dtype or x.dtype)


def static_quant_linear_int4(x: Tensor, w: Tensor, w_scale: Tensor, w_offset: Optional[Tensor], x_scale: Optional[Tensor],
                             x_offset: Optional[Tensor], bias: Optional[Tensor], out_dtype: Optional[torch.dtype]) -> Tensor:
    return multiply(dequantize(x, x_scale, x_offset), dequantize(unpack_int4(w), w_scale, w_offset), bias, out_dtype or x.dtype)


def fp8_linear(x: Tensor, w: Tensor, x_scale: Tensor, w_scale: Tensor, bias: Optional[Tensor], out_dtype: Optional[torch.dtype]) -> Tensor:
    return multiply(dequantize(x, x_scale), dequantize(w, w_scale), bias, out_dtype or torch.float16)


def mxfp4_linear(x: Tensor, w: Tensor, x_scale: Tensor, w_scale: Tensor, bias: Optional[Tensor], out_dtype: Optional[torch.dtype]) -> Tensor:
    rows = dequantize_mxfp4(x, x_scale) if x.dtype is torch.uint8 else dequantize(x, x_scale)
    return multiply(rows, dequantize_mxfp4(w.t(), w_scale).t(), bias, out_dtype or torch.float16)


for f in (static_quant_linear, static_quant_linear_int4):
    register(f, lambda x, out: out or x.dtype)
for f in (fp8_linear, mxfp4_linear):
    register(f, lambda x, out: out or torch.float16)
torch.library.custom_op("tensor_cast::quantize", mutates_args=())(quantize).register_fake(
    lambda x, scale, offset, out_dtype=torch.int8: torch.empty_like(x, dtype=out_dtype))
