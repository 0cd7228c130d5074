#!/usr/bin/env python3
"""Writes torch_cases.txt: one small graph per op, its inputs, and what eager torch computes for them; then quantizations of
computed values, whose integers programs have to give as well.

    python3 make_torch_cases.py > torch_cases.txt      (torch 2.13, torchao 0.18)
"""
import math
import operator

import torch
import tensor_cast_ops  # registers torch.ops.tensor_cast
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed
import torchao  # registers torch.ops.torchao
import torch_quantizations

DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.uint8: "u8",
          torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.bool: "bool",
          torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2", torch.float8_e8m0fnu: "f8e8m0"}
generator = torch.Generator().manual_seed(7)


def real(*shape, dtype=torch.float32, scale=2.0):
    return (torch.randn(shape, generator=generator) * scale).to(dtype)


def whole(*shape, dtype=torch.int8, low=-128, high=128):
    return torch.randint(low, high, shape, generator=generator).to(dtype)


def number(v, short=False):
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, int):
        return str(v)
    text = f"{v:.9g}" if short else repr(float(v))
    return text if short or any(c in text for c in ".en") else text + ".0"


def type_of(t):
    return f"{DTYPES[t.dtype]}[{', '.join(map(str, t.shape))}]"


def values_of(t):
    flat = t.contiguous().flatten()
    short = t.dtype is not torch.float64  # nine digits tell any two floats apart
    return " ".join(number(v, short) for v in (flat.double() if flat.is_floating_point() else flat.long()).tolist())


def case(op, *args, exact=False, declared=None, returned=None, **kwargs):
    """declared: the dtypes of the outputs as the op's meta function has them, where eager execution returns others;
    returned: how many of the outputs the graph returns. Complex numbers are written as pairs."""
    namespace, name, overload = op.split(".")
    function = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    inputs = []

    pairs = lambda t: torch.view_as_real(t).clone() if t.is_complex() else t

    def render(v):
        if isinstance(v, torch.Tensor):
            inputs.append(pairs(v).clone())
            return f"%i{len(inputs) - 1}"
        if isinstance(v, torch.dtype):
            return DTYPES[v]
        if isinstance(v, str):
            return f'"{v}"'
        if isinstance(v, (list, tuple)):
            return "[" + ", ".join(render(x) for x in v) + "]"
        return "none" if v is None else number(v)

    names = [a.name for a in function._schema.arguments]
    rendered = [f"{n} = {render(v)}" for n, v in zip(names, args)]
    rendered += [f"{n} = {render(v)}" for n, v in kwargs.items()]
    result = function(*args, **kwargs)
    outputs = [pairs(t) for t in (result if isinstance(result, (tuple, list)) else [result])]
    outputs = [t.to(dtype) for t, dtype in zip(outputs, declared)] if declared else outputs
    print(f"case {op}{' exact' if exact else ''}")
    signature = ", ".join(f"%i{k}: {type_of(t)}" for k, t in enumerate(inputs))
    left = ", ".join(f"%o{k}" for k in range(len(outputs)))
    print(f"graph({signature}) {{")
    print(f"  {left} = {op}({', '.join(rendered)}) : {', '.join(type_of(t) for t in outputs)}")
    print(f"  return {', '.join(f'%o{k}' for k in range(len(outputs))[:returned])}\n}}")
    for t in inputs:
        print("in", values_of(t))
    for t in outputs[:returned]:
        print("out", values_of(t))


def products():
    x, w, b = real(3, 5), real(4, 5), real(4)
    case("aten.linear.default", x, w, b)
    case("aten.linear.default", real(2, 3, 5, dtype=torch.bfloat16), real(4, 5, dtype=torch.bfloat16))
    case("aten.linear.default", real(5), w)
    case("aten.linear.default", x, real(5))
    case("aten.mm.default", x, real(5, 7))
    case("aten.mm.default", whole(3, 5, dtype=torch.int64), whole(5, 2, dtype=torch.int64))
    case("aten.addmm.default", real(4), x, real(5, 4))
    case("aten.addmm.default", real(3, 1), x, real(5, 4), beta=0.5, alpha=2)
    case("aten.bmm.default", real(2, 3, 5), real(2, 5, 4))
    case("aten.matmul.default", real(2, 1, 3, 5), real(4, 5, 2))
    case("aten.matmul.default", real(5), real(3, 5, 2))
    case("aten.matmul.default", real(3, 5), real(5))
    case("aten.matmul.default", real(5), real(5))
    case("aten._int_mm.default", whole(3, 32), whole(32, 5))
    case("aten._weight_int8pack_mm.default", real(3, 32, dtype=torch.bfloat16), whole(4, 32), real(4, dtype=torch.bfloat16))


def moves():
    x = real(2, 3, 4)
    case("aten.to.dtype", real(2, 3), torch.bfloat16)
    case("aten.to.dtype", real(2, 3, scale=50.0), torch.int8)
    case("aten.to.dtype", whole(2, 3, dtype=torch.int32, low=-1000, high=1000), torch.int8)
    case("aten.to.dtype", whole(4), torch.float16)
    case("aten.to.dtype", torch.tensor([0.0, 0.5, -2.0]), torch.bool)
    case("aten.to.dtype_layout", real(2, 3), dtype=torch.float16)
    case("aten._to_copy.default", whole(5), dtype=torch.float32)
    case("aten.type_as.default", real(2, 3), real(1, dtype=torch.float16))
    for op in ("contiguous", "clone", "detach", "alias", "lift_fresh_copy"):
        case(f"aten.{op}.default", x)
    case("aten.dropout.default", x, 0.5, False)
    case("aten.reshape.default", x, [4, -1])
    case("aten.view.default", x, [6, 4])
    case("aten._unsafe_view.default", x, [24])
    case("aten.flatten.using_ints", x, 0, 1)
    case("aten.flatten.using_ints", torch.tensor(3.0))
    case("aten.unflatten.int", x, -1, [2, -1])
    case("aten.t.default", real(2, 3))
    case("aten.numpy_T.default", x)
    case("aten.transpose.int", x, 0, -1)
    case("aten.permute.default", x, [2, 0, -2])
    case("aten.squeeze.default", real(1, 3, 1))
    case("aten.squeeze.dim", real(1, 3, 1), 1)
    case("aten.squeeze.dim", real(1, 3, 1), -1)
    case("aten.squeeze.dims", real(1, 3, 1), [0, 1])
    case("aten.unsqueeze.default", x, -1)
    case("aten.expand.default", real(3, 1), [2, -1, 4])
    case("aten.slice.Tensor", x, 2, 1, 9223372036854775807, 2)
    case("aten.slice.Tensor", x, 1, -2, -1)
    case("aten.slice.Tensor", x, 1, 2, 1)
    case("aten.slice.Tensor", x)
    case("aten.select.int", x, 1, -1)
    case("aten.narrow.default", x, 2, -3, 2)
    for dims in ([1], [0, -1], []):
        case("aten.flip.default", x, dims)
    case("aten.flip.default", torch.tensor([3, -1, 7], dtype=torch.int8), [0])
    pads = ([1, 2], [0, 1, 2, 0, 0, 1], [-1, 2, 1, -1])
    for pad in pads:
        case("aten.constant_pad_nd.default", x, pad, 1.5)
        case("aten.pad.default", x.bfloat16(), pad)
    case("aten.constant_pad_nd.default", torch.arange(3), [2, 0], -4)
    for value in (x, torch.arange(5, dtype=torch.int32) ** 3):
        case("aten.diff.default", value)
        case("aten.diff.default", value, 2, 0) if value.dim() == 1 else case("aten.diff.default", value, 2, 1)
        case("aten.diff.default", value, 1, -1, value, None)
        case("aten.diff.default", value, 1, 0, value, value)
    truths = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [[math.nan, 2.0, -1.0], [0.0, -0.0, 1e-30]]])
    for value in (truths, truths > 0, (truths > 0).int(), truths[:0]):
        for op in ("any", "all"):
            case(f"aten.{op}.default", value)
            case(f"aten.{op}.dim", value, -1)
            case(f"aten.{op}.dim", value, 0, True)
            case(f"aten.{op}.dims", value, [0, 2])
            case(f"aten.{op}.dims", value, None, True)
    for like in (x, torch.arange(3)):
        case("aten.new_full.default", like, [2, 3], 1.5 if like is x else 7)
        case("aten.new_zeros.default", like, [3])
        case("aten.new_ones.default", like, [2], dtype=torch.bool)
    case("aten.cat.default", [real(2, 3), real(2, 1), real(2, 2)], -1)
    case("aten.cat.default", [real(2, 3), whole(1, 3)])
    case("aten.concat.default", [real(2, 3, dtype=torch.bfloat16), real(1, 3, dtype=torch.float16)])
    case("aten.split.Tensor", x, 3, 2)
    case("aten.split_with_sizes.default", x, [1, 3], -1)
    case("aten.chunk.default", real(7, 2), 3)


def pointwise():
    x, y = real(3, 4), real(3, 4)
    for op in ("add", "sub", "rsub"):
        case(f"aten.{op}.Tensor", x, real(4), alpha=2)
        case(f"aten.{op}.Scalar", x, 1.5, 3)
        case(f"aten.{op}.Tensor", whole(5, dtype=torch.int32), whole(5, dtype=torch.int32), alpha=-2)
    for op in ("add_", "sub_", "mul_", "div_"):
        case(f"aten.{op}.Tensor", real(3, 4, dtype=torch.bfloat16), real(3, 1))
        case(f"aten.{op}.Scalar", real(3, 4), 3)
    for op in ("mul", "div"):
        case(f"aten.{op}.Tensor", real(3, 1), real(1, 4))
        case(f"aten.{op}.Tensor", real(4, dtype=torch.bfloat16), real(4))
        case(f"aten.{op}.Tensor", real(4, dtype=torch.bfloat16), torch.tensor(3.0))
        case(f"aten.{op}.Scalar", whole(4), 2.5)
        case(f"aten.{op}.Scalar", whole(4, dtype=torch.uint8, low=1, high=200), 3)
        case(f"aten.{op}.Tensor", whole(4, dtype=torch.uint8, low=1, high=200), whole(4, dtype=torch.int8, low=1, high=100))
    case("aten.sub_.Tensor", whole(3, 4, dtype=torch.int32), whole(4, dtype=torch.int32))
    case("aten.mul.Tensor", whole(3, 1, dtype=torch.int32, low=-2**31, high=2**31), whole(1, 4, dtype=torch.int32, low=-2**31, high=2**31))
    case("aten.maximum.default", x, y)
    case("aten.minimum.default", x, torch.tensor([[math.nan, 0.0, 1.0, -1.0]]))
    positive = real(3, 4).abs() + 0.1
    for op in ("neg", "abs", "reciprocal", "exp", "log", "sqrt", "rsqrt", "sin", "cos", "erf", "tanh", "sigmoid", "relu", "silu", "round", "floor"):
        source = positive if op in ("log", "sqrt", "rsqrt", "reciprocal") else x
        case(f"aten.{op}.default", source)
        case(f"aten.{op}_.default", source.to(torch.bfloat16))
        if op in ("neg", "abs", "relu"):
            case(f"aten.{op}.default", whole(6))
        if op in ("exp", "sigmoid", "sqrt"):
            case(f"aten.{op}.default", whole(6, dtype=torch.int32, low=0, high=5))
    case("aten.round.default", torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 2.4999]))
    case("aten.gelu.default", x)
    case("aten.gelu.default", x, approximate="tanh")
    case("aten.gelu_.default", real(5, dtype=torch.float16))
    case("aten.hardtanh.default", x)
    case("aten.hardtanh_.default", real(6), 0, 6)
    case("aten.relu6.default", torch.tensor([-1.5, 0.0, 0.25, 5.875, 6.0, 7.5]))
    case("aten.clamp.default", x, -0.5, 0.25)
    case("aten.clamp.default", whole(8), -3, 100)
    case("aten.clamp.default", whole(8), -3.5)
    case("aten.clamp_.default", real(6), None, 1)
    case("aten.clamp_min.default", x, 0)
    case("aten.clamp_max.default", whole(8), 3)
    case("aten.pow.Tensor_Scalar", x, 2)
    case("aten.pow.Tensor_Scalar", positive, -0.5)
    case("aten.pow.Tensor_Scalar", whole(4, dtype=torch.int32), 3)


def reductions():
    x = real(2, 3, 4)
    case("aten.sum.dim_IntList", x, [1])
    case("aten.sum.dim_IntList", x, [0, -1], True)
    case("aten.sum.dim_IntList", x, None)
    case("aten.sum.dim_IntList", whole(3, 4), [0], True)
    case("aten.sum.dim_IntList", whole(3, 40), [1], False, dtype=torch.int32)
    case("aten.mean.dim", x, [-1], True)
    case("aten.mean.dim", real(3, 4, dtype=torch.bfloat16), [0], dtype=torch.float32)
    case("aten.amax.default", x, [1, 2])
    case("aten.amin.default", x)
    case("aten.amax.default", whole(3, 4), [0], True)


def quantization():
    qparams, quantize, dequantize = (f"torchao.{n}_affine.default" for n in ("choose_qparams", "quantize", "dequantize"))
    i8, i32, f32 = torch.int8, torch.int32, torch.float32
    awkward = real(4, 32)
    awkward[1] = 0
    awkward[2] = awkward[2].abs()
    awkward[3] *= 1e-30
    for x in (real(4, 32), awkward, real(3, 32, dtype=torch.bfloat16), real(3, 32, dtype=torch.float16), real(2, 3, 32, scale=100.0)):
        row, group = [1] * (x.dim() - 1) + [32], [1] * (x.dim() - 1) + [8]
        for mapping in ("SYMMETRIC", "ASYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR"):
            for block, low, high, eps, keepdim, scale_dtype in ((row, -128, 127, 2.0**-23, True, f32), (group, -8, 7, None, False, None)):
                case(qparams, x, mapping, block, i8, low, high, eps, scale_dtype, i8, keepdim, exact=True)
                scale, zero = torch.ops.torchao.choose_qparams_affine(x, mapping, block, i8, low, high, eps, scale_dtype, i8, keepdim)
                case(quantize, x, block, scale, zero, i8, low, high, exact=True)
                q = torch.ops.torchao.quantize_affine(x, block, scale, zero, i8, low, high)
                case(dequantize, q, block, scale, zero, i8, low, high, output_dtype=x.dtype, exact=True)
    x = real(4, 8)
    case(qparams, x, "ASYMMETRIC", [1, 8], torch.uint8, exact=True)
    case(qparams, x, "SYMMETRIC", [2, 4], i8, exact=True)
    case(qparams, x, "ASYMMETRIC", [4, 8], i8, zero_point_dtype=i32, exact=True)
    scale, zero = torch.ops.torchao.choose_qparams_affine(x, "ASYMMETRIC", [2, 4], torch.uint8, zero_point_dtype=i32)
    case(quantize, x, [2, 4], scale, zero, torch.uint8, exact=True)
    case(dequantize, whole(4, 8), [1, 4], real(4, 2), None, i8, exact=True)


