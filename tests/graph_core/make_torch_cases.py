#!/usr/bin/env python3
"""Writes torch_cases.txt: one small graph per op, its inputs, and what eager torch computes for them.

    python3 make_torch_cases.py > torch_cases.txt      (torch 2.13, torchao 0.18)
"""
import math

import torch
import torchao  # registers torch.ops.torchao

DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.uint8: "u8",
          torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.bool: "bool"}
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


def case(op, *args, exact=False, **kwargs):
    namespace, name, overload = op.split(".")
    function = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    inputs = []

    def render(v):
        if isinstance(v, torch.Tensor):
            inputs.append(v.clone())
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
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    print(f"case {op}{' exact' if exact else ''}")
    signature = ", ".join(f"%i{k}: {type_of(t)}" for k, t in enumerate(inputs))
    left = ", ".join(f"%o{k}" for k in range(len(outputs)))
    print(f"graph({signature}) {{")
    print(f"  {left} = {op}({', '.join(rendered)}) : {', '.join(type_of(t) for t in outputs)}")
    print(f"  return {left}\n}}")
    for t in inputs:
        print("in", values_of(t))
    for t in outputs:
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


products()
moves()
pointwise()
reductions()
quantization()
packed_products()
