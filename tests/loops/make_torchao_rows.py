"""Writes torchao_rows.json: rows quantized by torchao and by quantized_decomposed, as raw bits, for quantize_rows_test.cpp.

    python make_torchao_rows.py > torchao_rows.json      (torch 2.13, torchao 0.18)
"""
import json
import math

import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed
from torchao.quantization.quant_primitives import MappingType, choose_qparams_affine, quantize_affine

K = 37


def rows(dtype, generator):
    x = torch.randn(11, K, generator=generator)
    x[0] = 0
    x[1] = 3.25
    x[2] = -x[2].abs()
    x[3] = x[3].abs()
    x[4] *= torch.finfo(dtype).max / 8
    x[5] *= torch.finfo(dtype).smallest_normal / 4
    x[6] = torch.linspace(-1, 1, K)  # many ties after scaling
    x[7] = 0
    x[7, 36] = -1.0
    x[8] *= 1e-6
    x[9] = torch.arange(K) - 18.0
    return x.to(dtype)


def bits(t):
    view = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[t.element_size()]
    return [int(v) & ((1 << 8 * t.element_size()) - 1) for v in t.contiguous().view(view).flatten()]


def main():
    generator = torch.Generator().manual_seed(7)
    cases = []

    def add(name, x, mapping, low, high, out, eps, scale_dtype):
        scale, zero = choose_qparams_affine(
            x, mapping, (1, K), out, low, high, eps=eps, scale_dtype=scale_dtype, zero_point_dtype=torch.int32)
        q = quantize_affine(x, (1, K), scale, zero, out, low, high)
        cases.append({
            "input": name, "mapping": mapping.name, "low": low, "high": high, "eps": eps or 0,
            "scale_dtype": "f32" if scale_dtype else name, "x": bits(x), "scale": bits(scale.float()),
            "zero": zero.flatten().tolist(), "q": bits(q)})

    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16), ("f16", torch.float16)):
        x = rows(dtype, generator)
        for mapping in (MappingType.SYMMETRIC, MappingType.ASYMMETRIC):
            for low, high, out in ((-128, 127, torch.int8), (-127, 127, torch.int8), (0, 255, torch.uint8)):
                for eps in (None, 1.1920928955078125e-07, 1e-5):
                    add(name, x, mapping, low, high, out, eps, torch.float32)
    # Scales in the dtype of the activation: 1 / scale and x / scale are rounded to it as well.
    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        x = torch.cat([rows(dtype, generator)[:4], torch.randn(7, K, generator=generator).to(dtype) * 3])
        for mapping in (MappingType.SYMMETRIC, MappingType.ASYMMETRIC):
            for low, high, out in ((-128, 127, torch.int8), (-127, 127, torch.int8), (0, 255, torch.uint8)):
                add(name, x, mapping, low, high, out, None, None)
    ops = torch.ops.quantized_decomposed
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16), ("f16", torch.float16)):
        x = rows(dtype, generator)
        for mapping, choose in (("PER_TOKEN", ops.choose_qparams_per_token), ("PER_TOKEN_ASYMMETRIC", ops.choose_qparams_per_token_asymmetric)):
            scale, zero = choose(x, torch.int8)
            for low, high in ((-128, 127), (-127, 127)):
                q = ops.quantize_per_token(x, scale, zero, low, high, torch.int8)
                eps = 2.0**-23 if "ASYM" in mapping else torch.tensor(1e-5).to(scale.dtype).double().item() / 127
                kind = "f64" if "ASYM" in mapping else "bf16" if name == "bf16" else "f32"
                cases.append({
                    "input": name, "mapping": mapping, "low": low, "high": high, "eps": eps, "scale_dtype": kind, "x": bits(x),
                    "scale": bits(scale.float()), "zero": zero.flatten().int().tolist(), "q": bits(q)})
    print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")


main()