def packed_products():
    own = torch.Generator().manual_seed(11)
    for n, k, group, dtype in ((64, 64, 32, torch.float32), (112, 64, 64, torch.bfloat16)):
        codes = torch.randint(0, 16, (n, k // group, group), generator=own, dtype=torch.int32)
        codes[..., 0], codes[..., -1] = 0, 15  # as quantizers leave them: it tells the packings of AVX-512 and AVX2 apart
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes.view(n, k).contiguous(), 1)
        scales = torch.rand(k // group, n, 2, generator=own) * 0.1 - torch.tensor([0, 0.05])
        x = torch.randn(3, k, generator=own)
        case("aten._weight_int4pack_mm_for_cpu.default", x.to(dtype), packed, group, scales.to(dtype))


def decomposed():
    """PyTorch 2 Export's quantization. Values of their own: the generator above stays where it was."""
    ops = {n: "quantized_decomposed." + n for n in (
        "quantize_per_tensor", "dequantize_per_tensor", "quantize_per_channel", "dequantize_per_channel", "quantize_per_token",
        "dequantize_per_token", "quantize_per_channel_group", "dequantize_per_channel_group", "choose_qparams",
        "choose_qparams_symmetric", "choose_qparams_per_token", "choose_qparams_per_token_asymmetric", "convert_element_type")}
    i8, u8, f32, f64, i64 = torch.int8, torch.uint8, torch.float32, torch.float64, torch.int64
    x = torch.sin(torch.arange(24.0) * 1.7).reshape(4, 6) * 3
    halves = torch.arange(-6, 6).float().reshape(2, 6) / 2
    for v in (x, halves, x.to(torch.bfloat16), x.to(torch.float16), torch.tensor([[1e9, -1e9, math.inf, -math.inf, 0.0, -0.0]])):
        case(ops["quantize_per_tensor"] + ".default", v, 0.1, -3, -128, 127, i8, exact=True)
        case(ops["quantize_per_tensor"] + ".default", v, 1.0, 7, 0, 9, u8, exact=True)
        case(ops["quantize_per_tensor"] + ".tensor", v, torch.tensor([0.02]), torch.tensor([120]), 0, 255, u8, exact=True)
    limits = torch.tensor(-7), torch.tensor(8)
    case(ops["quantize_per_tensor"] + ".tensor2", x, torch.tensor(0.3, dtype=f64), torch.tensor(1), *limits, i8, exact=True)
    q = torch.arange(-12, 12, dtype=i8).reshape(4, 6) * 10
    case(ops["dequantize_per_tensor"] + ".default", q, 0.1, -3, -128, 127, i8, exact=True)
    case(ops["dequantize_per_tensor"] + ".default", q + 128, 0.013, 255, 0, 255, i8, out_dtype=torch.bfloat16, exact=True)
    case(ops["dequantize_per_tensor"] + ".tensor", q, torch.tensor([0.02]), torch.tensor([12]), -128, 127, i8, out_dtype=f32, exact=True)
    case(ops["dequantize_per_tensor"] + ".tensor2", q, torch.tensor(0.3, dtype=f64), torch.tensor(1), *limits, i8, out_dtype=f32, exact=True)
    scales, zeros = torch.tensor([0.1, 0.02, 1.0, 0.5]), torch.tensor([0, -5, 100, 1])
    for v in (x, x.to(torch.bfloat16)):
        case(ops["quantize_per_channel"] + ".default", v, scales, zeros, 0, -128, 127, i8, exact=True)
        case(ops["quantize_per_token"] + ".default", v, scales[:, None], zeros[:, None], -128, 127, i8, exact=True)
        case(ops["quantize_per_token"] + ".default", v, scales[:, None].double(), zeros[:, None], -128, 127, i8, exact=True)
        case(ops["quantize_per_channel_group"] + ".default", v, scales.repeat(2), zeros.repeat(2), -8, 7, i8, 3, exact=True)
    case(ops["quantize_per_channel"] + ".default", x, torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), torch.arange(6), 1, -128, 127, i8, exact=True)
    case(ops["dequantize_per_channel"] + ".default", q, scales, zeros, 0, -128, 127, i8, exact=True)
    case(ops["dequantize_per_channel"] + ".default", q, scales, None, -2, -128, 127, i8, out_dtype=torch.float16, exact=True)
    case(ops["dequantize_per_channel"] + ".default", q.reshape(2, 2, 6), torch.arange(1.0, 7), None, 2, -128, 127, i8, exact=True)
    case(ops["dequantize_per_token"] + ".default", q, scales[:, None].double(), zeros[:, None], -128, 127, i8, f32, exact=True)
    case(ops["dequantize_per_channel_group"] + ".default", q, scales.repeat(2), zeros.repeat(2), -8, 7, i8, 3, f32, exact=True)
    case(ops["dequantize_per_channel_group"] + ".default", q, scales[:, None], None, -8, 7, i8, 6, torch.bfloat16, exact=True)
    for v in (x, x.abs() + 1, -x.abs(), torch.zeros(2, 3), x * 1e-20, x.to(torch.bfloat16), x.to(torch.float16)):
        for op in ("choose_qparams", "choose_qparams_symmetric"):
            case(ops[op] + ".tensor", v, -128, 127, 2.0**-23, i8, exact=True)
            case(ops[op] + ".tensor", v, 0, 255, 2.0**-12, u8, exact=True)
        for op in ("choose_qparams_per_token", "choose_qparams_per_token_asymmetric"):
            case(ops[op] + ".default", v, i8, exact=True, declared=(f64, i64))
    case("quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default", x, i8, exact=True, declared=(f64, i64))
    case(ops["convert_element_type"] + ".no_fuse", x, torch.bfloat16, exact=True)
    case(ops["convert_element_type"] + ".no_fuse", x * 10, i8, exact=True)


def selection():
    x = torch.tensor([[-1.5, 0.0, 2.0], [math.nan, math.inf, -0.0]])
    whole = torch.tensor([[2**31 - 1, -5, 0], [16777217, 16777216, 7]], dtype=torch.int32)
    case("aten.gt.Scalar", x, 0)
    case("aten.gt.Scalar", whole, 16777216)
    case("aten.gt.Tensor", whole, whole.flip(1))
    case("aten.gt.Tensor", x, torch.tensor([0.0, 0.5, 2.0]))
    case("aten.where.self", x > 0, x, torch.tensor(7.0))
    case("aten.where.self", torch.tensor([True, False, True]), whole, whole * 0 + 3)
    case("aten.full_like.default", x, 2)
    case("aten.full_like.default", x, -1.5, dtype=torch.bfloat16)
    case("aten.zeros_like.default", whole)
    case("aten.ones_like.default", x, dtype=torch.int32)


def scaled_products():
    own = torch.Generator().manual_seed(13)
    f32, bf16, e4m3, e5m2 = torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2
    normal = lambda *shape: torch.randn(shape, generator=own)
    positive = lambda *shape: torch.rand(shape, generator=own) + 0.25
    whole = lambda low, high, *shape, dtype=torch.int8: torch.randint(low, high, shape, generator=own).to(dtype)
    ends = torch.tensor([448.0, 463, 464, 465, 1e4, -1e9, math.inf, math.nan, 61439, 61440, 2**-9, 2**-10, 1.1 * 2**-10, 2**-17, -0.0, 0.3])
    for dtype in (e4m3, e5m2):
        case("aten.to.dtype", ends, dtype, exact=True)
        case("aten.to.dtype", ends.to(bf16), dtype, exact=True)
        case("aten.to.dtype", ends.to(dtype), f32, exact=True)
    x, w, one, half = normal(3, 32).to(e4m3), normal(5, 32).to(e4m3).t(), positive(1)[0], torch.tensor([0.5])
    mm, v2 = "aten._scaled_mm.default", "aten._scaled_mm_v2.default"
    case(mm, x, w, one, half, out_dtype=f32)
    case(mm, x, w, positive(3, 1), positive(1, 5), normal(5).to(bf16), out_dtype=bf16)
    case(mm, x.float().to(e5m2), w, one, one, out_dtype=torch.float16)
    case(mm, x, w, one, half, None, torch.tensor(2.0), e4m3)
    case(mm, x, w, one, half, None, torch.tensor(2.0), f32)
    case(mm, x, w, one, half)
    case(v2, x, w, [one], [0], [0], [half], [0], [0], None, bf16)
    case(v2, x, w, [positive(3, 1)], [1], [0], [positive(1, 5)], [1], [0], normal(5).to(bf16), bf16)
    linear, int4 = "tensor_cast.static_quant_linear.default", "tensor_cast.static_quant_linear_int4.default"
    q, i8, u4 = whole(-128, 128, 3, 32), whole(-128, 128, 32, 5), whole(0, 256, 16, 5, dtype=torch.uint8)
    for op, weight in ((linear, i8), (int4, u4)):
        case(op, q, weight, positive(5) / 100, None, one, None, None, f32)
        case(op, q, weight, one, whole(-4, 4, 5), positive(3, 1), whole(-9, 9, 3, 1, dtype=torch.int32), normal(5), bf16)
        case(op, normal(3, 32), weight, positive(5) / 100, normal(5), None, None, normal(5), None)
    case("tensor_cast.fp8_linear.default", x, w, positive(3, 1), positive(5), normal(5), None)
    case("tensor_cast.fp8_linear.default", x, w, one, one, None, f32)
    exponents = lambda *shape: (2.0 ** torch.randint(-3, 3, shape, generator=own)).to(torch.float8_e8m0fnu)
    blocks, codes, scale = whole(0, 256, 32, 5, dtype=torch.uint8), whole(0, 256, 3, 32, dtype=torch.uint8), exponents(5, 2)
    case("tensor_cast.mxfp4_linear.default", codes, blocks, exponents(3, 2), scale, normal(5), None)
    case("tensor_cast.mxfp4_linear.default", normal(3, 64), blocks, one, scale, None, f32)
    case("tensor_cast.mxfp4_linear.default", whole(-128, 128, 3, 64), blocks, positive(3, 1), scale, None, bf16)


def repeats():
    x = torch.arange(12.0).reshape(2, 3, 2)
    case("aten.repeat_interleave.self_int", x, 3, 1)
    case("aten.repeat_interleave.self_int", x.to(torch.bfloat16), 2, -1)


def activations():
    own = torch.Generator().manual_seed(17)
    x = torch.cat([torch.randn(10, generator=own) * 3, torch.tensor([0.0, -0.0, 1e-5, -1e-5, 30.0, -30.0])]).reshape(2, 8)
    edges = torch.tensor([math.nan, math.inf, 100.0, -100.0])
    for v in (x, x.to(torch.bfloat16), x.to(torch.float16), edges):
        for op in ("square", "log_sigmoid", "selu", "mish", "hardswish", "hardsigmoid", "leaky_relu", "elu", "celu", "softplus"):
            case(f"aten.{op}.default", v)
        case("aten.log1p.default", v.abs() - 0.5)
        case("aten.expm1.default", v.clamp(max=10))
        case("aten.leaky_relu.default", v, 0.3)
        case("aten.elu.default", v, 0.7, 1.5, 2)
        case("aten.celu.default", v, 0.5)
        case("aten.softplus.default", v, 2, 1.5)
    for op in ("hardswish_", "leaky_relu_", "elu_", "square_"):
        case(f"aten.{op}.default", x)
    whole = torch.tensor([-5, 0, 12, 127], dtype=torch.int8)
    for op, v in (("square", whole), ("square", torch.tensor([True, False])), ("log1p", whole.abs()), ("expm1", whole.clamp(max=5))):
        case(f"aten.{op}.default", v)


def truths():
    own = torch.Generator().manual_seed(19)
    x = torch.tensor([[-1.5, 0.0, 2.0, 0.1], [math.nan, math.inf, -0.0, 0.1]])
    bf16, big = x.to(torch.bfloat16), torch.tensor([2**31 - 1, 16777217, 16777216, -5], dtype=torch.int32)
    for op in ("gt", "ge", "lt", "le", "eq", "ne"):
        case(f"aten.{op}.Scalar", x, 0.1)  # in f32, and below in bf16: equal
        case(f"aten.{op}.Scalar", bf16, 0.1)
        case(f"aten.{op}.Scalar", bf16, 2)
        case(f"aten.{op}.Scalar", big, 16777216)
        case(f"aten.{op}.Scalar", big.clamp(-9, 9), 8.5)
        case(f"aten.{op}.Tensor", x, torch.tensor([math.nan, 0.5, 2.0, 0.1]))
        case(f"aten.{op}.Tensor", bf16, x)
        case(f"aten.{op}.Tensor", bf16, torch.tensor(0.1))
        case(f"aten.{op}.Tensor", big, big.flip(0))
        case(f"aten.{op}.Tensor", x > 0, x > 1)
    a, b = torch.tensor([[True], [False]]), torch.tensor([True, False])
    for op in ("logical_and.default", "logical_or.default", "logical_xor.default", "bitwise_and.Tensor", "bitwise_or.Tensor",
               "bitwise_xor.Tensor", "__and__.Tensor", "__or__.Tensor", "__xor__.Tensor"):
        case(f"aten.{op}", a, b)
        if op.startswith("logical"):
            case(f"aten.{op}", x, torch.tensor([0, 3, 0, 7]))
    case("aten.logical_not.default", x)
    case("aten.logical_not.default", a)
    case("aten.bitwise_not.default", b)
    y = torch.randn(2, 4, generator=own)
    case("aten.where.ScalarSelf", x > 0, -math.inf, y)
    case("aten.where.ScalarOther", x > 0, y.to(torch.bfloat16), 0.5)
    case("aten.where.ScalarOther", b, torch.tensor([3, 4]), 2.5)
    case("aten.where.Scalar", x > 0, 1.0, 0)
    case("aten.where.Scalar", x > 0, 7, -7)
    case("aten.masked_fill.Scalar", y, x > 0, -math.inf)
    case("aten.masked_fill.Scalar", y.to(torch.bfloat16), a, 0.1)
    case("aten.masked_fill.Scalar", torch.tensor([1, 2]), a, 5)
    case("aten.masked_fill.Tensor", y, b.repeat(2), torch.tensor(2.5, dtype=torch.float64))
    case("aten.masked_fill_.Scalar", y, x > 0, 3)


def fills():
    case("aten.full.default", [2, 3], 1.5)
    case("aten.full.default", [2], 7)
    case("aten.full.default", [], True)
    case("aten.full.default", [2], -math.inf, dtype=torch.bfloat16)
    case("aten.zeros.default", [2, 1])
    case("aten.ones.default", [3], dtype=torch.int32)
    case("aten.scalar_tensor.default", 2)
    case("aten.scalar_tensor.default", 0.5, dtype=torch.float16)
    x = torch.arange(3.0)
    case("aten.expand_as.default", x, torch.zeros(2, 3))
    case("aten.stack.default", [x, x + 10])
    case("aten.stack.default", [x, torch.tensor([7, 8, 9])], -1)
    case("prims.convert_element_type.default", x / 3, torch.bfloat16)
    case("prims.convert_element_type.default", x * 1.7, torch.int8)
    y = torch.tensor([[3.0, -1.0, 2.5], [0.0, -7.5, 1.0]])
    for op in ("max", "min", "sum", "mean"):
        case(f"aten.{op}.default", y)
    case("aten.max.default", torch.tensor([1.0, math.nan]))
    case("aten.min.default", torch.tensor([4, -3], dtype=torch.int8))
    case("aten.sum.default", torch.tensor([100, 100], dtype=torch.int8))
    case("aten.mean.default", y.to(torch.bfloat16), dtype=torch.float32)


def composed():
    own = torch.Generator().manual_seed(23)
    normal = lambda *shape: torch.randn(shape, generator=own)
    masked = normal(3, 5).masked_fill(torch.eye(3, 5) > 0, -math.inf)
    for v in (normal(2, 3, 4) * 4, masked, masked.to(torch.bfloat16), normal(4, 6).to(torch.float16)):
        for op in ("softmax", "log_softmax"):
            case(f"aten.{op}.int", v, -1)
            case(f"aten.{op}.int", v, 1 - v.dim())
            case(f"aten._{op}.default", v, 0, False)
            case(f"aten.{op}.int", v, 0, torch.float32)
    case("aten.softmax.int", torch.tensor([-math.inf, -math.inf]), 0)
    case("aten.softmax.int", torch.tensor([1, 2]), 0, torch.float32)
    case("aten.softmax.int", torch.tensor(3.0), 0)
    w, b = normal(4), normal(4)
    for v in (normal(2, 3, 4) * 3 + 1, (normal(3, 4) * 3).to(torch.bfloat16), normal(3, 4).to(torch.float16)):
        t = v.dtype
        case("aten.layer_norm.default", v, [4])
        case("aten.layer_norm.default", v, [4], w.to(t), b.to(t), 1e-3)
        case("aten.layer_norm.default", v, [4], None, b.to(t))
        case("aten.native_layer_norm.default", v, [4], w.to(t), b.to(t), 1e-5)
        case("aten.native_layer_norm.default", v, list(v.shape[-2:]), None, None, 1e-5)
        case("aten.rms_norm.default", v, [4])
        case("aten.rms_norm.default", v * 1e-3, [4], w.to(t))
        case("aten.rms_norm.default", v, list(v.shape[-2:]), None, 1e-2)
        case("aten.glu.default", v)
        case("aten.prelu.default", v, w[:1].to(t))
        case("aten.prelu.default", v, w[:v.shape[1]].to(t))
    half = normal(3, 4).to(torch.bfloat16)
    case("aten.native_layer_norm.default", half, [4], w, b, 1e-5)
    case("aten.layer_norm.default", half, [4], w, b)
    case("aten.glu.default", normal(3, 4, 2), 1)
    case("aten.baddbmm.default", normal(4), normal(2, 3, 5), normal(2, 5, 4))
    case("aten.baddbmm.default", normal(2, 3, 1), normal(2, 3, 5), normal(2, 5, 4), beta=0.5, alpha=2)
    case("aten.baddbmm.default", torch.full((4,), math.nan), normal(2, 3, 5), normal(2, 5, 4), beta=0)


def fp8_scales():
    own = torch.Generator().manual_seed(29)
    choose = "torchao.choose_scale_float8.default"
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x = (torch.randn((2, 3, 16), generator=own) * 3).to(dtype)
        x[0, 1] = 0
        for block in ([1, 1, 16], [2, 3, 16], [1, 3, 4]):
            case(choose, x, block, exact=True)
    case(choose, x, [1, 1, 16], torch.float8_e5m2, torch.float32, 0.3, 4.0, exact=True)


def far_ends():
    own = torch.Generator().manual_seed(14)
    x = torch.randn((2, 5), generator=own)
    for start, end in ((-9, 3), (-9, -1), (7, 9), (3, 9), (4, -9), (-2, 99)):
        case("aten.slice.Tensor", x, 1, start, end)
    case("aten.slice.Tensor", x, 1, -9, 9, 2)


class Wrapped(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def constants():
    u8, i16, i32, i64 = torch.uint8, torch.int16, torch.int32, torch.int64
    wide = torch.tensor([[-2**31, -17, -1, 0], [1, 16, 255, 2**31 - 1]], dtype=i32)
    byte, signed = whole(2, 4, dtype=u8, low=0, high=256), whole(2, 4)
    shifts = torch.tensor([0, 4, 31, 32], dtype=i32)
    for name in "and", "or", "xor":
        for op in f"aten.bitwise_{name}", f"aten.__{name}__":
            case(op + ".Tensor", wide, shifts, exact=True)
            case(op + ".Tensor", byte, signed, exact=True)
            case(op + ".Scalar", byte, 0xF0, exact=True)
            case(op + ".Scalar", signed, 15, exact=True)
            case(op + ".Scalar", wide > 0, True, exact=True)
    for x in wide, byte, signed:
        case("aten.bitwise_not.default", x, exact=True)
    for way in "left", "right":
        dunder = f"aten.__{way[0]}shift__"
        for op in f"aten.bitwise_{way}_shift", dunder:
            case(op + ".Tensor", wide, shifts, exact=True)
            case(op + ".Tensor", wide[:, :, None], torch.tensor([-1, 0, 7, 30], dtype=i64), exact=True)
            case(op + ".Tensor", byte, torch.tensor([0, 4, 7, 8], dtype=u8), exact=True)
            case(op + ".Tensor", signed, torch.tensor([0, 4, 7, 8], dtype=torch.int8), exact=True)
        for op in f"aten.bitwise_{way}_shift.Tensor_Scalar", dunder + ".Scalar":
            case(op, byte, 4, exact=True)
            case(op, signed, 3, exact=True)
            case(op, wide, 33, exact=True)
    divisors = torch.tensor([3, -4, 16, -1], dtype=i32)
    for op in "aten.floor_divide.default", "aten.remainder.Tensor":
        case(op, wide[:, 1:], divisors[:3], exact=True)
        case(op, signed, divisors, exact=True)
    for op in "aten.floor_divide.Scalar", "aten.remainder.Scalar":
        case(op, byte, 16, exact=True)
        case(op, signed, -7, exact=True)
    for mode in "floor", "trunc":
        case("aten.div.Tensor_mode", signed, divisors, rounding_mode=mode, exact=True)
        case("aten.div.Scalar_mode", signed, 5, rounding_mode=mode, exact=True)
        # 0.7 is more than seven times 0.1, and their quotient in f32 is 7; 6 / 0.1 and 1 / 0.1 are whole only when rounded.
        floats = torch.tensor([0.7, 6, 1, -1, -7.5, 7.5, 0, -0.0, 3, float("inf"), float("nan"), 1e30])
        case("aten.div.Tensor_mode", floats, torch.tensor([0.1]), rounding_mode=mode, exact=True)
        case("aten.div.Tensor_mode", floats, torch.tensor([-2.5]), rounding_mode=mode, exact=True)
        case("aten.div.Tensor_mode", floats[:9], torch.tensor(0.0), rounding_mode=mode, exact=True)
        case("aten.div.Scalar_mode", floats, 2, rounding_mode=mode, exact=True)
        case("aten.div.Scalar_mode", floats[:9].to(torch.bfloat16), 0.3, rounding_mode=mode, exact=True)
    case("aten.exp2.default", torch.tensor([-127, -3, 0, 5, 127], dtype=i32), exact=True)
    case("aten.exp2.default", torch.tensor([-2.0, 0.5, 3.0], dtype=torch.bfloat16))
    case("aten.pow.Scalar", 2, torch.tensor([0, 1, 7, 30], dtype=i32), exact=True)
    case("aten.pow.Scalar", 2.0, torch.tensor([-9, -1, 0, 7], dtype=i32), exact=True)
    case("aten.pow.Scalar", 0.5, real(5))
    case("aten.ldexp.Tensor", real(2, 3, dtype=torch.bfloat16), torch.tensor([[-5], [3]], dtype=i32), exact=True)
    case("aten.ldexp.Tensor", real(4), torch.tensor([-9, 0, 2, 100], dtype=i32), exact=True)
    table, matrix, cube = real(16), whole(3, 5), real(2, 3, 4)
    codes = whole(2, 6, dtype=i64, low=-16, high=16)
    case("aten.index.Tensor", table, [codes], exact=True)
    case("aten.index.Tensor", matrix, [None, torch.tensor([4, 0, -1], dtype=i32)], exact=True)
    case("aten.index.Tensor", matrix, [torch.tensor([[0], [2]]), torch.tensor([1, -5, 3])], exact=True)
    case("aten.index.Tensor", cube, [None, torch.tensor([2, 0]), torch.tensor([1, -1])], exact=True)
    case("aten.index.Tensor", cube, [torch.tensor([1, 0, 1]), None, torch.tensor([[3], [-2]])], exact=True)
    case("aten.index.Tensor", cube.transpose(0, 2), [None, None, torch.tensor([1, 1, 0])], exact=True)
    case("aten.index_select.default", matrix, -1, torch.tensor([4, 4, 0]), exact=True)
    case("aten.index_select.default", cube, 1, torch.tensor(2, dtype=i32), exact=True)
    case("aten.embedding.default", cube[0], torch.tensor([[0, 2], [1, 1]]), exact=True)
    case("aten.take.default", cube, torch.tensor([[0, -1], [23, 7]]), exact=True)
    case("aten.gather.default", matrix, 1, torch.tensor([[0, 4], [3, 3]]), exact=True)
    case("aten.gather.default", cube, 0, torch.tensor([[[0, 1, 1], [1, 0, 0]]]), exact=True)
    case("aten.arange.default", 5, exact=True)
    case("aten.arange.default", 2.5, exact=True)
    case("aten.arange.start", 3, 7, dtype=i32, exact=True)
    case("aten.arange.start_step", 0, 32, 4, exact=True)
    case("aten.arange.start_step", 7, -2, -3, dtype=i16, exact=True)
    case("aten.arange.start_step", 0, 1, 0.3, exact=True)
    case("aten.view.dtype", wide, torch.int8, exact=True)
    case("aten.view.dtype", byte, torch.int16, exact=True)
    case("aten.view.dtype", byte, torch.float8_e8m0fnu, exact=True)
    case("aten.view.dtype", real(2, 2), i32, exact=True)
    case("aten.copy.default", wide, torch.tensor([1, 2, 3, 4], dtype=u8), exact=True)
    case("aten.slice_scatter.default", wide, wide[:1] + 1, 0, 1, exact=True)
    case("aten.slice_scatter.default", cube, cube[:, :, :2] * 2, -1, 0, 4, 2, exact=True)


def program(title, function, x):
    """A function of one tensor as torch.export writes it, and what it gives run eagerly."""
    graph = torch.export.export(Wrapped(function), (x,)).graph
    parts = {n: f"%{n.args[0].name}_{n.args[1]}" for n in graph.nodes if n.target is operator.getitem}

    def render(v):
        if isinstance(v, torch.fx.Node):
            return parts.get(v, f"%{v.name}")
        if isinstance(v, (list, tuple)):
            return "[" + ", ".join(render(x) for x in v) + "]"
        return DTYPES[v] if isinstance(v, torch.dtype) else f'"{v}"' if isinstance(v, str) else "none" if v is None else number(v)

    print(f"case {title} exact\ngraph(%x: {type_of(x)}) {{")
    for node in graph.nodes:
        if node.op != "call_function" or node in parts or not node.users:
            continue
        names = [a.name for a in node.target._schema.arguments]
        rendered = [f"{n} = {render(v)}" for n, v in [*zip(names, node.args), *node.kwargs.items()]]
        many = isinstance(node.meta["val"], (list, tuple))
        values = node.meta["val"] if many else [node.meta["val"]]
        left = ", ".join(f"%{node.name}_{k}" if many else f"%{node.name}" for k in range(len(values)))
        print(f"  {left} = {node.target}({', '.join(rendered)}) : {', '.join(map(type_of, values))}")
    print(f"  return {render(graph.output_node().args[0][0])}\n}}")
    print("in", values_of(x))
    print("out", values_of(function(x)))


def parts():
    x = real(2, 3, 4)
    case("aten.unbind.int", x)
    case("aten.unbind.int", x, -1)


def quantized_inputs():
    x, scale = real(3, 4, scale=90.0), real(3, 1).abs() + 0.3
    case("tensor_cast.quantize.default", x, torch.tensor(0.5), None)
    case("tensor_cast.quantize.default", x.to(torch.bfloat16), scale, torch.tensor([3], dtype=torch.int32), torch.uint8)
    case("tensor_cast.quantize.default", x, scale.to(torch.bfloat16), torch.tensor(-7.0), torch.int8)


def repeats_of_axes():
    x = torch.arange(12.0).reshape(2, 3, 2)
    case("aten.repeat.default", x, [2, 1, 3])
    case("aten.repeat.default", x.to(torch.bfloat16), [3, 1, 1, 1, 2])
    case("aten.repeat.default", x, [1, 1, 1])
    case("aten.tile.default", x, [2])
    case("aten.tile.default", x, [2, 1, 1, 3])


def of_rankings():
    x, y = real(2, 3, 5), real(3, 5)
    case("aten.mT.default", x)
    case("aten.addcmul.default", x, y, real(5), value=0.5)
    case("aten.addcmul.default", x.to(torch.bfloat16), y.to(torch.bfloat16), real(5).to(torch.bfloat16))
    case("aten.clamp.Tensor", x, y, None)
    case("aten.clamp.Tensor", x, y - 1, y.abs())
    case("aten.sign.default", torch.tensor([-2.5, -0.0, 0.0, 7.0, math.nan]))
    case("aten.sign.default", torch.tensor([-3, 0, 9]))
    for order in (2, 1, math.inf):
        case("aten.linalg_vector_norm.default", x, order, [-1], True)
    case("aten.linalg_vector_norm.default", x)
    case("aten.linalg_vector_norm.default", x.to(torch.bfloat16), 2, [0, 2])


def more_of_rankings():
    x = real(4, 3)
    mean, variance, weight, bias = real(3), real(3).abs() + 0.1, real(3), real(3)
    case("aten.batch_norm.default", x, weight, bias, mean, variance, False, 0.1, 1e-5, True)
    case("aten.batch_norm.default", real(2, 3, 4, dtype=torch.bfloat16), None, None, mean, variance, False, 0.1, 1e-3, True)
    case("aten._native_batch_norm_legit_no_training.default", x, weight, bias, mean, variance, 0.1, 1e-5)
    for op in ("aten.var.correction", "aten.std.correction"):
        case(op, real(2, 3, 5), [-1], correction=0, keepdim=True)
        case(op, real(2, 3, 5), [0, 2])
        case(op, real(2, 5, dtype=torch.bfloat16))
    values = torch.tensor([[1.0, 7.0, 7.0], [math.nan, 2.0, math.nan], [-1.0, -5.0, -2.0]])
    for op in ("aten.max.dim", "aten.min.dim"):
        case(op, values, -1)
        case(op, values.to(torch.bfloat16), 0, True)
        case(op, torch.tensor([[3, 9, 9], [5, 1, 1]]), 1)
    edges = torch.tensor([-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 3.0, -7.0])
    for op in ("aten.ceil.default", "aten.trunc.default"):
        case(op, edges)
        case(op, real(2, 3, scale=90.0).to(torch.bfloat16))
        case(op, torch.tensor([-3, 0, 9]))
    for op in ("aten.log2.default", "aten.log10.default"):
        case(op, torch.tensor([0.0, 1e-30, 0.5, 1.0, 8.0, 1000.0, 3e38, math.inf, -1.0, math.nan]))
        case(op, torch.tensor([1, 8, 100]))
    odd = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -2.5, 3e38])
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        case("aten.isnan.default", odd.to(dtype))
        case("aten.isinf.default", odd.to(dtype))
        case("aten.nan_to_num.default", odd.to(dtype))
        case("aten.nan_to_num.default", odd.to(dtype), 7.0, 50.0, -50.0)
    case("aten.isnan.default", torch.tensor([1, 2]))
    case("aten.exp2.default", real(2, 3))
    case("aten.pow.Scalar", 10.0, real(2, 3).to(torch.bfloat16))
    case("aten.pow.Scalar", 2, real(5))


