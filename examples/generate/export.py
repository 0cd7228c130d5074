"""Trains and exports the language model beside this file: a Llama of three layers whose tokens are the bytes of ASCII.

    python examples/generate/export.py        from the root of the checkout; about five minutes on one core

It reads this project's documentation and writes lm.pt2 (torchao int8 weight-only, f32 activations) and expected.txt,
the 64 bytes that eager PyTorch appends greedily to PROMPT. Needs torch >= 2.9, torchao and transformers.
"""
import pathlib
import sys
import warnings
import zipfile

import torch
from torchao.quantization import Int8WeightOnlyConfig, quantize_
from torchao.utils import unwrap_tensor_subclass
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
PROMPT, COUNT, PLACES = "A kernel is ", 64, 512


def corpus():
    root = HERE.parent.parent
    files = sorted((root / "docs").glob("*.md")) + [root / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING")]
    text = "\n".join(file.read_text() for file in files)
    return torch.tensor(list(text.encode("ascii", "ignore")), dtype=torch.int64)


def train(steps=1600, batch=12, length=128):
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=128, hidden_size=128, intermediate_size=320, num_hidden_layers=3, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=32, max_position_embeddings=PLACES, tie_word_embeddings=True,
                         attn_implementation="sdpa")
    model, text = LlamaForCausalLM(config), corpus()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=0.05)
    for step in range(steps):
        at = torch.randint(len(text) - length - 1, (batch, 1)) + torch.arange(length)
        loss = model(input_ids=text[at], labels=text[at]).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"step {step + 1}: {loss.item():.3f} nats a byte", flush=True)
    return model.eval()


def generate(module):
    """What eager PyTorch appends to PROMPT, through the module that is exported."""
    ids, out = torch.tensor([list(PROMPT.encode())]), []
    position = torch.arange(ids.shape[1])
    while len(out) < COUNT:
        out.append(module(input_ids=ids, cache_position=position)[0, -1].argmax().item())
        ids, position = torch.tensor([[out[-1]]]), position[-1:] + 1
    return bytes(out).decode()


def export(model):
    from export import scrub  # examples/export.py
    quantize_(model, Int8WeightOnlyConfig())
    unwrap_tensor_subclass(model)
    model.generation_config.cache_implementation = "static"
    model.generation_config.use_cache = True
    make = lambda: TorchExportableModuleWithStaticCache(model, batch_size=1, max_cache_len=PLACES)
    tokens = torch.export.Dim("tokens", min=1, max=PLACES - 2)
    example = {"input_ids": torch.arange(7)[None], "cache_position": torch.arange(7)}
    with torch.no_grad():
        program = torch.export.export(make(), (), example, strict=True,
                                      dynamic_shapes={"input_ids": {1: tokens}, "cache_position": {0: tokens}})
        (HERE / "expected.txt").write_text(generate(make()))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    torch.export.save(program, HERE / "lm.pt2")
    scrub(HERE / "lm.pt2", zipfile.ZIP_DEFLATED)  # zeros of caches and JSON: a quarter is left


if __name__ == "__main__":
    export(train())
