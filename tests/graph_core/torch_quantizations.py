"""Programs that quantize at run time what they have computed in bf16 or f16, for make_torch_cases.py: the integers
depend on every rounding between the input and them."""
import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed
import torchao  # registers torch.ops.torchao

decomposed, affine = torch.ops.quantized_decomposed, torch.ops.torchao
i8, u8, e4m3 = torch.int8, torch.uint8, torch.float8_e4m3fn


def per_tensor(choose, low, high, dtype):
    def quantize(x):
        scale, zero = choose(x, low, high, 2.0**-23, dtype)
        return decomposed.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
    return quantize


def per_token(choose):
    def quantize(x):
        scale, zero = choose(x, i8)
        return decomposed.quantize_per_token.default(x, scale, zero, -128, 127, i8)
    return quantize


def blockwise(mapping, size, scale_dtype=torch.float32):
    """Blocks of `size` elements of a row; 0: the whole tensor."""
    def quantize(x):
        block = [1, size] if size else list(x.shape)
        scale, zero = affine.choose_qparams_affine.default(x, mapping, block, i8, -128, 127, 1e-5, scale_dtype, torch.int32)
        return affine.quantize_affine.default(x, block, scale, zero, i8, -128, 127)
    return quantize


def by_hand(x):
    scale = (x.abs().amax(-1, keepdim=True) / 127).clamp(min=1e-5)
    return torch.clamp(torch.round(x / scale), -128, 127).to(i8)


def by_hand_from_f32(x):
    scale = (x.abs().amax(-1, keepdim=True) / 127).clamp(min=1e-5).to(torch.float32)
    return torch.clamp(torch.round(x / scale), -128, 127).to(i8)


def truncated(x):
    lowest = x.amin()
    return ((x - lowest) * (255 / (x.amax() - lowest + 0.01))).to(u8)


def to_float8(x):
    scale = (x.abs().amax(-1, keepdim=True) / 448).clamp(min=1e-5)
    return torch.clamp(x / scale, -448, 448).to(e4m3)


QUANTIZATIONS = {
    "choose_qparams": per_tensor(decomposed.choose_qparams.tensor, -128, 127, i8),
    "choose_qparams u8": per_tensor(decomposed.choose_qparams.tensor, 0, 127, u8),
    "choose_qparams_symmetric": per_tensor(decomposed.choose_qparams_symmetric.tensor, -127, 127, i8),
    "per_token": per_token(decomposed.choose_qparams_per_token.default),
    "per_token_asymmetric": per_token(decomposed._choose_qparams_per_token_asymmetric_impl.default),
    "affine rows": blockwise("SYMMETRIC", 16),
    "affine rows asymmetric": blockwise("ASYMMETRIC", 16),
    "affine tensor": blockwise("ASYMMETRIC", 0),
    "affine groups": blockwise("ASYMMETRIC", 8),
    "affine groups, narrow scale": blockwise("SYMMETRIC_NO_CLIPPING_ERR", 8, None),
    "by hand": by_hand,
    "by hand from f32": by_hand_from_f32,
    "truncated": truncated,
    "float8": to_float8,
}


def given(x):
    return x


def computed(x):
    x = torch.relu(x * 1.3 + x) - x / 7
    return x * torch.rsqrt(x.to(torch.float32).pow(2).mean(-1, keepdim=True) + 1e-5).to(x.dtype) * 0.7


own = torch.Generator().manual_seed(11)
mixed = torch.randn(5, 16, generator=own)
mixed[1] = 1.7
mixed[2] = 0
mixed[3] = torch.arange(-8, 8) / 2
mixed[4] *= 0.01
narrow = torch.randn(2, 16, generator=own) + 3
tiny = torch.tensor([[2.7, -1.1, 0.3, -2.6]]) * 2.0**-14
odd = [tiny, tiny * 2.0**26, torch.zeros(1, 2), torch.full((1, 2), 1.7), torch.full((1, 2), -0.3)]


def programs():
    """Names, functions and inputs."""
    for dtype in (torch.bfloat16, torch.float16):
        for name, quantize in QUANTIZATIONS.items():
            whole = "choose_qparams" in name or "tensor" in name
            tried = [(given, x) for x in (mixed, narrow, *(odd if whole else []))] + [(computed, mixed)]
            for producer, x in tried:
                function = lambda x, q=quantize, p=producer: q(p(x))
                yield f"quantization: {name} of {producer.__name__}", function, x.to(dtype)