def variances_by_axis():
    for op in ("aten.var.dim", "aten.std.dim"):
        case(op, real(2, 3, 5), [-1])
        case(op, real(2, 3, 5), [0, 2], False, True)
        case(op, real(2, 5, dtype=torch.bfloat16), None, False)


def broadcast_einsums():
    case("aten.einsum.default", "bhnt,bhtd->bhnd", [real(2, 3, 4, 5), real(2, 1, 5, 3)])
    case("aten.einsum.default", "bij,bjk->bik", [real(1, 3, 4), real(2, 1, 5)])
    case("aten.einsum.default", "...ij,...j->...i", [real(2, 3, 4, 5), real(3, 1, 5)])
    case("aten.einsum.default", "ij,ij", [real(3, 4), real(1, 4)])
    case("aten.einsum.default", "ij,kj,j->ik", [real(3, 1), real(2, 1), real(4)])


def variances_of_all():
    for op in ("aten.var.default", "aten.std.default", "aten.var_mean.default", "aten.std_mean.default"):
        case(op, real(2, 3, 5))
        case(op, real(7, dtype=torch.bfloat16), False)
        case(op, real(1)[0], False)
    for op in ("aten.var.dim", "aten.std.dim"):
        case(op, real(1)[0], [-1], False)
        case(op, real(1)[0], [0], False, True)
    for op in ("aten.var_mean.correction", "aten.std_mean.correction"):
        case(op, real(1)[0], [-1], correction=0)


def look_ups():
    table, cube, i32 = real(7, 5), real(3, 4, 5), torch.int32
    case("aten.embedding.default", table, torch.tensor([[6, 0, 3], [3, 3, 1]], dtype=i32), 3, exact=True)
    case("aten.embedding.default", table.to(torch.bfloat16), torch.tensor(4), exact=True)
    case("aten.embedding.default", table, torch.zeros(2, 0, dtype=torch.int64), exact=True)
    case("aten.index.Tensor", cube, [torch.tensor([-1, 0])], exact=True)
    case("aten.index.Tensor", cube, [None, torch.tensor([[3, -4], [0, 1]])], exact=True)
    case("aten.index.Tensor", cube, [torch.tensor([[2], [0]]), torch.tensor([[1, -1, 0]]), torch.tensor([4])], exact=True)
    case("aten.index.Tensor", cube, [torch.tensor(1), None, torch.tensor([0, -2])], exact=True)
    case("aten.index.Tensor", cube.double(), [None, None, torch.tensor([-5, 4, 2], dtype=i32)], exact=True)
    case("aten.index.Tensor", whole(6, dtype=torch.int64), [torch.tensor([[5, -6], [2, 2]])], exact=True)
    case("aten.index.Tensor", table > 0, [torch.tensor([6, 1])], exact=True)
    case("aten.index_select.default", cube, -2, torch.tensor([3, 0, 0, 2, 1]), exact=True)
    case("aten.index_select.default", cube.transpose(0, 2), 0, torch.tensor([4, 1], dtype=i32), exact=True)
    case("aten.gather.default", cube, 1, whole(2, 3, 4, dtype=torch.int64, low=0, high=4), exact=True)
    case("aten.gather.default", cube, -1, whole(3, 4, 2, dtype=torch.int64, low=0, high=5), exact=True)
    case("aten.gather.default", real(6), 0, torch.tensor([5, 5, 0]), exact=True)
    case("aten.take.default", cube, torch.tensor([-60, 59, 0, 17]), exact=True)
    case("aten.take_along_dim.default", cube, torch.tensor([[[3], [0]]]), 1, exact=True)
    case("aten.take_along_dim.default", cube[:, :1], torch.tensor([[[4, 0], [1, 1]]] * 3), -1, exact=True)
    case("aten.take_along_dim.default", cube, torch.tensor([[59, 0], [7, 7]]), exact=True)
    case("aten._unsafe_index.Tensor", cube, [None, torch.tensor([[3], [0]]), torch.tensor([4, -1])], exact=True)


def bags():
    ids = torch.tensor([1, 2, 4, 5, 4, 3, 2, 0, 6])
    last = {"returned": 1}
    for dtype in torch.float32, torch.float16:
        table = real(7, 5, dtype=dtype)
        for mode in 0, 1, 2:
            case("aten.embedding_bag.default", table, ids, torch.tensor([0, 2, 2, 7]), False, mode, **last)
            case("aten.embedding_bag.padding_idx", table, ids, torch.tensor([0, 1, 9]), False, mode, False, None, True, 4, **last)
    table, factors = real(7, 19), real(9)
    case("aten.embedding_bag.padding_idx", table, ids, torch.tensor([0, 4, 4]), False, 0, False, factors, False, -3, **last)
    case("aten.embedding_bag.padding_idx", table, ids, torch.tensor([0, 8]), False, 0, False, factors, False, None, **last)
    case("aten._embedding_bag.default", table, ids.int(), torch.tensor([0, 3], dtype=torch.int32), False, 0, False, factors, **last)
    case("aten._embedding_bag_forward_only.default", table, ids, torch.tensor([0, 5, 9, 9]), False, 2, False, None, True, 2, **last)


