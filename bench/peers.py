"""Whole models beside llama.cpp, PyTorch and AOTInductor: tokens/s of a Llama with random weights, interleaved, on one machine.

    python bench/peers.py --qcodegen build/release/cli/qcodegen --work build/peers                # the small shape: minutes
    python bench/peers.py … --shape 1b --schemes bf16,w8,w4,da8w4 --llama-bench PATH --rounds 5   # Llama-3.2-1B's shape

Every round starts each contender in a process of its own, one after the other, and the table has the medians over rounds:
neighbours of a moment share its machine. Needs torch, torchao and transformers; gguf for llama.cpp's files. llama-bench is
built from the source of PyPI's llama-cpp-python:

    pip download --no-deps --no-binary :all: llama-cpp-python && tar xf llama_cpp_python-*.tar.gz
    cmake -S llama_cpp_python-*/vendor/llama.cpp -B llama -DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DCMAKE_BUILD_TYPE=Release
    cmake --build llama --target llama-bench

Quantized llama.cpp models have the format with the same bits: Q8_0 for 8, Q4_0 for 4. It quantizes activations to 8 bits for
both, so it stands beside w4 and da8w4, w8 and da8w8.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import warnings

warnings.filterwarnings("ignore")
SHAPES = {"small": dict(layers=4, hidden=512, ffn=1408, heads=8, kv=4, vocabulary=8192),
          "1b": dict(layers=16, hidden=2048, ffn=8192, heads=32, kv=8, vocabulary=128256)}
HEAD = 64
GGUF = {"bf16": "BF16", "w8": "Q8_0", "da8w8": "Q8_0", "w4": "Q4_0", "da8w4": "Q4_0"}
TORCH = ("torch eager", "torch compile", "AOTInductor")


def torchao_config(scheme):
    import torch
    import torchao.quantization as q
    from torchao.quantization.granularity import PerGroup
    return {"w8": lambda: q.Int8WeightOnlyConfig(),
            "da8w8": lambda: q.Int8DynamicActivationInt8WeightConfig(),
            "w4": lambda: q.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)),
            "da8w4": lambda: q.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4,
                                                                     weight_granularity=PerGroup(32))}[scheme]()


def make_model(shape, scheme, context):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=shape["vocabulary"], hidden_size=shape["hidden"], intermediate_size=shape["ffn"],
                         num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"], head_dim=HEAD,
                         num_key_value_heads=shape["kv"], max_position_embeddings=context, attn_implementation="sdpa",
                         tie_word_embeddings=scheme == "bf16")
    model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    if scheme != "bf16":
        from torchao.quantization import quantize_
        quantize_(model, torchao_config(scheme))
    return model


def export(shape, scheme, context, path):
    """What qcodegen compiles: the model as transformers exports it, with a static cache."""
    import torch
    from torchao.utils import unwrap_tensor_subclass
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache
    model = make_model(shape, scheme, context)
    if scheme != "bf16":
        unwrap_tensor_subclass(model)
    model.generation_config.cache_implementation, model.generation_config.use_cache = "static", True

    class LastToken(torch.nn.Module):
        """Logits of the last token alone, as llama-bench computes them."""

        def __init__(self):
            super().__init__()
            self.inner = TorchExportableModuleWithStaticCache(model, batch_size=1, max_cache_len=context)

        def forward(self, input_ids, cache_position):
            return self.inner(input_ids=input_ids, cache_position=cache_position)[:, -1:]

    module = LastToken()
    tokens = torch.export.Dim("tokens", min=1, max=context - 2)
    example = {"input_ids": torch.arange(7)[None], "cache_position": torch.arange(7)}
    with torch.no_grad():
        program = torch.export.export(module.eval(), (), example, strict=True,
                                      dynamic_shapes={"input_ids": {1: tokens}, "cache_position": {0: tokens}})
    torch.export.save(program, path)


def write_gguf(shape, kind, context, path):
    """Random bytes with sane scales: speed does not depend on the weights' values."""
    import gguf
    import numpy as np
    dtype, random = gguf.GGMLQuantizationType[kind], np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")

    def add(name, n, k):
        if kind == "BF16":
            bits = (random.standard_normal((n, k), dtype=np.float32) * 0.02).view(np.uint32) >> 16
            data = bits.astype(np.uint16).view(np.uint8).reshape(n, 2 * k)
        else:  # blocks of 32: an f16 scale and the codes
            blocks = random.integers(0, 256, size=(n, k // 32, {"Q8_0": 34, "Q4_0": 18}[kind]), dtype=np.uint8)
            scales = np.full((n, k // 32), 0.02 / (64 if kind == "Q8_0" else 4), dtype=np.float16)
            blocks[:, :, :2] = scales.view(np.uint8).reshape(n, k // 32, 2)
            data = blocks.reshape(n, -1)
        writer.add_tensor(name, data, raw_dtype=dtype)

    hidden, ffn, heads, kv = shape["hidden"], shape["ffn"], shape["heads"] * HEAD, shape["kv"] * HEAD
    writer.add_vocab_size(shape["vocabulary"])
    writer.add_context_length(context)
    writer.add_embedding_length(hidden)
    writer.add_block_count(shape["layers"])
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["kv"])
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(500000.0)
    writer.add_tokenizer_model("none")
    ones = np.ones(hidden, dtype=np.float32)
    add("token_embd.weight", shape["vocabulary"], hidden)
    writer.add_tensor("output_norm.weight", ones)
    for layer in range(shape["layers"]):
        name = f"blk.{layer}."
        writer.add_tensor(name + "attn_norm.weight", ones)
        writer.add_tensor(name + "ffn_norm.weight", ones)
        for part, n, k in (("attn_q", heads, hidden), ("attn_k", kv, hidden), ("attn_v", kv, hidden),
                           ("attn_output", hidden, heads), ("ffn_gate", ffn, hidden), ("ffn_up", ffn, hidden),
                           ("ffn_down", hidden, ffn)):
            add(f"{name}{part}.weight", n, k)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def set_up_torch(options):
    import torch
    import torch._inductor.config as inductor
    torch.set_num_threads(options.threads)
    inductor.freezing, inductor.max_autotune, inductor.max_autotune_gemm_backends = True, True, "CPP,ATEN"


def aoti_package(graph):
    """What AOTInductor makes of an exported graph: compiled at the first call."""
    import torch
    import torch._inductor as inductor
    import torchao.quantization  # noqa: F401  (the operators of quantized graphs)
    package = graph.with_suffix(".aoti.pt2")
    if not package.exists():
        with torch.no_grad():
            inductor.aoti_compile_and_package(torch.export.load(graph), package_path=str(package))
    return package


def time_aoti(options, scheme):
    """The graph that qcodegen compiles, with the cache as the package's state."""
    import torch
    import torch._inductor as inductor
    set_up_torch(options)
    package = aoti_package(program_file(options, scheme).with_suffix(".pt2"))
    run = inductor.aoti_load_package(str(package))

    def timed(ids, places):
        begin = time.perf_counter()
        run(input_ids=ids, cache_position=places)
        return time.perf_counter() - begin

    with torch.no_grad():
        prompt = [timed(torch.arange(options.prompt)[None] % 100, torch.arange(options.prompt)) for _ in range(4)]
        decode = [timed(torch.ones(1, 1, dtype=torch.int64), torch.tensor([options.prompt + i])) for i in range(options.decode)]
    return {"prompt": options.prompt / statistics.median(prompt[1:]), "decode": 1 / statistics.median(decode[3:])}


def time_torch(options, mode, scheme):
    """Of one process: {"prompt": tokens/s, "decode": tokens/s}."""
    import torch
    from transformers import StaticCache
    if mode == "AOTInductor":
        return time_aoti(options, scheme)
    set_up_torch(options)
    model = make_model(SHAPES[options.shape], scheme, options.context)
    cache = StaticCache(config=model.config, max_cache_len=options.context)

    def step(ids, places):
        return model(input_ids=ids, past_key_values=cache, position_ids=places[None], cache_position=places,
                     use_cache=True).logits[:, -1].argmax(-1)

    run = torch.compile(step, dynamic=False) if mode == "torch compile" else step
    prompt, decode = [], []
    with torch.no_grad():
        for _ in range(4):  # the first one compiles
            cache.reset()
            begin = time.perf_counter()
            token = run(torch.arange(options.prompt)[None] % 100, torch.arange(options.prompt))
            prompt.append(time.perf_counter() - begin)
        for i in range(options.decode):
            begin = time.perf_counter()
            token = run(token[None], torch.tensor([options.prompt + i]))
            decode.append(time.perf_counter() - begin)
    return {"prompt": options.prompt / statistics.median(prompt[1:]), "decode": 1 / statistics.median(decode[3:])}


def program_file(options, scheme):
    return options.work / f"{options.shape}-{options.context}-{scheme}.qcg"


def run_json(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1][:200])
    return json.loads(done.stdout)


def time_contender(options, who, scheme):
    if who == "qcodegen":
        report = run_json([options.qcodegen, "bench", program_file(options, scheme), "--prompt", options.prompt,
                           "--decode", options.decode, "--threads", options.threads, "--json"])
        out = {phase["phase"]: phase["tokens_per_s"] for phase in report["phases"]}
        shares = {phase["phase"] + " share": phase["share"] for phase in report["phases"]}
        return out | shares | {"read GB/s": report["ceilings"]["read_gbps"]}
    if who == "llama.cpp":  # -d: tokens that are in the cache before those that are timed
        rows = run_json([options.llama_bench, "-m", options.work / f"{options.shape}-{GGUF[scheme]}.gguf", "-t", options.threads,
                         "-p", options.prompt, "-n", 0, "-r", 3, "-o", "json"])
        rows += run_json([options.llama_bench, "-m", options.work / f"{options.shape}-{GGUF[scheme]}.gguf", "-t", options.threads,
                          "-p", 0, "-n", options.decode, "-d", options.prompt, "-r", 1, "-o", "json"])
        return {"decode" if row["n_gen"] > 0 else "prompt": row["avg_ts"] for row in rows}
    return run_json([sys.executable, __file__, *sys.argv[1:], "--one", who, "--schemes", scheme])


def prepare(options, contenders):
    options.work.mkdir(parents=True, exist_ok=True)
    shape = SHAPES[options.shape]
    for scheme in options.schemes:
        graph = program_file(options, scheme).with_suffix(".pt2")
        if not graph.exists():
            export(shape, scheme, options.context, graph)
        print(f"compile {graph.name}", flush=True)
        subprocess.run([options.qcodegen, "compile", graph, "-o", graph.with_suffix(".qcg"), f"--tune={options.tune}",
                        "--threads", str(options.threads)], check=True, stdout=subprocess.DEVNULL)
        gguf_file = options.work / f"{options.shape}-{GGUF[scheme]}.gguf"
        if "llama.cpp" in contenders and not gguf_file.exists():
            write_gguf(shape, GGUF[scheme], options.context, gguf_file)


def print_table(options, contenders, results):
    print(f"\nLlama {options.shape}: {SHAPES[options.shape]}, prompt {options.prompt}, then {options.decode} tokens one by one, "
          f"{options.threads} threads, medians of {options.rounds} rounds, tokens/s\n")
    print("| scheme | who | prompt | decode | share of the floor | read GB/s |\n| --- | --- | --- | --- | --- | --- |")
    for scheme in options.schemes:
        for who in contenders:
            rounds = results[scheme, who]
            if isinstance(rounds, str):
                print(f"| {scheme} | {who} | {rounds} | | | |")
                continue
            middle = lambda key: statistics.median(r[key] for r in rounds) if key in rounds[0] else None
            number = lambda key, form: "" if middle(key) is None else form.format(middle(key))
            shares = " · ".join(filter(None, (number("prompt share", "{:.0%}"), number("decode share", "{:.0%}"))))
            print(f"| {scheme} | {who} | {number('prompt', '{:.1f}')} | {number('decode', '{:.2f}')} | {shares} | "
                  f"{number('read GB/s', '{:.1f}')} |")


def add_common_options(parser):
    parser.add_argument("--qcodegen", type=pathlib.Path, required=True, help="the built qcodegen")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/peers"), help="models and programs stay here")
    parser.add_argument("--torch", default=",".join(TORCH), help="of torch eager, torch compile, AOTInductor; none: none of them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--tune", default="fast", choices=("off", "fast", "full"))
    parser.add_argument("--one", help=argparse.SUPPRESS)  # what a child process times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_common_options(parser)
    parser.add_argument("--llama-bench", type=pathlib.Path, help="without it, llama.cpp does not take part")
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--schemes", default="bf16,w8,w4,da8w8,da8w4", type=lambda text: text.split(","))
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--decode", type=int, default=32)
    parser.add_argument("--context", type=int, default=1024)
    options = parser.parse_args()
    if options.one:
        return print(json.dumps(time_torch(options, options.one, options.schemes[0])))

    contenders = ["qcodegen"] + (["llama.cpp"] if options.llama_bench else []) + [t for t in TORCH if t in options.torch]
    prepare(options, contenders)
    results = {(scheme, who): [] for scheme in options.schemes for who in contenders}
    for number in range(options.rounds):
        for scheme in options.schemes:
            for who in contenders:
                if isinstance(results[scheme, who], str):
                    continue  # it has failed
                print(f"round {number + 1}: {scheme}, {who}", flush=True)
                try:
                    results[scheme, who].append(time_contender(options, who, scheme))
                except RuntimeError as error:
                    results[scheme, who] = f"failed: {error}"
    print_table(options, contenders, results)


if __name__ == "__main__":
    main()
