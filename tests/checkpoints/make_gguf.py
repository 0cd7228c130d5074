#!/usr/bin/env python3
"""Writes gguf.gguf and gguf_gpt_oss.gguf with the library gguf (PyPI), and what that library dequantizes them to: *.expected.safetensors.

The numbers of K-quants and of IQ types are random bytes: the library reads these types and does not write them.
"""
import numpy as np
import gguf
from gguf.quants import dequantize, quantize
from safetensors.numpy import save_file

HEADS, KV_HEADS, K = 2, 1, 256
rng = np.random.default_rng(7)
expected = {}
writer = gguf.GGUFWriter("gguf.gguf", "llama")
writer.add_head_count(HEADS)
writer.add_head_count_kv(KV_HEADS)


def put_back(rows, heads):
    """Rows of rotary pairs (0, 1), (2, 3), … as Hugging Face has them: (0, half), (1, half + 1), …"""
    head = rows.shape[0] // heads
    return rows.reshape(heads, head // 2, 2, -1).transpose(0, 2, 1, 3).reshape(rows.shape)


def random_blocks(kind, n):
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (n, K // block, size), dtype=np.uint8)
    scales = (rng.random((n, K // block, 2)) * 0.01 + 0.001).astype(np.float16).view(np.uint8)
    if kind == gguf.GGMLQuantizationType.NVFP4:  # any scales of e4m3 without sign, also what would be NaN
        raw[..., :4] &= 0x7F
        return raw.reshape(n, -1)
    # f16 d, or d and dmin.
    first, last = {
        "Q2_K": (80, 84), "Q3_K": (108, 110), "Q4_K": (0, 4), "Q5_K": (0, 4), "Q6_K": (208, 210),
        "IQ4_NL": (0, 2), "IQ4_XS": (0, 2),
    }[kind.name]
    raw[..., first:last] = scales[..., : last - first]
    return raw.reshape(n, -1)


def add(name, hugging_face, kind, n, heads=0):
    Q = gguf.GGMLQuantizationType
    if kind.name.endswith("_K") or kind.name.startswith("IQ") or kind == Q.NVFP4:
        data = random_blocks(kind, n)
    else:
        data = quantize(rng.standard_normal((n, K)).astype(np.float32) * 0.1, kind)
    writer.add_tensor(name, data, raw_dtype=kind)
    numbers = dequantize(data, kind).astype(np.float32)
    expected[hugging_face] = np.ascontiguousarray(put_back(numbers, heads) if heads else numbers)


Q = gguf.GGMLQuantizationType
add("token_embd.weight", "model.embed_tokens.weight", Q.F16, 8)
add("blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight", Q.Q4_0, 16, HEADS)
add("blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj.weight", Q.Q4_K, 8, KV_HEADS)
add("blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight", Q.Q8_0, 8)
add("blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight", Q.Q4_1, 12)
add("blk.0.ffn_gate.weight", "model.layers.0.mlp.gate_proj.weight", Q.Q4_K, 12)
add("blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight", Q.Q6_K, 12)
add("blk.0.ffn_up.weight", "model.layers.0.mlp.up_proj.weight", Q.BF16, 12)
add("blk.1.ffn_up.weight", "model.layers.1.mlp.up_proj.weight", Q.F32, 4)
writer.add_tensor("blk.1.ffn_down.weight", rng.integers(0, 256, (2, 98 * K // 256), dtype=np.uint8), raw_dtype=Q.IQ3_XXS)
add("blk.2.attn_q.weight", "model.layers.2.self_attn.q_proj.weight", Q.Q5_0, 16, HEADS)
add("blk.2.attn_k.weight", "model.layers.2.self_attn.k_proj.weight", Q.Q5_1, 8, KV_HEADS)
add("blk.2.attn_v.weight", "model.layers.2.self_attn.v_proj.weight", Q.Q2_K, 8)
add("blk.2.attn_output.weight", "model.layers.2.self_attn.o_proj.weight", Q.Q3_K, 12)
add("blk.2.ffn_gate.weight", "model.layers.2.mlp.gate_proj.weight", Q.Q5_K, 12)
add("blk.2.ffn_up.weight", "model.layers.2.mlp.up_proj.weight", Q.IQ4_NL, 12)
add("blk.2.ffn_down.weight", "model.layers.2.mlp.down_proj.weight", Q.IQ4_XS, 12)
add("blk.6.ffn_gate.weight", "model.layers.6.mlp.gate_proj.weight", Q.TQ1_0, 12)
add("blk.6.ffn_up.weight", "model.layers.6.mlp.up_proj.weight", Q.TQ2_0, 12)


def experts(name, hugging_face, kinds, n):
    """Matrices [2, n, K] of two experts, of several parts joined as Hugging Face has them."""
    numbers = []
    for part, kind in zip(name, kinds):
        data = random_blocks(kind, 2 * n) if kind.name.endswith("_K") else quantize(rng.standard_normal((2 * n, K)).astype(np.float32) * 0.1, kind)
        numbers.append(dequantize(data, kind).astype(np.float32).reshape(2, n, K))
        writer.add_tensor(part, data.reshape(2, n, -1), raw_dtype=kind)
    expected[hugging_face] = np.ascontiguousarray(np.concatenate(numbers, axis=1))


experts(["blk.3.ffn_gate_exps.weight", "blk.3.ffn_up_exps.weight"], "model.layers.3.mlp.experts.gate_up_proj", [Q.Q4_0, Q.Q4_0], 6)
experts(["blk.3.ffn_down_exps.weight"], "model.layers.3.mlp.experts.down_proj", [Q.Q4_K], 4)
experts(["blk.4.ffn_gate_exps.weight", "blk.4.ffn_up_exps.weight"], "model.layers.4.mlp.experts.gate_up_proj", [Q.BF16, Q.BF16], 2)
experts(["blk.5.ffn_gate_exps.weight", "blk.5.ffn_up_exps.weight"], "model.layers.5.mlp.experts.gate_up_proj", [Q.Q4_0, Q.Q8_0], 2)
add("blk.8.ffn_gate.weight", "model.layers.8.mlp.gate_proj.weight", Q.MXFP4, 12)
add("blk.8.ffn_up.weight", "model.layers.8.mlp.up_proj.weight", Q.NVFP4, 12)
add("blk.8.ffn_down.weight", "model.layers.8.mlp.down_proj.weight", Q.NVFP4, 12)
writer.add_tensor("blk.8.ffn_down.scale", np.array([0.5], dtype=np.float32))
expected["model.layers.8.mlp.down_proj.weight"] *= np.float32(0.5)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
save_file(expected, "gguf.expected.safetensors")

# gpt-oss: matrices of gates and ups of 3 experts, which Hugging Face has as [K, 2 I] of columns in turn.
EXPERTS, I, H = 3, 24, 64
alternating = {}
writer = gguf.GGUFWriter("gguf_gpt_oss.gguf", "gpt-oss")
halves, biases = [], []
for part in ("gate", "up"):
    data = quantize(rng.standard_normal((EXPERTS * I, H)).astype(np.float32) * 0.1, Q.MXFP4)
    writer.add_tensor(f"blk.0.ffn_{part}_exps.weight", data.reshape(EXPERTS, I, -1), raw_dtype=Q.MXFP4)
    halves.append(dequantize(data, Q.MXFP4).reshape(EXPERTS, I, H))
    biases.append(rng.standard_normal((EXPERTS, I)).astype(np.float32))
    writer.add_tensor(f"blk.0.ffn_{part}_exps.bias", biases[-1])
    halves.append(rng.standard_normal((EXPERTS, I, H)).astype(np.float32))
    writer.add_tensor(f"blk.1.ffn_{part}_exps.weight", halves[-1])
experts_of = "model.layers.{}.mlp.experts."
for layer in (0, 1):
    columns = np.stack([halves[layer], halves[layer + 2]], axis=2).reshape(EXPERTS, 2 * I, H)
    alternating[experts_of.format(layer) + "gate_up_proj"] = np.ascontiguousarray(columns.transpose(0, 2, 1))
alternating[experts_of.format(0) + "gate_up_proj_bias"] = np.ascontiguousarray(np.stack(biases, axis=2).reshape(EXPERTS, 2 * I))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
save_file(alternating, "gguf_gpt_oss.expected.safetensors")

# Cut into two files.
writer = gguf.GGUFWriter("gguf_split.gguf", "llama", split_max_tensors=2)
writer.add_head_count(HEADS)
writer.add_head_count_kv(KV_HEADS)
for layer in range(3):
    writer.add_tensor(f"blk.{layer}.ffn_up.weight", np.full((2, 32), layer + 1, dtype=np.float32))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