def attention():
    own = torch.Generator().manual_seed(31)
    normal = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=own).to(dtype)
    op, flash, math_op = ("aten." + n + ".default" for n in (
        "scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math"))
    q, k, v = normal(2, 4, 3, 6), normal(2, 4, 5, 6), normal(2, 4, 5, 2)
    case(op, q, k, v)
    case(op, q, k, v, is_causal=True)
    case(op, k, q, v[:, :, :3], is_causal=True)  # more rows than columns
    case(op, q, k, v, scale=1.5)
    truths = torch.rand((2, 1, 3, 5), generator=own) > 0.4
    truths[0, 0, 1] = False  # a row that sees nothing
    case(op, q, k, v, truths)
    case(op, q, k, v, truths[0, 0])
    added = normal(4, 1, 5).masked_fill(torch.tensor([True, False, False, True, False]), -math.inf)
    case(op, q, k, v, added)
    added[2] = torch.finfo(torch.float32).min
    case(op, q, k, v, added)
    added[1] = -math.inf
    case(op, q, k, v, added)
    for dtype in (torch.bfloat16, torch.float16):
        half = [t.to(dtype) for t in (q, k, v)]
        case(op, *half, truths)
        case(op, *half, added.clamp(min=-1e4).to(dtype))
    case(op, q, k[:, :2], v[:, :2], truths, enable_gqa=True)
    case(op, q, k[:, :2], v[:, :2], normal(4, 3, 5), enable_gqa=True)
    case(op, q, k[:, :1], v[:1], enable_gqa=False)
    case(op, normal(3, 2, 6), normal(3, 4, 6), normal(3, 4, 6))
    case(op, normal(2, 6), normal(4, 6), normal(4, 3))
    case(flash, q, k, v[..., :1].expand(2, 4, 5, 6), attn_mask=truths.float().log())
    case(flash, q, k[:, :2], k[:, :2], 0.0, True)
    case(math_op, q, k, v, truths.float().log())
    case(math_op, q, k[:, :2], v[:, :2], is_causal=True, enable_gqa=True)


def along_axes():
    x, i64 = real(3, 5), torch.int64
    ties = torch.tensor([[2, 1, 2, -3, 2], [0, 0, 0, 0, 0], [5, 4, 3, 2, 1]], dtype=torch.int32)
    odd = torch.tensor([[1.5, math.nan, -0.0, 0.0], [-math.inf, math.inf, math.nan, math.nan]])
    for dim in (0, 1, -1):
        case("aten.cumsum.default", x, dim)
        case("aten.cumsum.default", ties, dim, exact=True)
    case("aten.cumsum.default", x.to(torch.bfloat16), 1, dtype=torch.float32)
    case("aten.cumsum.default", x > 0, 0, exact=True)
    case("aten.cumsum.default", whole(40, dtype=torch.int8), 0, dtype=torch.int8, exact=True)
    case("aten.cumsum.default", torch.tensor(2.5), 0)
    case("aten.cumsum.default", whole(2, 3, 4, dtype=i64, low=-2**40, high=2**40), 1, exact=True)
    for descending in (False, True):
        case("aten.sort.default", x, 0, descending, exact=True)
        case("aten.sort.stable", ties, stable=True, dim=1, descending=descending, exact=True)
        case("aten.sort.stable", odd, stable=True, descending=descending, exact=True)
    case("aten.sort.stable", whole(2, 50, low=-4, high=4), stable=True, exact=True)
    case("aten.topk.default", x, 2, exact=True)
    case("aten.topk.default", x, 3, 0, False, exact=True)
    case("aten.topk.default", real(2, 30).to(torch.float16), 20, exact=True)
    case("aten.topk.default", torch.tensor([7, 3, 9], dtype=i64), 0, exact=True)
    for name in ("argmax", "argmin"):
        case(f"aten.{name}.default", x, exact=True)
        case(f"aten.{name}.default", x, 0, exact=True)
        case(f"aten.{name}.default", ties, 1, True, exact=True)
        case(f"aten.{name}.default", odd, -1, exact=True)
        case(f"aten.{name}.default", x[:2], None, True, exact=True)
    for name in ("triu", "tril"):
        for diagonal in (0, 1, -2, 9):
            case(f"aten.{name}.default", x, diagonal, exact=True)
        case(f"aten.{name}.default", whole(2, 3, 3, dtype=i64, low=-9, high=9), exact=True)
        case(f"aten.{name}.default", torch.full((4, 4), -math.inf), 1, exact=True)
        case(f"aten.{name}.default", torch.ones(3, 4, dtype=torch.bool), -1, exact=True)


def convolutions():
    generator.manual_seed(91)  # whatever was drawn before
    x, w, b = real(2, 4, 5, 4), real(6, 4, 3, 2, scale=0.5), real(6)
    case("aten.conv2d.default", x, w)
    case("aten.conv2d.default", x, w, b, [2, 1], [1, 0], [1, 2])
    case("aten.conv2d.default", x, real(6, 4, 1, 1), b)
    case("aten.conv2d.default", x, real(6, 4, 1, 1), b, [2])
    case("aten.conv2d.default", x, real(4, 1, 3, 3), None, [1, 2], [1, 1], [1, 1], 4)
    case("aten.conv2d.default", x, real(8, 1, 3, 3), real(8), [1, 1], [2, 1], [2, 1], 4)
    case("aten.conv2d.default", x, real(6, 2, 2, 3), b, [2, 2], [1, 1], [1, 1], 2)
    case("aten.conv2d.default", x, real(6, 2, 1, 1), b, [1, 1], [0, 0], [1, 1], 2)
    case("aten.conv2d.default", real(1, 3, 8, 8, scale=0.5), real(5, 3, 4, 4, scale=0.2), real(5), [4, 4])
    case("aten.conv2d.default", x[0], w, b)
    case("aten.conv2d.default", x[:0], w, b)
    case("aten.conv2d.default", x.to(torch.bfloat16), w.to(torch.bfloat16), b.to(torch.bfloat16))
    case("aten.conv2d.padding", x, w, b, [1, 1], "same", [2, 1])
    case("aten.conv2d.padding", x, w, b, [2, 1], "valid")
    line, kernel = real(2, 4, 9), real(5, 4, 3, scale=0.5)
    case("aten.conv1d.default", line, kernel, real(5), [1], [1])
    case("aten.conv1d.default", line, kernel, None, [2], [1])
    case("aten.conv1d.default", line, real(4, 1, 4), real(4), [1], [3], [1], 4)
    case("aten.conv1d.default", line[0], kernel)
    case("aten.conv1d.padding", line, real(5, 4, 4, scale=0.5), real(5), [1], "same", [2])
    case("aten.conv3d.default", real(1, 2, 4, 5, 6), real(3, 2, 2, 3, 2), real(3), [2, 1, 2], [0, 1, 1])
    case("aten.conv3d.padding", real(1, 2, 3, 4, 3), real(3, 2, 2, 3, 1), None, [1, 1, 1], "same")
    case("aten.convolution.default", x, w, b, [2, 2], [1, 1], [1, 1], False, [0, 0], 1)
    case("aten.convolution.default", line, real(4, 2, 3), None, [1], [0], [2], False, [0], 2)
    case("aten.dropout_.default", real(2, 3), 0.5, False)
    case("aten.unfold.default", x, 2, 3, 2)
    case("aten.unfold.default", x, -1, 1, 2)
    case("aten.unfold.default", torch.arange(6), 0, 6, 1)


def pools():
    x, line = real(1, 3, 7, 6), real(2, 2, 9)
    odd = real(1, 1, 4, 4)
    odd[0, 0, 1, 2] = math.nan
    odd[0, 0, 3, 0] = -math.inf
    case("aten.max_pool2d.default", x, [3, 2])
    case("aten.max_pool2d.default", x, [3, 3], [2, 2], [1, 1])
    case("aten.max_pool2d.default", x, [2], [2], [0], [2], True)
    case("aten.max_pool2d.default", x, [3, 2], [3, 3], [1, 1], [1, 1], True)
    case("aten.max_pool2d.default", odd, [2, 2])
    case("aten.max_pool2d.default", x[0].to(torch.bfloat16), [2, 2])
    case("aten.max_pool2d_with_indices.default", x, [3, 3], [2, 2], [1, 1])
    case("aten.max_pool2d_with_indices.default", odd, [3, 3], [1, 1], [1, 1])
    case("aten.max_pool1d.default", line, [3], [2], [1])
    case("aten.max_pool1d_with_indices.default", line, [3], [2], [1], [2])
    case("aten.max_pool3d_with_indices.default", real(1, 2, 4, 3, 5), [2, 3, 2], [1, 1, 2], [1, 1, 0])
    case("aten.max_pool1d.default", line, [2], [2], [0], [1], True)
    case("aten.max_pool3d.default", real(1, 2, 4, 3, 5), [2, 2, 2], [2, 1, 2])
    case("aten.avg_pool2d.default", x, [3, 2])
    case("aten.avg_pool2d.default", x, [3, 3], [2, 2], [1, 1])
    case("aten.avg_pool2d.default", x, [3, 3], [2, 2], [1, 1], False, False)
    case("aten.avg_pool2d.default", x, [3, 2], [2, 2], [1, 1], True, True)
    case("aten.avg_pool2d.default", x, [2, 2], [2, 2], [0, 0], True, False, 3)
    case("aten.avg_pool2d.default", x.to(torch.bfloat16), [2, 2])
    case("aten.avg_pool1d.default", line, [4], [3], [2])
    case("aten.avg_pool1d.default", line, [2], [2], [0], True)
    case("aten.avg_pool3d.default", real(1, 2, 4, 3, 5), [2, 2, 2], [2, 1, 2])
    case("aten.adaptive_avg_pool2d.default", x, [1, 1])
    case("aten.adaptive_avg_pool2d.default", x, [3, 3])
    case("aten.adaptive_avg_pool2d.default", x, [7, 2])
    case("aten.adaptive_avg_pool2d.default", x[0].to(torch.bfloat16), [5, 4])
    case("aten._adaptive_avg_pool2d.default", x, [2, 9])
    case("aten.adaptive_avg_pool1d.default", line, [4])
    case("aten.adaptive_max_pool2d.default", x, [3, 2])
    case("aten.adaptive_max_pool1d.default", line, [3])


def images():
    generator.manual_seed(92)
    x, line, w, b = real(2, 8, 3, 2), real(1, 4, 5), real(8), real(8)
    case("aten.upsample_nearest2d.vec", x, None, [2.0, 3.0])
    case("aten.upsample_nearest2d.vec", x, [6, 2], None)
    case("aten.upsample_nearest2d.default", x, [6, 6])
    case("aten.upsample_nearest1d.vec", line, None, [4.0])
    case("aten.group_norm.default", x, 4, w, b)
    case("aten.group_norm.default", real(2, 4), 2, None, None, 1e-3)
    case("aten.group_norm.default", line.to(torch.bfloat16), 1)
    case("aten.native_group_norm.default", x, w, b, 2, 8, 6, 2, 1e-5)
    case("aten.pixel_shuffle.default", x, 2)
    case("aten.pixel_unshuffle.default", real(1, 2, 4, 6), 2)
    case("aten.pixel_unshuffle.default", real(2, 3, 3), 3)


def recurrences():
    def params(layers, directions, gates, size, hidden, biases):
        out = []
        for layer in range(layers):
            for _ in range(directions):
                out += [real(gates * hidden, size if layer == 0 else directions * hidden, scale=0.4),
                        real(gates * hidden, hidden, scale=0.4)]
                out += [real(gates * hidden, scale=0.4) for _ in range(2 * biases)]
        return out

    for layers, directions, biases, first in ((1, 1, True, True), (2, 1, False, False), (2, 2, True, True), (1, 2, True, False)):
        x, h, c = real(2, 2, 2), real(layers * directions, 2, 3), real(layers * directions, 2, 3)
        rest = (biases, layers, 0.0, False, directions == 2, first)
        case("aten.lstm.input", x, [h, c], params(layers, directions, 4, 2, 3, biases), *rest)
        case("aten.gru.input", x, h, params(layers, directions, 3, 2, 3, biases), *rest)
        case("aten.rnn_tanh.input", x, h, params(layers, directions, 1, 2, 3, biases), *rest)
        case("aten.rnn_relu.input", x, h, params(layers, directions, 1, 2, 3, biases), *rest)


def projections():
    generator.manual_seed(143)
    for layers, directions, biases, first in ((2, 1, True, True), (1, 2, False, False)):
        x, h, c = real(2, 2, 3), real(layers * directions, 2, 2), real(layers * directions, 2, 4)
        params = []
        for layer in range(layers):
            for _ in range(directions):
                params += [real(16, 3 if layer == 0 else directions * 2, scale=0.4), real(16, 2, scale=0.4)]
                params += [real(16, scale=0.4) for _ in range(2 * biases)] + [real(2, 4, scale=0.4)]
        case("aten.lstm.input", x, [h, c], params, biases, layers, 0.0, False, directions == 2, first)


def quantiles_of_numbers():
    generator.manual_seed(145)
    x = real(4, 5)
    x[1, 2] = x[0, 0] = x[0, 4] = math.nan
    x[3] = math.nan
    case("aten.nanquantile.scalar", x, 0.3, 1)
    case("aten.nanquantile.scalar", x, 0.75, 0, True)
    case("aten.nanquantile.scalar", x, 0.5)
    case("aten.nanquantile.default", x, torch.tensor([0.1, 0.9, 1.0]), 1)
    case("aten.nanquantile.default", x, torch.tensor(0.6), 0)


def short_integers():
    generator.manual_seed(144)
    x = whole(2, 5, dtype=torch.int16, low=-300, high=300)
    case("aten.to.dtype", real(3, 5, scale=9000.0), torch.int16)
    case("aten.to.dtype", x, torch.float32)
    case("aten.to.dtype", whole(7, dtype=torch.int32, low=-100000, high=100000), torch.int16)
    case("aten.add.Tensor", x, whole(5, dtype=torch.int16, low=-32768, high=32767))
    case("aten.mul.Tensor", x, real(2, 1))
    case("aten.neg.default", x)
    case("aten.sum.dim_IntList", x, [1])
    case("aten.amax.default", x, [0])
    case("aten.clamp.default", x, -100, 100)


def histograms_and_groups():
    own = torch.Generator().manual_seed(41)
    normal = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=own).to(dtype)
    ids = torch.tensor([3.0, 0, 1, 3, 3, 2, 0, -1, 4, 3.5, math.nan])
    case("aten.histc.default", ids, 4, 0, 3, exact=True)
    case("aten.histc.default", normal(7, 9), 5, -1.0, 1.5, exact=True)
    case("aten.histc.default", torch.tensor([-1.0, -0.5, 1.5]), 1, -1, 1, exact=True)
    case("aten.cumsum.default", torch.tensor([1.0, 2.0, 0.0, 5.0]), 0, dtype=torch.int32, exact=True)
    case("aten.one_hot.default", torch.tensor([[0, 2], [1, 4]]), 5, exact=True)
    for right in (False, True):
        case("aten.bucketize.Tensor", torch.tensor([[0.5, 1.0], [2.5, -3.0]]), torch.tensor([0.0, 1.0, 2.0]), right=right, exact=True)
    case("aten.bucketize.Tensor", torch.tensor([7, 3, 12]), torch.tensor([3, 7, 9]), out_int32=True, exact=True)
    case("aten.argsort.default", normal(3, 5), 0, exact=True)
    case("aten.argsort.stable", torch.tensor([3, 1, 3, 2, 1]), stable=True, descending=True, exact=True)
    rows, ends = normal(9, 8), torch.tensor([2, 2, 7, 9], dtype=torch.int32)
    for dtype in (torch.float32, torch.bfloat16):
        case("aten._grouped_mm.default", rows.to(dtype), normal(4, 8, 16, dtype=dtype), ends)
        case("aten._grouped_mm.default", rows.to(dtype), normal(4, 16, 8, dtype=dtype).transpose(1, 2), ends)


def writes():
    own = torch.Generator().manual_seed(37)
    normal = lambda *shape: torch.randn(shape, generator=own)
    cache, i32 = normal(2, 3, 6, 4), torch.int32
    case("aten.index_copy.default", cache, 2, torch.tensor([4, 1]), normal(2, 3, 2, 4), exact=True)
    case("aten.index_copy.default", cache, -1, torch.tensor([3, 3]), normal(2, 3, 6, 2), exact=True)  # the last stays
    case("aten.index_copy.default", torch.arange(5), 0, torch.tensor([2]), torch.tensor([-7]), exact=True)
    case("aten.index_put.default", cache, [None, None, torch.tensor([5, -6, 2])], normal(2, 3, 3, 4), exact=True)
    case("aten.index_put.default", cache, [None, None, torch.tensor([5, 0], dtype=i32)], normal(3, 1, 4), exact=True)
    case("aten.index_put.default", cache, [torch.tensor([1, 0]), None, torch.tensor([[3], [-1]])], normal(2, 2, 3, 4), exact=True)
    case("aten.index_put.default", cache, [None, torch.tensor([[0, 2]]), torch.tensor([[1], [4]])], normal(4), exact=True)
    case("aten.index_put.default", cache[0, 0], [torch.tensor([3, 1, 0]), torch.tensor([0, 1, -1])], normal(3), exact=True)
    case("aten.index_put.default", whole(4, 3), [torch.tensor(2)], whole(3), exact=True)
    index = torch.tensor([[0, 2, 1], [1, 0, 2]])
    case("aten.scatter.src", normal(4, 3), 0, index, normal(3, 5), exact=True)
    case("aten.scatter.src", normal(4, 3), 1, index, normal(2, 3), exact=True)
    case("aten.scatter.src", normal(4, 3), -1, torch.tensor([[1], [0]]).expand(2, 2), normal(2, 2), exact=True)
    case("aten.scatter.value", normal(4, 3), 1, index, 2.5, exact=True)
    case("aten.scatter.value", whole(4, 3, dtype=torch.int64), 0, index, -3, exact=True)
    case("aten.select_scatter.default", cache, normal(2, 6, 4), 1, -1, exact=True)
    case("aten.select_scatter.default", whole(4, 3), whole(3), 0, 2, exact=True)


def spelled():
    own = torch.Generator().manual_seed(41)
    normal = lambda *shape: torch.randn(shape, generator=own)
    x = normal(2, 3, 4)
    case("aten.pow.Tensor_Tensor", normal(3, 1).abs(), normal(4))
    case("aten.pow.Tensor_Tensor", torch.tensor(0.7), torch.arange(1, 5, dtype=torch.int32))
    case("aten.lerp.Scalar", x, normal(2, 3, 4), 0.3)
    case("aten.lerp.Tensor", x, normal(2, 3, 4), normal(3, 1))
    case("aten.addcdiv.default", x, normal(4), normal(3, 1).abs() + 0.5, value=0.4)
    case("aten.isfinite.default", torch.tensor([1.0, math.inf, -math.inf, math.nan, 3.4e38]))
    case("aten.fill.Scalar", x, 2.5)
    case("aten.fill.Scalar", whole(3), -7)
    case("aten.fill.Tensor", x, torch.tensor(2.5))
    case("aten.fill.Tensor", torch.tensor([1, -2, 3], dtype=torch.int8), torch.tensor(-7))
    case("aten.zero.default", x)
    case("aten.zero.default", torch.tensor([True, False]))
    case("aten.fmod.Tensor", torch.tensor([7, -7, 7, -7]), torch.tensor([3, 3, -3, -3]), exact=True)
    case("aten.fmod.Scalar", torch.arange(-5, 6), 4, exact=True)
    case("aten.eye.default", 4)
    case("aten.eye.m", 2, 3, dtype=torch.int64)
    case("aten.reshape_as.default", x, normal(6, 4))
    case("aten.view_as.default", x, normal(24))
    case("aten.einsum.default", "bij, jk -> bik", [x, normal(4, 5)])
    case("aten.einsum.default", "bij,bkj->bki", [x, normal(2, 5, 4)])
    case("aten.einsum.default", "i, j -> ij", [torch.arange(3), torch.tensor([0.5, -1.25])])
    case("aten.einsum.default", "...ij,...jk->...ik", [normal(2, 3, 2, 4), normal(2, 3, 4, 2)])
    case("aten.einsum.default", "ibnd,jbnd->ijbn", [normal(3, 2, 2, 4), normal(5, 2, 2, 4)])
    case("aten.einsum.default", "bsd,dhk->bshk", [x, normal(4, 2, 3)])
    case("aten.einsum.default", "ij,j", [normal(3, 4), normal(4)])
    case("aten.einsum.default", "ij,kl->", [normal(2, 3), normal(2, 2)])
    case("aten.einsum.default", "cab->ca", [x])
    case("aten.einsum.default", "ba", [normal(2, 3)])
    case("aten.einsum.default", "i,j,k->kji", [normal(2), normal(3), normal(4)])
    case("aten.outer.default", normal(3), normal(4))
    case("aten.outer.default", whole(3, dtype=torch.int64), whole(2, dtype=torch.int32), exact=True)
    case("aten.mv.default", normal(3, 4), normal(4))
    case("aten.dot.default", normal(5), normal(5))
    case("aten.logsumexp.default", x, [1])
    case("aten.logsumexp.default", x * 60, [-1, 0], True)
    case("aten.logsumexp.default", torch.tensor([[-math.inf, -math.inf], [math.inf, 1.0]]), [1])
    case("aten._weight_norm.default", x, normal(2, 1, 1), 0)
    case("aten._weight_norm.default", x, normal(1, 1, 4), 2)
    for shifts, dims in (([1], [1]), ([-2, 5], [0, 2]), ([7], []), ([1, 1], [2, 2])):
        case("aten.roll.default", x, shifts, dims, exact=True)
    case("aten.roll.default", whole(3, 4), [2], [-1], exact=True)
    case("aten.meshgrid.default", [torch.arange(3), torch.arange(4)], exact=True)
    case("aten.meshgrid.indexing", [normal(2), normal(3), normal(2)], indexing="xy", exact=True)
    mask = torch.tensor([[True, False, True, True], [False] * 4, [False, True, False, True]])
    case("aten.masked_scatter.default", normal(3, 4), mask, normal(2, 4), exact=True)
    case("aten.masked_scatter.default", x, mask[:, :1], normal(20), exact=True)
    case("aten.masked_scatter.default", whole(3, 4, dtype=torch.int64), mask, whole(6, dtype=torch.int64), exact=True)
    image = normal(2, 3, 4, 5)
    case("aten.upsample_linear1d.vec", normal(1, 2, 5), [8], False, None)
    case("aten.upsample_bilinear2d.vec", image, [7, 3], False, None)
    case("aten.upsample_bilinear2d.vec", image, None, True, [2.0, 3.0])
    case("aten.upsample_bilinear2d.vec", image, None, False, [1.5, 2.0])
    case("aten.upsample_bilinear2d.default", image.bfloat16(), [8, 10], False)
    case("aten.upsample_bilinear2d.default", image, [1, 9], True)
    case("aten.conv_transpose1d.default", normal(2, 3, 5), normal(3, 4, 3), normal(4), [2], [1], [1])
    case("aten.conv_transpose2d.input", image, normal(3, 2, 2, 2), normal(2), [2, 2])
    case("aten.conv_transpose2d.input", image, normal(3, 2, 3, 2), None, [1, 3], [2, 0], [0, 1], 1, [2, 1])
    case("aten.conv_transpose2d.input", normal(1, 4, 3, 3), normal(4, 3, 3, 3), normal(6), [2, 2], [1, 1], [0, 0], 2)
    case("aten.conv_transpose2d.input", normal(1, 4, 3, 3), normal(4, 1, 4, 4), None, [2, 2], [1, 1], [0, 0], 4)
    case("aten.convolution.default", image, normal(3, 2, 3, 3), None, [2, 2], [3, 3], [1, 1], True, [1, 1], 1)


def sums_at_positions():
    normal = lambda *shape: torch.randn(shape, generator=generator)
    at = torch.tensor([1, 3, 1, 0])
    case("aten.index_add.default", normal(4, 3), 0, at, normal(4, 3))
    case("aten.index_add.default", normal(2, 4, 3), 1, at, normal(2, 4, 3), alpha=0.5)
    case("aten.index_add.default", normal(4, 3).to(torch.bfloat16), -2, at, normal(4, 3).to(torch.bfloat16))
    case("aten.index_add.default", whole(5, dtype=torch.int64), 0, torch.tensor([4, 4]), whole(2, dtype=torch.int64), exact=True)
    index = torch.tensor([[0, 2, 2], [1, 0, 2]])
    case("aten.scatter_add.default", normal(4, 3), 0, index, normal(3, 5))
    case("aten.scatter_add.default", normal(4, 3), 1, index, normal(2, 3))
    case("aten.scatter_add.default", normal(4, 3).to(torch.float16), -1, index, normal(2, 3).to(torch.float16))
    case("aten.index_put.default", normal(4, 3), [at], normal(4, 3), True)
    case("aten.index_put.default", whole(4, 3, dtype=torch.int32), [at, torch.tensor([0, -1, 0, 2])], whole(4, dtype=torch.int32), True, exact=True)


def writes_at_masks():
    normal = lambda *shape: torch.randn(shape, generator=generator)
    x = normal(3, 4, 2)
    case("aten.index_put.default", x, [x > 0.5], torch.tensor(-2.0), exact=True)
    case("aten.index_put.default", x, [x[:, :, 0] > 0], normal(2), exact=True)
    case("aten.index_put.default", x, [x[:, :, 0] > 0], normal(1, 2), exact=True)
    case("aten.index_put.default", x, [x[:, 0, 0] > 0], normal(4, 1), exact=True)
    case("aten.index_put.default", whole(6), [torch.tensor([True, False, True, True, False, False])], torch.tensor([7], dtype=torch.int8), exact=True)


def cells_and_statistics():
    normal = lambda *shape: torch.randn(shape, generator=generator)
    for gates, name in ((3, "gru_cell"), (1, "rnn_tanh_cell"), (1, "rnn_relu_cell")):
        case(f"aten.{name}.default", normal(2, 5), normal(2, 3), normal(3 * gates, 5), normal(3 * gates, 3), normal(3 * gates), normal(3 * gates))
    case("aten.gru_cell.default", normal(2, 5), normal(2, 3), normal(9, 5), normal(9, 3))
    case("aten.lstm_cell.default", normal(2, 5), [normal(2, 3), normal(2, 3)], normal(12, 5), normal(12, 3), normal(12), normal(12))
    image = normal(2, 3, 4, 5)
    case("aten.instance_norm.default", image, normal(3), normal(3), None, None, True, 0.1, 1e-5, False)
    case("aten.instance_norm.default", image, None, None, None, None, True, 0.1, 1e-3, False)
    case("aten.instance_norm.default", image, normal(3), normal(3), normal(3), normal(3).abs(), False, 0.1, 1e-3, False)
    case("aten._native_batch_norm_legit.no_stats", image, normal(3), normal(3), True, 0.1, 1e-5)
    case("aten._native_batch_norm_legit.no_stats", normal(4, 3), None, None, True, 0.1, 1e-3)
    case("aten.erfinv.default", torch.tensor([0.0, 0.5, -0.9, 0.999, 0.1, -0.3, 1.0]))
    case("aten.broadcast_tensors.default", [normal(3, 1), normal(4)], exact=True)


def resizes_and_continuations():
    normal = lambda *shape: torch.randn(shape, generator=generator)
    line, image = normal(1, 2, 7), normal(2, 3, 5, 6)
    for name in ("upsample_nearest", "_upsample_nearest_exact"):
        case(f"aten.{name}1d.vec", line, [10], None, exact=True)
        case(f"aten.{name}1d.vec", line, None, [0.45], exact=True)
        case(f"aten.{name}2d.vec", image, [3, 11], None, exact=True)
        case(f"aten.{name}2d.vec", image.bfloat16(), None, [1.7, 2.0], exact=True)
        case(f"aten.{name}2d.default", image, [10, 9], 2.0, 1.5, exact=True)
    for corners in (False, True):
        case("aten.upsample_bicubic2d.vec", image, [7, 13], corners, None)
        case("aten.upsample_bicubic2d.vec", image, None, corners, [0.6, 2.0])
        case("aten._upsample_bilinear2d_aa.vec", image, [3, 9], corners, None)
        case("aten._upsample_bicubic2d_aa.vec", image, [2, 8], corners, None)
    case("aten.upsample_bicubic2d.default", image.bfloat16(), [1, 9], False)
    case("aten.upsample_bicubic2d.default", image, [8, 9], False, 1.6, 1.5)
    case("aten._upsample_bilinear2d_aa.default", image, [2, 13], False, 0.5, None)
    case("aten._upsample_bicubic2d_aa.default", normal(1, 1, 17, 4), [3, 4], False)
    grid = normal(2, 4, 3, 2)
    for padding in (0, 1, 2):
        for corners in (False, True):
            case("aten.grid_sampler.default", image, grid, 0, padding, corners)
        case("aten.grid_sampler_2d.default", image, grid, 1, padding, False)
    case("aten.affine_grid_generator.default", normal(2, 2, 3), [2, 1, 4, 5], False)
    case("aten.affine_grid_generator.default", normal(1, 2, 3), [1, 2, 3, 1], True)
    case("aten.batch_norm.default", image, normal(3), normal(3), None, None, True, 0.1, 1e-5, False)
    case("aten.batch_norm.default", normal(1, 4, 9), None, None, None, None, True, 0.0, 1e-6, False)
    case("aten.reflection_pad1d.default", line, [3, 6], exact=True)
    case("aten.reflection_pad2d.default", image, [0, 2, 1, 4], exact=True)
    case("aten.reflection_pad3d.default", normal(1, 3, 2, 4), [1, 1, 0, 1, 2, 0], exact=True)
    case("aten.replication_pad1d.default", line, [3, 9], exact=True)
    case("aten.replication_pad2d.default", image, [7, 0, 1, 1], exact=True)
    case("aten.replication_pad3d.default", normal(1, 3, 2, 4), [1, 1, 0, 1, 2, 0], exact=True)
    for mode in ("reflect", "replicate", "circular"):
        case("aten.pad.default", image.bfloat16(), [1, 4, 2, 0], mode, exact=True)
        case("aten.pad.default", image, [2, 1, 0, 3], mode, exact=True)


def library():
    own = torch.Generator().manual_seed(53)
    normal = lambda *shape: torch.randn(shape, generator=own)
    x, nan = normal(3, 4, 5), torch.tensor([[1.0, math.nan, 0.5, math.nan], [3.0, -1.0, 2.0, 2.0]])
    for order in (0, 3, 0.5, -math.inf, math.inf):
        case("aten.linalg_vector_norm.default", x, order, [1])
    case("aten.linalg_vector_norm.default", nan, math.inf, [1])
    case("aten.linalg_norm.default", x)
    case("aten.linalg_norm.default", x.bfloat16(), 1, [-1], True)
    case("aten.linalg_norm.default", x, None, [0, 2])
    case("aten.linalg_norm.ord_str", x[0], "fro")
    case("aten.linalg_matrix_norm.str_ord", x)
    case("aten.norm.Scalar", x, 3)
    case("aten.norm.ScalarOpt_dim", x, None, [0])
    case("aten.norm.ScalarOpt_dim", x, 1, [1, 2], True)
    case("aten.norm.ScalarOpt_dim_dtype", x.half(), 2, [-1], False, dtype=torch.float32)
    case("aten.norm.ScalarOpt_dtype", x.bfloat16(), 2, dtype=torch.float32)
    case("aten.frobenius_norm.dim", x, [1, 2])
    case("aten.cosine_similarity.default", x, normal(3, 4, 5), -1)
    case("aten.cosine_similarity.default", x, normal(5), 2)
    case("aten.cosine_similarity.default", torch.zeros(2, 3), normal(2, 3))
    case("aten.pairwise_distance.default", x, normal(4, 5))
    case("aten.pairwise_distance.default", x, normal(3, 4, 5), 1.0, 1e-3, True)
    for p in (2.0, 1.0, math.inf, 0.0):
        case("aten.cdist.default", x, normal(3, 2, 5), p)
    case("aten.cdist.default", normal(30, 3), normal(2, 3))
    case("aten.cdist.default", normal(2, 1, 4, 3), normal(26, 3), 2.0, 2)
    case("aten._cdist_forward.default", x, normal(3, 2, 5), 2.0, 1)
    case("aten._euclidean_dist.default", normal(4, 3), normal(3, 3))
    image = normal(2, 3, 6, 7)
    case("aten.im2col.default", image, [2, 3], [1, 1], [0, 0], [2, 2], exact=True)
    case("aten.im2col.default", image[0], [3, 2], [2, 1], [1, 2], [1, 3], exact=True)
    case("aten.col2im.default", normal(2, 24, 6), [6, 4], [2, 2], [1, 1], [0, 0], [2, 2], exact=True)
    case("aten.col2im.default", normal(2, 18, 12), [6, 7], [3, 3], [1, 1], [1, 1], [2, 2])
    case("aten.col2im.default", normal(12, 8), [5, 6], [2, 3], [2, 1], [0, 2], [2, 2])
    case("aten.median.default", normal(3, 5), exact=True)
    case("aten.median.default", nan, exact=True)
    case("aten.median.dim", normal(3, 6), 0, exact=True)
    case("aten.median.dim", nan, -1, True, exact=True)
    case("aten.median.dim", torch.tensor([[5, 1, 4, 2], [9, 8, 7, 6]]), 1, exact=True)
    case("aten.kthvalue.default", normal(3, 6), 2, exact=True)
    case("aten.kthvalue.default", normal(3, 6), 3, 0, True, exact=True)
    case("aten.quantile.scalar", normal(4, 7), 0.3)
    case("aten.quantile.scalar", normal(4, 7), 1.0, 0, True)
    case("aten.quantile.scalar", nan, 0.5, 1)
    case("aten.quantile.default", normal(2, 4, 7), torch.tensor([0.1, 0.25, 0.9]), 1)
    case("aten.quantile.default", normal(4, 7), torch.tensor([0.1, 0.25]), 1, True)
    case("aten.quantile.default", normal(9), torch.tensor(0.75))
    for right in (False, True):
        case("aten.searchsorted.Tensor", torch.tensor([0.0, 1.0, 1.0, 3.0]), torch.tensor([[1.0, -2.0], [5.0, math.nan]]), right=right, exact=True)
    case("aten.searchsorted.Tensor", torch.sort(normal(2, 3, 5))[0], normal(2, 3, 4), side="right", out_int32=True, exact=True)
    case("aten.searchsorted.Tensor", torch.tensor([1, 4, 4, 9]), torch.tensor([4, 10]), exact=True)


def functions():
    own = torch.Generator().manual_seed(59)
    normal = lambda *shape: torch.randn(shape, generator=own)
    x, ends = normal(3, 5) * 2, torch.tensor([0.0, math.inf, -math.inf, math.nan, 30.0, -30.0])
    inside = torch.tensor([0.0, 1.0, -1.0, 0.999, -0.999, 1e-4, 0.3, -0.5])
    for name in ("tan", "atan", "arctan", "sinh", "cosh", "asinh", "erfc", "special_erfc", "special_ndtr", "sinc"):
        case(f"aten.{name}.default", x)
    for name in ("atan", "sinh", "cosh", "asinh", "erfc", "special_ndtr"):
        case(f"aten.{name}.default", ends)
    case("aten.sinh.default", torch.tensor([1e-3, -1e-3, 0.9, -1.1]))
    case("aten.asinh.default", torch.tensor([1e-3, -1e12, 1e20]))
    case("aten.atan.default", torch.arange(-3, 4))
    case("aten.atan.default", x.bfloat16())
    for name in ("asin", "acos", "atanh"):
        case(f"aten.{name}.default", inside)
    case("aten.acosh.default", torch.tensor([1.0, 1.0001, 2.0, 50.0, 1e20, math.inf]))
    case("aten.frac.default", torch.tensor([1.5, -1.25, 3.0, -0.75]), exact=True)
    case("aten.sgn.default", torch.tensor([2.0, -3.0, 0.0]), exact=True)
    case("aten.softshrink.default", x, 0.7)
    case("aten.hardshrink.default", x, exact=True)
    case("aten.threshold.default", x, 0.3, -2.0, exact=True)
    y = normal(3, 5)
    for name in ("atan2", "arctan2", "hypot", "fmax", "fmin", "logaddexp"):
        case(f"aten.{name}.default", x, y)
    case("aten.atan2.default", torch.tensor([0.0, 1.0, -1.0, 0.0, 2.0]), torch.tensor([-1.0, 0.0, 0.0, 0.0, -math.inf]))
    case("aten.hypot.default", torch.tensor([0.0, 3e30, 1e-30, math.inf]), torch.tensor([0.0, 4e30, 1e-30, -math.inf]))
    case("aten.fmax.default", ends, torch.tensor([math.nan, 1.0, 1.0, 2.0, math.nan, -40.0]), exact=True)
    case("aten.fmin.default", ends, torch.tensor([math.nan, 1.0, 1.0, math.nan, 2.0, -40.0]), exact=True)
    case("aten.logaddexp.default", ends[:4], torch.tensor([0.0, math.inf, -math.inf, 1.0]))
    case("aten.xlogy.Tensor", torch.tensor([0.0, 0.0, 2.0, 0.0]), torch.tensor([0.0, math.nan, 3.0, -1.0]))
    case("aten.heaviside.default", torch.tensor([0.0, -1.0, 2.0]), torch.tensor(0.5), exact=True)
    case("aten.true_divide.Tensor", torch.tensor([1, 2, 7]), torch.tensor([2, 4, 3]))
    case("aten.divide.Tensor", x, normal(5))
    case("aten.multiply.Tensor", x, normal(3, 1))
    case("aten.subtract.Tensor", x, y, alpha=0.5)
    case("aten.clip.default", x, -0.5, 0.5, exact=True)
    case("aten.linspace.default", -1.0, 2.0, 7)
    case("aten.linspace.default", 0, 1, 6, dtype=torch.float64)
    case("aten.linspace.default", 3.0, 3.5, 1)
    case("aten.tril_indices.default", 3, 4, -1, exact=True)
    case("aten.triu_indices.default", 3, 4, exact=True)


def combinations_at_positions():
    own = torch.Generator().manual_seed(53)
    normal = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=own).to(dtype)
    whole = lambda *shape, dtype=torch.int64: torch.randint(-9, 10, shape, generator=own).to(dtype)
    index, at = torch.tensor([[0, 2, 2], [1, 0, 2]]), torch.tensor([1, 3, 1, 0])
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            case("aten.scatter_reduce.two", normal(4, 3), 0, index, normal(3, 5), reduce, include_self=include_self)
            case("aten.scatter_reduce.two", whole(2, 4, dtype=torch.int32), -1, index, whole(2, 3, dtype=torch.int32), reduce, include_self=include_self, exact=True)
            if reduce != "sum":
                case("aten.index_reduce.default", normal(2, 4, 3), 1, at, normal(2, 4, 3), reduce, include_self=include_self)
        case("aten.scatter_reduce.two", normal(4, 3, dtype=torch.bfloat16), 1, index, normal(2, 3, dtype=torch.bfloat16), reduce)
    odd = torch.tensor([math.nan, 1.0, -math.inf, 2.0])
    case("aten.scatter_reduce.two", odd, 0, torch.tensor([0, 1, 2, 2]), torch.tensor([1.0, math.nan, 3.0, 2.0]), "amax", exact=True)
    case("aten.scatter_reduce.two", odd, 0, torch.tensor([0, 1, 2, 2]), torch.tensor([1.0, math.nan, 3.0, 2.0]), "amin", include_self=False, exact=True)
    case("aten.scatter_reduce.two", torch.tensor(2.0), 0, torch.tensor(0), torch.tensor(3.0), "prod", exact=True)
    case("aten.index_reduce.default", whole(5), 0, torch.tensor([4, 4, 0]), whole(3), "prod", exact=True)
    case("aten.scatter.reduce", normal(4, 3), 0, index, normal(3, 5), reduce="add")
    case("aten.scatter.reduce", whole(4, 3), 0, index, whole(3, 5), reduce="multiply", exact=True)
    case("aten.scatter.value_reduce", normal(4, 3), 0, index, 2.5, reduce="multiply")
    case("aten.scatter.value_reduce", whole(4, 3), 0, index, -3, reduce="add", exact=True)


def diagonals_and_angles():
    own = torch.Generator().manual_seed(59)
    x = torch.randn(2, 3, 4, generator=own)
    for offset, axes in ((1, (-2, -1)), (-2, (0, 1)), (0, (1, 3)), (2, (3, 0)), (0, (-1, -2))):
        case("aten.diag_embed.default", x, offset, *axes, exact=True)
    case("aten.diag_embed.default", x[0, 0], -1, 1, 0, exact=True)
    inf = math.inf
    case("aten.atan2.default", torch.tensor([0.0, -0.0, 0.0, -0.0, inf, -inf, inf, -inf, 0.0, -0.0, -inf, 2.0, math.nan]),
         torch.tensor([0.0, 0.0, -0.0, -0.0, inf, inf, -inf, -inf, -1.0, -1.0, -0.0, 2.0, 1.0]))


def rests_and_special_functions():
    own = torch.Generator().manual_seed(61)
    normal = lambda *shape: torch.randn(shape, generator=own)
    inf, nan = math.inf, math.nan
    x, y = normal(3, 5) * 4, normal(3, 5)
    odd = torch.tensor([0.0, -0.0, inf, -inf, nan, 3.0, -3.0, 1e30, -7.5, 1e-40])
    for name in ("fmod", "remainder"):
        case(f"aten.{name}.Tensor", x, y)
        case(f"aten.{name}.Scalar", x, -0.7)
        case(f"aten.{name}.Scalar", x.bfloat16(), 0.5)
        for other in (3.0, -3.0, inf, -inf, 0.0, nan, 0.1):
            case(f"aten.{name}.Scalar", odd, other, exact=True)
        case(f"aten.{name}.Tensor", torch.tensor([7, -7, 9]), torch.tensor([2.5, 2.5, -4.0]), exact=True)
        for half in (torch.bfloat16, torch.float16):  # the number is one of the dtype, too
            case(f"aten.{name}.Scalar", torch.tensor([0.3, 1.0, 7.5, -2.3, 100.0]).to(half), 0.1, exact=True)
        case(f"aten.{name}.Scalar", torch.tensor([7, -7, 9]), -2.5, exact=True)
        case(f"aten.{name}.Scalar", torch.tensor([True, False]), 2, exact=True)
        case(f"aten.{name}.Scalar", torch.tensor([True, False]), -0.75, exact=True)
        case(f"aten.{name}.Tensor", x[:, None], y[:, :1].double(), exact=True)
    case("aten.copysign.Tensor", x, y, exact=True)
    case("aten.copysign.Tensor", odd, torch.tensor([-1.0, 1.0, -0.0, 0.0, 1.0, -inf, inf, -1e-40, 1e-40, -2.0]), exact=True)
    case("aten.copysign.Tensor", torch.tensor([3, -4]), torch.tensor([-1, 1]), exact=True)
    case("aten.copysign.Scalar", x, -1.0, exact=True)
    case("aten.copysign.Scalar", x, 0.0, exact=True)
    case("aten.signbit.default", torch.tensor([0.0, -0.0, inf, -inf, -2.0, 2.0, -1e-40]), exact=True)
    case("aten.signbit.default", torch.tensor([0, -3, 4]), exact=True)
    case("aten.ldexp.Tensor", x, normal(5))
    case("aten.ldexp.Tensor", torch.tensor([3, -5]), torch.tensor([[2], [-1]]), exact=True)
    case("aten.ldexp.Tensor", torch.tensor([1.5, 0.75, -inf, nan]), torch.tensor([-140, 127, 3, 0]), exact=True)
    case("aten.logaddexp2.default", x, y)
    case("aten.logaddexp2.default", torch.tensor([inf, -inf, -inf, nan, 0.0]), torch.tensor([inf, -inf, 1.0, 2.0, 0.0]))
    for decimals in (2, 0, -1):
        case("aten.round.decimals", x * 10, decimals=decimals)
    case("aten.round.decimals", torch.tensor([inf, -inf, nan, -0.04]), decimals=1)
    case("aten.float_power.Tensor_Scalar", x.abs(), 1.5)
    case("aten.float_power.Tensor_Scalar", torch.tensor([2, -3]), 3, exact=True)
    case("aten.float_power.Tensor_Tensor", x.abs(), y)
    gammas = torch.tensor([0.5, 1.0, 2.0, 1.4616, 3.7, 40.0, 1e20, -0.5, -2.2, -17.3, 1e-20, -1e-20, inf, nan])
    for name in ("lgamma", "digamma"):
        case(f"aten.{name}.default", gammas)
        case(f"aten.{name}.default", x)
    for name in ("lgamma", "digamma", "erfinv", "deg2rad", "rad2deg", "angle"):
        case(f"aten.{name}.default", torch.tensor([True, False]))
    case("aten.lgamma.default", torch.tensor([3, -2, 9], dtype=torch.int32))
    case("aten.digamma.default", x.abs().bfloat16())
    for half in (torch.bfloat16, torch.float16):
        case("aten.round.decimals", (x * 10).to(half), decimals=2)
        case("aten.lgamma.default", x.to(half))
    case("aten.lgamma.default", torch.tensor([0.0, -0.0, -1.0, -inf]), exact=True)
    case("aten.digamma.default", torch.tensor([0.0, -0.0, -1.0]), exact=True)
    case("aten.erfinv.default", torch.tensor([0.2, -1.0, 1.5, nan, 0.9999999, -1e-30]))
    case("aten.special_ndtri.default", torch.tensor([0.0, 1.0, 0.5, 1e-30, 1e-5, 0.3, 0.9999999, -0.1, nan]))
    for name in ("positive", "deg2rad", "rad2deg"):
        case(f"aten.{name}.default", x)
    case("aten.special_entr.default", torch.tensor([0.0, -0.5, 0.3, 2.0, inf, nan]))
    case("aten.angle.default", torch.tensor([0.0, -0.0, -2.0, 3.0, -inf, nan]))
    near = torch.tensor([1.0, 1.00001, 0.0, inf, inf, -inf, nan, 1e30])
    close = torch.tensor([1.000005, 1.0, 1e-9, inf, -inf, -inf, nan, inf])
    case("aten.isclose.default", near, close, exact=True)
    case("aten.isclose.default", near, close, 1e-7, 1e-8, True, exact=True)
    case("aten.rrelu.default", x)


def scans_and_products():
    own = torch.Generator().manual_seed(47)
    normal = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=own).to(dtype)
    whole = lambda *shape, dtype=torch.int64, low=-4, high=5: torch.randint(low, high, shape, generator=own).to(dtype)
    nan, inf = math.nan, math.inf
    x, i64 = normal(3, 5), torch.int64
    odd = torch.tensor([[1.5, 1.5, -0.0, 0.0, nan, 2.0], [-inf, -inf, 2.0, inf, inf, 1.0], [inf, -inf, 0.0, 3.0, nan, inf]])
    ties = torch.tensor([[2, 1, 2, -3, 2], [0, 0, 0, 0, 0], [5, 4, 3, 2, 1]], dtype=torch.int32)
    for dim in (0, 1, -1):
        case("aten.cumprod.default", x, dim)
        case("aten.cumprod.default", ties, dim, exact=True)
        case("aten.logcumsumexp.default", x * 3, dim)
        for name in ("cummax", "cummin"):
            case(f"aten.{name}.default", x, dim, exact=True)
            case(f"aten.{name}.default", ties, dim, exact=True)
            case(f"aten.{name}.default", odd, dim, exact=True)
    case("aten.logcumsumexp.default", odd, 1)
    case("aten.logcumsumexp.default", normal(2, 70) * 20, 1)
    case("aten.logcumsumexp.default", torch.tensor([-100.0, -0.0, -20.0, 0.0, 88.0, 300.0]), 0)
    case("aten.cumprod.default", odd, 1)
    case("aten.cumprod.default", normal(40), 0, dtype=torch.float64)
    case("aten.cumprod.default", normal(2, 20, dtype=torch.bfloat16), 1, dtype=torch.float32)
    case("aten.cumprod.default", x > -2, 0, exact=True)
    case("aten.cumprod.default", torch.tensor([1.9, 2.9, -3.5]), 0, dtype=torch.int32, exact=True)
    case("aten.cumprod.default", whole(70), 0, exact=True)
    case("aten.cummax.default", whole(3, 70, dtype=torch.int8), 1, exact=True)
    case("aten.cummin.default", x > 0, 1, exact=True)
    case("aten.cummax.default", torch.tensor(2.5), 0, exact=True)
    case("aten.cummax.default", normal(2, 3, 70, dtype=torch.float16), 1, exact=True)
    case("aten.logcumsumexp.default", torch.tensor(2.5), 0)
    for dim in (0, 1, -1):
        case("aten.prod.dim_int", x, dim)
        case("aten.prod.dim_int", ties, dim, True, exact=True)
    case("aten.prod.dim_int", odd, 1)
    case("aten.prod.dim_int", normal(2, 3, 70, dtype=torch.float16), 2, dtype=torch.float32)
    case("aten.prod.dim_int", normal(2, 70, dtype=torch.bfloat16), 1, True)
    case("aten.prod.dim_int", x > -1, 1, exact=True)
    case("aten.prod.dim_int", ties, 1, dtype=torch.float32)
    case("aten.prod.dim_int", x * 3, 1, dtype=torch.int32, exact=True)
    case("aten.prod.dim_int", normal(3, 0), 1)
    case("aten.prod.dim_int", torch.tensor(2.5), 0)
    case("aten.prod.default", x)
    case("aten.prod.default", whole(70, low=-3, high=4) * 2 + 1, exact=True)
    case("aten.prod.default", x, dtype=torch.float64)
    case("aten.sum.dim_IntList", x, [1], dtype=torch.int32, exact=True)


def arrangements():
    own = torch.Generator().manual_seed(61)
    normal = lambda *shape: torch.randn(shape, generator=own)
    x = normal(2, 4, 5)
    for offset, axes in ((0, (0, 1)), (1, (1, 2)), (-2, (-2, -1)), (1, (2, 0))):
        case("aten.diagonal.default", x, offset, *axes, exact=True)
    case("aten.swapaxes.default", x, 0, -1, exact=True)
    case("aten.feature_dropout.default", x, 0.5, False, exact=True)
    case("aten.unsafe_chunk.default", x, 3, 2, exact=True)
    case("aten.tensor_split.sections", x, 3, -1, exact=True)
    case("aten.tensor_split.indices", x, [1, 4], 2, exact=True)
    case("aten.hstack.default", [normal(3), normal(2)], exact=True)
    case("aten.hstack.default", [normal(2, 3), normal(2, 1)], exact=True)
    case("aten.vstack.default", [normal(3), normal(2, 3)], exact=True)
    case("aten.column_stack.default", [normal(3), normal(3, 2), normal(3)], exact=True)
    case("aten.movedim.int", x, 0, 2, exact=True)
    case("aten.moveaxis.int", x, -1, 1, exact=True)
    case("aten.ravel.default", x, exact=True)
    case("aten.trace.default", normal(3, 4))
    case("aten.trace.default", whole(4, 3), exact=True)
    case("aten.diag.default", normal(4), exact=True)
    case("aten.diag.default", normal(3), 1, exact=True)
    case("aten.diag.default", whole(3), -2, exact=True)
    case("aten.diag.default", normal(4, 3), -1, exact=True)
    case("aten.diag_embed.default", normal(2, 3), exact=True)
    case("aten.kron.default", normal(2, 3), normal(3, 2))
    case("aten.kron.default", normal(2), whole(2, 2))
    case("aten.channel_shuffle.default", normal(2, 6, 2, 3), 3, exact=True)
    for name in ("var_mean", "std_mean"):
        case(f"aten.{name}.correction", x, [1], correction=0, keepdim=True)
        case(f"aten.{name}.dim", x, [0, 2])
    case("aten.aminmax.default", x, exact=True)
    case("aten.aminmax.default", whole(3, 4), dim=1, keepdim=True, exact=True)
    case("aten.count_nonzero.default", whole(3, 4, low=-1, high=2), exact=True)
    case("aten.count_nonzero.default", whole(3, 4, low=-1, high=2), 0, exact=True)
    case("aten.count_nonzero.dim_IntList", x > 0, [1, 2], exact=True)
    case("aten.logit.default", torch.tensor([0.25, 0.9, 0.0, 1.0]))
    case("aten.logit.default", torch.tensor([0.25, 0.999, 0.0, 1.0]), 0.01)


def fourier_transforms():
    own = torch.Generator().manual_seed(67)
    normal = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=own, dtype=dtype)
    for size in (1, 2, 7, 8):
        x, z = normal(3, size), torch.complex(normal(3, size), normal(3, size))
        for onesided in (True, False):
            case("aten._fft_r2c.default", x, [1], 0, onesided)
        for forward in (True, False):
            case("aten._fft_c2c.default", z, [1], 2, forward)
        case("aten._fft_c2r.default", torch.fft.rfft(x), [1], 2, size)
        case("aten._fft_c2r.default", z, [1], 0, size)
    x, z = normal(2, 4, 6, 5), torch.complex(normal(2, 4, 6, 5), normal(2, 4, 6, 5))
    case("aten._fft_r2c.default", x, [1, 2], 1, True)
    case("aten._fft_r2c.default", x, [3, 0, 1], 2, False)
    case("aten._fft_c2c.default", z, [0, 2], 1, True)
    case("aten._fft_c2r.default", z, [1, 2], 1, 11)
    case("aten._fft_c2r.default", z, [2, 0], 0, 2)
    case("aten._fft_r2c.default", normal(2, 70, dtype=torch.float64), [1], 0, True)


def positions_of_pools():
    own = torch.Generator().manual_seed(59)
    normal = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=own).to(dtype)
    few = lambda *shape: torch.randint(-2, 3, shape, generator=own).float()  # many are equal
    case("aten.max_pool1d_with_indices.default", few(2, 3, 9), [3], [2], [1])
    case("aten.max_pool1d_with_indices.default", normal(3, 9), [2])
    case("aten.max_pool2d_with_indices.default", few(2, 3, 7, 6), [3, 3], [2, 2], [1, 1])
    case("aten.max_pool2d_with_indices.default", few(1, 2, 9, 10), [3, 2], [2, 1], [1, 1], [2, 3])
    case("aten.max_pool2d_with_indices.default", normal(2, 3, 7, 6), [2, 3], [], [0, 0], [1, 1], True)
    case("aten.max_pool2d_with_indices.default", torch.full((1, 1, 5, 4), -math.inf), [3, 3], [2, 2], [1, 1], [2, 1])
    case("aten.max_pool2d_with_indices.default", normal(2, 6, 6, dtype=torch.bfloat16), [2, 2])
    case("aten.max_pool3d_with_indices.default", few(1, 2, 4, 5, 6), [2, 3, 2], [2, 2, 1], [1, 1, 0])
    case("aten.adaptive_max_pool1d.default", few(2, 3, 10), [4])
    case("aten.adaptive_max_pool2d.default", few(2, 3, 7, 6), [3, 4])
    case("aten.adaptive_max_pool2d.default", normal(3, 6, 8), [3, 1])
    case("aten.adaptive_max_pool3d.default", few(1, 2, 4, 5, 6), [2, 3, 4])
    for op in ("adaptive_avg_pool3d", "_adaptive_avg_pool3d"):
        case(f"aten.{op}.default", normal(2, 3, 4, 5, 6), [2, 3, 1])
    x, at = torch.nn.functional.max_pool2d(normal(2, 3, 6, 8), 2, return_indices=True)
    case("aten.max_unpool2d.default", x, at, [6, 8])
    case("aten.max_unpool2d.default", x[0], at[0], [7, 8])
    x, at = torch.nn.functional.max_pool3d(normal(2, 4, 6, 4), (2, 3, 2), return_indices=True)
    case("aten.max_unpool3d.default", x.half(), at, [4, 6, 4], [2, 3, 2], [0, 0, 0])
    w = normal(3, 4, 2, 3, 2)
    case("aten.conv_transpose3d.input", normal(2, 3, 3, 2, 4), w, normal(4), [2, 1, 2], [1, 0, 0], [1, 0, 1])
    case("aten.conv_transpose3d.input", normal(4, 3, 2, 4), normal(4, 2, 2, 2, 2), None, [2, 2, 2], [0, 0, 0], [0, 0, 0], 2)


def losses():
    own = torch.Generator().manual_seed(61)
    normal = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=own).to(dtype)
    whole = lambda high, *shape: torch.randint(0, high, shape, generator=own)
    x, y, share = normal(3, 5), normal(3, 5), lambda *shape: torch.rand(shape, generator=own)
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        for reduction in range(3):
            case(f"aten.{name}.default", x, y, reduction)
    case("aten.mse_loss.default", x.bfloat16(), y.bfloat16())
    case("aten.smooth_l1_loss.default", x, y, 0, 0.0)
    case("aten.smooth_l1_loss.default", x, y, 0, 0.3)
    case("aten.huber_loss.default", x, y, 0, 0.3)
    case("aten.soft_margin_loss.default", x, y.sign(), 0)
    for flags in ((True, False), (False, False), (True, True)):
        case("aten.poisson_nll_loss.default", x.abs(), y.abs() * 3, *flags, 1e-8, 0)
    case("aten.kl_div.default", x, share(3, 5), 0)
    case("aten.kl_div.default", x, y, 1, log_target=True)
    case("aten.kl_div.default", x, torch.tensor([0.0, 1.0, 0.5, 0.0, 0.2]).expand(3, 5), 2)
    case("aten.binary_cross_entropy.default", torch.tensor([0.0, 1.0, 0.3, 0.9, 1e-20]), torch.tensor([1.0, 0.0, 0.2, 1.0, 0.7]), None, 0)
    case("aten.binary_cross_entropy.default", share(3, 5), share(3, 5), share(3, 5))
    case("aten.binary_cross_entropy_with_logits.default", x * 30, share(3, 5), None, None, 0)
    case("aten.binary_cross_entropy_with_logits.default", x, share(3, 5), share(3, 1), share(5) * 4, 0)
    case("aten.margin_ranking_loss.default", x, y, normal(3, 5).sign(), 0.2, 0)
    case("aten.margin_ranking_loss.default", x, y[0], normal(3, 5).sign())
    case("aten.hinge_embedding_loss.default", x, torch.tensor([1.0, -1.0, 1.0, 0.0, -1.0]).expand(3, 5), 0.7, 0)
    case("aten.cosine_embedding_loss.default", x, y, torch.tensor([1.0, -1.0, 0.0]), -0.5, 0)
    case("aten.cosine_embedding_loss.default", x, y, torch.tensor([1, -1, -1]), 0.1)
    case("aten.cosine_embedding_loss.default", x[0], y[0], torch.tensor(1.0))
    for p, swap in ((2.0, False), (1.0, True), (3.0, False)):
        case("aten.triplet_margin_loss.default", x, y, normal(3, 5), 1.5, p, 1e-6, swap, 0)
    case("aten.triplet_margin_loss.default", x, y, normal(3, 5))
    target = torch.tensor([4, 0, 2])
    case("aten.multi_margin_loss.default", x, target)
    case("aten.multi_margin_loss.default", x, target, 2, 0.5, share(5), 0)
    case("aten.multi_margin_loss.default", x[0], torch.tensor(3))
    labels = torch.tensor([[3, 0, -1, 1, 2], [-1, 0, 1, 2, 3], [4, 1, 0, 2, 3]])
    case("aten.multilabel_margin_loss.default", x, labels, 0)
    case("aten.multilabel_margin_loss.default", x[0], labels[0])
    logs = x.log_softmax(-1)
    for reduction in range(3):
        case("aten.nll_loss_nd.default", logs, target, None, reduction)
        case("aten.nll_loss.default", logs, target, share(5), reduction, 0)
    case("aten.nll_loss_nd.default", logs[0], torch.tensor(2))
    case("aten.nll_loss2d.default", normal(2, 4, 3, 2), whole(4, 2, 3, 2), share(4), 1, 1)
    case("aten.nll_loss_nd.default", normal(2, 4, 3), torch.tensor([[0, -100, 3], [1, 2, -100]]), share(4), 0)
    for more in ({}, {"label_smoothing": 0.1}):
        case("aten.cross_entropy_loss.default", x, target, **more)
        case("aten.cross_entropy_loss.default", x, target, share(5), 1, 2, **more)
        case("aten.cross_entropy_loss.default", x, target, share(5), 0, 2, **more)
        case("aten.cross_entropy_loss.default", normal(2, 4, 3), whole(4, 2, 3), None, 2, **more)
        case("aten.cross_entropy_loss.default", x, share(3, 5).softmax(-1), share(5), **more)
        case("aten.cross_entropy_loss.default", normal(2, 4, 3), share(2, 4, 3), None, 0, **more)
    case("aten.cross_entropy_loss.default", x[0], torch.tensor(3))
    case("aten.cross_entropy_loss.default", x.half(), target)
    case("aten.cross_entropy_loss.default", x, torch.tensor([-100, -100, -100]))


def more_arrangements():
    own = torch.Generator().manual_seed(67)
    normal = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=own).to(dtype)
    whole = lambda low, high, *shape: torch.randint(low, high, shape, generator=own)
    x = normal(3, 4, 6)
    for name in ("hsplit", "vsplit", "dsplit"):
        case(f"aten.{name}.int", x, {"hsplit": 2, "vsplit": 3, "dsplit": 3}[name])
        case(f"aten.{name}.array", x, [1, 2])
    case("aten.hsplit.int", x[0, 0], 3)
    case("aten.dstack.default", [x, x[:, :, :1]])
    case("aten.dstack.default", [x[0], x[1]])
    case("aten.dstack.default", [x[0, 0], x[0, 1].half()])
    case("aten.dstack.default", [torch.tensor(1), torch.tensor(2)])
    for k in range(-1, 5):
        case("aten.rot90.default", x, k, [1, 2] if k % 2 else [-1, 0])
    case("aten.fliplr.default", x)
    case("aten.flipud.default", x[0, 0])
    case("aten.movedim.intlist", x, [0, 1], [1, -1])
    case("aten.moveaxis.intlist", x[None], [3, 0, 1], [0, 1, 3])
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        for t in (torch.tensor(2.5), x[0, 0], x[0], x):
            case(f"aten.{name}.default", t)
    case("aten.block_diag.default", [x[0], x[0, 0], torch.tensor(3), x[1, :, :1].half()])
    case("aten.block_diag.default", [whole(0, 9, 2, 3)])
    case("aten.cartesian_prod.default", [x[0, 0], x[0, 1, :2], x[0, 2, :3]])
    case("aten.cartesian_prod.default", [x[0, 0]])
    for r in (1, 2, 3):
        case("aten.combinations.default", x[0, 0, :4], r)
        case("aten.combinations.default", x[0, 0, :3], r, True)
    case("aten.combinations.default", whole(0, 9, 3), 4)
    case("aten.diagonal_scatter.default", x[0], normal(4))
    case("aten.diagonal_scatter.default", x, normal(6, 2), -1, 0, 1)
    case("aten.diagonal_scatter.default", x, normal(4, 3), 2, 0, 2)
    case("aten.sum_to_size.default", x, [4, 1])
    case("aten.sum_to_size.default", x, [3, 1, 6])
    case("aten.sum_to_size.default", x, [3, 4, 6])
    case("aten.msort.default", x)
    case("aten.msort.default", torch.tensor([3, -1, 2]))
    many = whole(0, 7, 3, 5)
    for invert in (False, True):
        case("aten.isin.Tensor_Tensor", many, torch.tensor([[1, 5], [3, 1]]), invert=invert)
        case("aten.isin.Tensor_Scalar", many, 3, invert=invert)
        case("aten.isin.Scalar_Tensor", 3, many, invert=invert)
    case("aten.isin.Tensor_Tensor", torch.tensor([math.nan, 1.0, -0.0, math.inf]), torch.tensor([math.nan, 0.0, math.inf]))
    case("aten.index_fill.int_Scalar", x, 1, torch.tensor([3, -4]), 2.5)
    case("aten.index_fill.int_Scalar", many, 0, torch.tensor(1), 9)
    case("aten.index_fill.int_Tensor", x.half(), -1, torch.tensor([0, 2, 2]), torch.tensor(1.5, dtype=torch.float16))
    case("aten.put.default", x[0], torch.tensor([[1, -1], [7, 3]]), normal(4))
    case("aten.put.default", x[0], torch.tensor([1, -1, 1, 1]), normal(2, 2), True)
    case("aten.put.default", many, torch.tensor([1, -15, 14]), torch.tensor([70, 80, 90]))
    odd = torch.tensor([0.0, 1.5, math.nan, 0.0, 2.0, math.inf])
    case("aten.xlogy.Scalar_Other", odd, 2.5)
    case("aten.xlogy.Scalar_Self", 0, torch.tensor([0.0, math.nan, 2.0, math.inf]))
    case("aten.special_xlog1py.default", odd, torch.tensor([math.nan, 1e-9, 1.0, -1.0, -0.5, 3.0]))
    case("aten.special_xlog1py.self_scalar", 2.0, odd)
    case("aten.special_xlog1py.other_scalar", odd, 0.5)
    case("aten.special_round.default", odd * 1.26, decimals=1)
    case("aten.clamp_min.Tensor", x, x[0] * 2)
    case("aten.clamp_max.Tensor", many, torch.tensor([3, 2, 1, 9, -4]))
    for name in ("alpha_dropout", "feature_alpha_dropout"):
        case(f"aten.{name}.default", x, 0.5, False)


def products_and_sums():
    own = torch.Generator().manual_seed(71)
    normal = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=own).to(dtype)
    x, nan = normal(3, 4, 5), math.nan
    case("aten.tensordot.default", x, normal(4, 5, 2), [1, 2], [0, 1])
    case("aten.tensordot.default", x, normal(5, 2, 3), [2, 0], [0, 2])
    case("aten.tensordot.default", normal(3), normal(2, 4), [], [])
    case("aten.tensordot.default", normal(3, 4), normal(4, 3), [0, 1], [1, 0])
    case("aten.inner.default", x, normal(2, 5))
    case("aten.inner.default", x, torch.tensor(2.0))
    case("aten.inner.default", normal(5), normal(5))
    case("aten.vdot.default", normal(5), normal(5))
    case("aten.linalg_vecdot.default", x, normal(4, 5))
    case("aten.linalg_vecdot.default", x, x * 2, dim=0)
    case("aten.addr.default", normal(3, 4), normal(3), normal(4))
    case("aten.addr.default", normal(4), normal(3), normal(4), beta=0.5, alpha=2)
    case("aten.addr.default", torch.full((3, 4), nan), normal(3), normal(4), beta=0)
    case("aten.addmv.default", normal(3), normal(3, 4), normal(4), beta=2, alpha=-0.5)
    case("aten.addmv.default", normal(1, dtype=torch.bfloat16), normal(3, 4, dtype=torch.bfloat16), normal(4, dtype=torch.bfloat16))
    case("aten.addbmm.default", normal(3, 2), normal(4, 3, 5), normal(4, 5, 2), beta=0.3, alpha=2)
    case("aten.linalg_multi_dot.default", [normal(2, 3), normal(3, 4), normal(4, 2)])
    case("aten.linalg_multi_dot.default", [normal(3), normal(3, 4), normal(4)])
    for n in (0, 1, 2, 5):
        case("aten.matrix_power.default", normal(2, 3, 3), n)
    case("aten.cross.default", normal(2, 3), normal(2, 3))
    case("aten.cross.default", normal(3, 3), normal(3, 3), 1)
    case("aten.linalg_cross.default", normal(1, 3), normal(4, 3))
    case("aten.linalg_cross.default", torch.tensor([1, -2, 3]), torch.tensor([4, 5, 6]))
    case("aten.linalg_cross.default", normal(3, 2, dtype=torch.float16), normal(3, 2, dtype=torch.float16), dim=0)
    case("aten.bilinear.default", normal(2, 3, 4), normal(2, 3, 5), normal(6, 4, 5), normal(6))
    case("aten.bilinear.default", normal(4), normal(5), normal(6, 4, 5))
    case("aten._trilinear.default", normal(3, 4), normal(6, 4, 5), normal(3, 5), [1, 3], [0], [1, 2], [2, 3])
    case("aten._trilinear.default", normal(3), normal(3), normal(3), [], [], [], [], 0)
    for count, increasing in ((None, False), (3, True), (0, False), (1, False), (6, False)):
        case("aten.vander.default", torch.tensor([1.5, -2.0, 0.0]), count, increasing)
    case("aten.vander.default", torch.tensor([3, -2]), 4)
    case("aten.linalg_vander.default", normal(2, 4), N=3)
    case("aten.linalg_vander.default", torch.tensor([[2, 3, -1]]))
    for name in ("trapezoid", "cumulative_trapezoid"):
        case(f"aten.{name}.dx", x, dx=0.5)
        case(f"aten.{name}.dx", x, dim=1)
        case(f"aten.{name}.x", x, normal(3, 4, 5), dim=1)
        case(f"aten.{name}.x", x, normal(4), dim=1)
        case(f"aten.{name}.x", x[0], normal(4), dim=0)
    case("aten.trapezoid.dx", torch.tensor([[2.0]]))
    holes = torch.where(x > 0.8, nan, x)
    holes[0, 0] = nan
    for name in ("nansum", "nanmean"):
        case(f"aten.{name}.default", holes)
        case(f"aten.{name}.default", holes, [-1])
        case(f"aten.{name}.default", holes, [0, 2], True)
        case(f"aten.{name}.default", holes.bfloat16(), [1], dtype=torch.float32)
    case("aten.nansum.default", torch.tensor([[1, 2], [3, 4]]), [0])
    case("aten.nansum.default", torch.tensor([math.inf, nan, 1.0]))
    for p in (2, 1, math.inf, 0, 3):
        case("aten.dist.default", x, x[0] * 2, p)
    for p in (2.0, 1.0, math.inf, 0.0, 3.0):
        case("aten.pdist.default", normal(4, 3), p)
    case("aten._pdist_forward.default", normal(4, 3))
    case("aten.pdist.default", normal(1, 3))
    for p, dim in ((2, 0), (1, 1), (math.inf, -1), (3, 2)):
        case("aten.renorm.default", x, p, dim, 2.0)
    distinct = torch.randperm(12, generator=own).float().view(3, 4)
    distinct[0, 1], distinct[1] = nan, torch.tensor([nan, 2.0, nan, 1.0])
    case("aten.nanmedian.default", distinct)
    case("aten.nanmedian.dim", distinct, 1)
    case("aten.nanmedian.dim", torch.cat([distinct, torch.full((1, 4), nan)]), -1, True, returned=1)
    case("aten.nanmedian.dim", torch.randperm(12, generator=own).view(3, 4), 0)
    few = torch.randint(-2, 3, (4, 5, 3), generator=own)
    case("aten.mode.default", few)
    case("aten.mode.default", few.float(), 1, True)
    case("aten.mode.default", few.half(), 0)
    case("aten.mode.default", torch.tensor(3))
    case("aten.einsum.default", "ii->", [normal(4, 4)])
    case("aten.einsum.default", "bii->ib", [normal(2, 4, 4)])
    case("aten.einsum.default", "...ii->...i", [normal(2, 3, 4, 4)])
    case("aten.einsum.default", "iji,jkj->ik", [normal(3, 4, 3), normal(4, 2, 4)])
    case("aten.einsum.default", "iijj,j", [normal(3, 3, 4, 4), normal(4)])
    case("aten.einsum.default", "iii->i", [normal(3, 3, 3)])


def quotients_and_mantissas():
    own = torch.Generator().manual_seed(73)
    normal = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=own).to(dtype)
    inf, nan = math.inf, math.nan
    x, y = normal(4, 6) * 5, normal(4, 6)
    odd = torch.tensor([0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 6.0, -6.0, 0.9, 1e30, -1e-30])
    by = torch.tensor([[0.0], [-0.0], [3.0], [-3.0], [inf], [-inf], [nan], [0.3], [-1e-20]])
    for mode in ("floor", "trunc"):
        case("aten.div.Tensor_mode", x, y, rounding_mode=mode)
        case("aten.div.Tensor_mode", odd, by, rounding_mode=mode)
        case("aten.div.Tensor_mode", x, 0.3, rounding_mode=mode)
        case("aten.div.Tensor_mode", x.bfloat16(), 0.3, rounding_mode=mode)
        case("aten.div.Tensor_mode", x.half(), y.half(), rounding_mode=mode)
        case("aten.div.Tensor_mode", (x * 3).round() * 0.1, 0.1, rounding_mode=mode)
    case("aten.floor_divide.default", x, y)
    case("aten.floor_divide.default", x.bfloat16(), y.bfloat16()[:1])
    case("aten.floor_divide.Scalar", x, -0.7)
    whole = lambda low, high, *shape, dtype=torch.int64: torch.randint(low, high, shape, generator=own).to(dtype)
    a, b = whole(-200, 200, 4, 6), whole(-50, 50, 6)
    for name in ("gcd", "lcm"):
        case(f"aten.{name}.default", a, b)
        case(f"aten.{name}.default", a.int() * 7, torch.tensor(42, dtype=torch.int32))
        case(f"aten.{name}.default", torch.tensor([0, 0, 7, -9], dtype=torch.int8), torch.tensor([0, 5, 0, 6], dtype=torch.int8))
    case("aten.gcd.default", torch.tensor([3 * 2**61, -(2**40) * 9]), torch.tensor([2**60 * 5, 2**33 * 27]))
    case("aten.logspace.default", 0, 2, 5)
    case("aten.logspace.default", -1.5, 2.0, 4, 2.0)
    case("aten.logspace.default", 1, 3, 1, dtype=torch.float64)
    case("aten.frexp.Tensor", torch.cat([normal(20) * 100, torch.tensor([0.0, -0.0, inf, -inf, nan, 1.0, -2.0, 0.5, 1e-40, -1e-45, 3e38, 1.17549435e-38])]), exact=True)
    case("aten.frexp.Tensor", torch.tensor([2.0**k for k in range(-149, 128)] + [-(2.0**k) * (1 - 2.0**-24) for k in range(-120, 128)]), exact=True)
    case("aten.frexp.Tensor", normal(3, 4).half())
    case("aten.mvlgamma.default", normal(3, 4).abs() + 2, 3)
    case("aten.mvlgamma.default", torch.tensor([3, 4]), 2)
    case("aten.rrelu_with_noise_functional.default", normal(3, 4), torch.zeros(3, 4), 0.1, 0.3, False)


def bessel_and_zeta():
    own = torch.Generator().manual_seed(79)
    normal = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=own).to(dtype)
    inf, nan = math.inf, math.nan
    x = torch.cat([normal(20) * 4, torch.tensor([0.0, -0.0, 15.9, 16.1, -40.0, inf, -inf, nan, 1e-30])])
    for name in ("i0", "i0e", "i1", "i1e"):
        case(f"aten.special_{name}.default", x if name.endswith("e") else x[x.isfinite()])  # of inf torch has NaN
        case(f"aten.special_{name}.default", torch.tensor([3, -2, 0]))
    case("aten.special_i0.default", normal(6).bfloat16())
    case("aten.special_erfcx.default", torch.cat([normal(20) * 2, torch.tensor([0.0, 2.49, 2.51, 30.0, 1e20, -9.0, -20.0, inf, -inf, nan])]))
    case("aten.special_log_ndtr.default", torch.cat([normal(20) * 3, torch.tensor([0.0, -40.0, 8.0, inf, -inf, nan])]))
    for n in range(5):
        case("aten.polygamma.default", n, normal(12).abs() * 5 + 0.1)
    case("aten.polygamma.default", 1, torch.tensor([0.3, -0.7, -3.2, 40.0, inf, nan]))
    case("aten.polygamma.default", 2, torch.tensor([3, 1], dtype=torch.int32))
    case("aten.special_zeta.default", normal(12).abs() * 3 + 1.1, normal(12).abs() * 8 + 0.05)
    case("aten.special_zeta.default", torch.tensor([1.0, 0.5, 2.0, 2.0, 3.0, 2.5, nan]), torch.tensor([2.0, 2.0, 0.0, -3.0, -1.25, -1.5, 1.0]))
    case("aten.special_zeta.self_scalar", 2.5, normal(5).abs() + 0.2)
    case("aten.special_zeta.other_scalar", normal(5).abs() + 1.3, 2)


def large_integers():
    i, mixed = torch.int64, whole(2, 5, dtype=torch.int64, low=-9, high=10)
    case("aten.pow.Tensor_Scalar", mixed * 1000003, 9, exact=True)
    case("aten.pow.Tensor_Scalar", mixed, 0, exact=True)
    case("aten.clamp.Tensor", mixed, torch.tensor([-3, 0, -9, 2, 1]), torch.tensor(5), exact=True)
    near = torch.tensor([-1, 0, 2, 4], dtype=i) + 2**53
    case("aten.add.Scalar", near, 2**60 + 1, exact=True)
    case("aten.eq.Scalar", near, 2**53 + 1, exact=True)
    case("aten.full_like.default", near, 2**53 + 1, exact=True)
    case("aten.scatter.value", near, 0, torch.tensor([1, 3]), 2**60 + 1, exact=True)
    case("aten.sum.default", real(3, 7, dtype=torch.float64) * 1e9)
    case("aten.log.default", near.double() + 0.5)
    case("aten.mul.Scalar", torch.tensor([0.25, -1e-10, float("inf"), 0.0]), 1e40)


def volumes_windows_and_repeats():
    volume, line = real(1, 2, 2, 3, 4), real(2, 2, 5)
    for name in ("upsample_nearest", "_upsample_nearest_exact"):
        case(f"aten.{name}3d.vec", volume, None, [2.0, 1.5, 2.0])
        case(f"aten.{name}3d.default", volume, [3, 2, 5], None, 0.7, None)
        case(f"aten.{name}1d.default", line, [7], 1.4)
    for corners in (False, True):
        case("aten.upsample_trilinear3d.vec", volume, None, corners, [2.0, 2.0, 1.5])
        case("aten.upsample_trilinear3d.default", volume, [3, 2, 7], corners)
        case("aten.upsample_linear1d.default", line, [7], corners)
    for name in ("hann", "hamming", "blackman", "bartlett"):
        case(f"aten.{name}_window.default", 9)
        case(f"aten.{name}_window.periodic", 8, False)
        case(f"aten.{name}_window.periodic", 1, True)
    case("aten.hamming_window.periodic_alpha", 8, True, 0.6)
    case("aten.hamming_window.periodic_alpha_beta", 8, False, 0.6, 0.3, dtype=torch.float64)
    case("aten.repeat_interleave.self_int", real(3, 2), 3)
    case("aten.repeat_interleave.self_int", torch.arange(4), 0)
    case("aten.repeat_interleave.self_int", real(3, 2), 2, 1)


def halves_and_far_ends():
    far, near = torch.tensor([1e8, 3e7, 1e30, math.inf, 0.0, -2.0]), torch.tensor([1.0, 0.1, 1.0, 1.0, math.inf, 3.0])
    for weight in (1.0, 0.9, 0.5, -0.75):
        case("aten.lerp.Scalar", far, near, weight)
    case("aten.lerp.Tensor", far, near, torch.tensor([1.0, 0.75, 0.25, 0.5, 0.5, 2.0]))
    for dtype in (torch.bfloat16, torch.float16):
        image = real(2, 3, 4, 5).to(dtype)
        case("aten._native_batch_norm_legit.no_stats", image, None, None, True, 0.1, 1e-5)
        case("aten._native_batch_norm_legit.no_stats", image, real(3), real(3), True, 0.1, 1e-5)
        case("aten.batch_norm.default", image, None, None, None, None, True, 0.1, 1e-5, False)
        case("aten.baddbmm.default", real(4).to(dtype), real(2, 3, 5).to(dtype), real(2, 5, 4).to(dtype), alpha=0.5)
    codes = torch.tensor([[0, 2, 0], [255, 1, 3]], dtype=torch.uint8)
    case("aten.any.default", codes)
    case("aten.any.dim", codes, 0)
    case("aten.all.dim", codes, 1, True)
    case("aten.all.default", codes)


def sampled_volumes():
    image, volume = real(2, 2, 4, 5), real(1, 2, 3, 4, 2)
    places, deep = (torch.randint(-12, 13, shape, generator=generator) / 8 for shape in ((2, 3, 3, 2), (1, 2, 2, 3, 3)))
    for padding in (0, 1, 2):
        for corners in (False, True):
            case("aten.grid_sampler.default", image, places, 2, padding, corners)
            case("aten.grid_sampler.default", volume, deep, 0, padding, corners)
        case("aten.grid_sampler_3d.default", volume, deep, 1, padding, False)
    case("aten.affine_grid_generator.default", real(2, 3, 4), [2, 1, 2, 3, 4], False)
    case("aten.affine_grid_generator.default", real(1, 3, 4), [1, 2, 2, 1, 3], True)
    case("aten.repeat.default", real(2, 3), [0, 2])
    pixels = whole(1, 2, 3, 4, dtype=torch.uint8, low=0, high=256)
    case("aten.upsample_nearest2d.vec", pixels, None, [2.0, 2.0])
    case("aten._upsample_nearest_exact2d.vec", pixels, [5, 3], None)


def logarithms_infinities_and_sums_of_halves():
    powers = torch.tensor([0.0, 1.0, 2.0, 8.0, 1024.0, 10.0, 1000.0, 1e10, 0.125, math.inf, -1.0, math.nan])
    for op in ("aten.log2.default", "aten.log10.default"):
        case(op, powers)
        case(op, powers.to(torch.float16))
        case(op, torch.tensor([1, 8, 1000]))
    for op in ("aten.isposinf.default", "aten.isneginf.default"):
        for dtype in (torch.float32, torch.bfloat16):
            case(op, torch.tensor([math.inf, -math.inf, math.nan, 0.0, 3.0e38], dtype=dtype))
        case(op, torch.tensor([-1, 0, 1]))
    for dtype in (torch.bfloat16, torch.float16):
        half = lambda *shape: real(*shape).to(dtype)
        case("aten.addmv.default", half(6), half(6, 16), half(16), beta=2)
        x, places = half(40), torch.arange(240, 280)
        for op in ("aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor"):
            case(op, x, 0.3)
            case(op, x, torch.tensor(0.3))
            case(op, x, places)
            case(op, torch.tensor(0.3), x)
        case("aten.add.Tensor", x, half(40), alpha=0.3)
        case("aten.rsub.Scalar", x, 0.3, 0.7)
        case("aten.pow.Tensor_Scalar", x.abs(), 0.3)
        case("aten.pow.Scalar", 2.3, x)
        case("aten.softshrink.default", x, 0.3)
        case("aten.hardshrink.default", x, 0.3)
        case("aten.conv_transpose2d.input", half(2, 4, 3, 5), half(4, 6, 2, 2), half(6), [2, 2])


products()
moves()
pointwise()
reductions()
quantization()
packed_products()
decomposed()
selection()
scaled_products()
repeats()
activations()
truths()
fills()
composed()
for title, function, x in torch_quantizations.programs():
    program(title, function, x)
fp8_scales()
constants()
far_ends()
parts()
quantized_inputs()
repeats_of_axes()
of_rankings()
more_of_rankings()
variances_by_axis()
look_ups()
bags()
attention()
along_axes()
convolutions()
pools()
images()
recurrences()
histograms_and_groups()
writes()
spelled()
sums_at_positions()
writes_at_masks()
cells_and_statistics()
resizes_and_continuations()
library()
functions()
arrangements()
scans_and_products()
combinations_at_positions()
diagonals_and_angles()
fourier_transforms()
rests_and_special_functions()
positions_of_pools()
losses()
more_arrangements()
products_and_sums()
quotients_and_mantissas()
bessel_and_zeta()
projections()
short_integers()
quantiles_of_numbers()
variances_of_all()
broadcast_einsums()
large_integers()
volumes_windows_and_repeats()
sampled_volumes()
halves_and_far_ends()
logarithms_infinities_and_sums_of_halves()
