"""BERT-base beside ONNX Runtime, ExecuTorch, PyTorch and AOTInductor: sequences/s with random weights, interleaved, on one machine.

    python bench/peers_bert.py --qcodegen build/release/cli/qcodegen --work build/peers
    python bench/peers_bert.py … --layers 2 --schemes f32,da8w8 --torch none --rounds 5

Every round starts each contender in a process of its own, one after the other, and the table has the medians over rounds:
neighbours of a moment share its machine. Needs torch, torchao and transformers; onnx, onnxscript and onnxruntime for its
column. ONNX Runtime has no bfloat16 on CPUs: its f32 stands beside bf16; its dynamic int8 stands beside da8w8. So do those of
ExecuTorch's XNNPACK, which runs in the Python of `--executorch`: one that has PyPI's executorch, torchao and transformers.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time
import warnings

from peers import TORCH, add_common_options, aoti_package, run_json, set_up_torch, torchao_config

warnings.filterwarnings("ignore")
SCHEMES = ("f32", "bf16", "da8w8")


def make_model(options, scheme):
    import torch
    from transformers import BertConfig, BertModel
    torch.manual_seed(0)
    model = BertModel(BertConfig(num_hidden_layers=options.layers, attn_implementation="sdpa"), add_pooling_layer=False)
    if scheme == "bf16":
        model = model.to(torch.bfloat16)
    if scheme == "da8w8":
        from torchao.quantization import quantize_
        quantize_(model, torchao_config(scheme))
    return model.eval()


class Encoder:
    """The tokens' states of whole sequences, as one tensor."""

    @staticmethod
    def of(model):
        import torch

        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, ids):
                return self.model(input_ids=ids).last_hidden_state

        return Module().eval()


def example(options):
    import torch
    return torch.randint(0, 30000, (options.batch, options.length), generator=torch.Generator().manual_seed(1))


def model_file(options, name):
    return options.work / f"bert{options.layers}-{options.batch}x{options.length}-{name}"


def prepare(options, contenders):
    import subprocess

    import torch
    options.work.mkdir(parents=True, exist_ok=True)
    for scheme in options.schemes:
        graph = model_file(options, f"{scheme}.pt2")
        if not graph.exists():
            model = make_model(options, scheme)
            if scheme == "da8w8":
                from torchao.utils import unwrap_tensor_subclass
                unwrap_tensor_subclass(model)
            with torch.no_grad():
                torch.export.save(torch.export.export(Encoder.of(model), (example(options),)), graph)
        subprocess.run([options.qcodegen, "compile", graph, "-o", graph.with_suffix(".qcg"), f"--tune={options.tune}",
                        "--threads", str(options.threads)], check=True, stdout=subprocess.DEVNULL)
    if "onnxruntime" in contenders:
        export_onnx(options)


def export_onnx(options):
    import torch
    dense = model_file(options, "f32.onnx")
    if not dense.exists():
        torch.onnx.export(Encoder.of(make_model(options, "f32")), (example(options),), str(dense), dynamo=True)
    int8 = model_file(options, "da8w8.onnx")
    if "da8w8" in options.schemes and not int8.exists():
        from onnxruntime.quantization import QuantType, quantize_dynamic
        quantize_dynamic(str(dense), str(int8), weight_type=QuantType.QInt8, per_channel=True)


def median_time(run):
    run(), run()
    times = []
    while len(times) < 7 or sum(times) < 0.5:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def time_session(options, path, value):
    """Seconds that ONNX Runtime takes for a model of one input."""
    import onnxruntime
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: value.numpy()}
    return median_time(lambda: session.run(None, feed))


def time_onnxruntime(options, scheme):
    name = "da8w8" if scheme == "da8w8" else "f32"
    return time_session(options, model_file(options, f"{name}.onnx"), example(options))


def export_executorch(options, scheme, path):
    """The model as ExecuTorch lowers it: what XNNPACK has kernels for is XNNPACK's."""
    import torch
    import torchao.quantization as q
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.granularity import PerAxis
    model = make_model(options, "f32")
    if scheme == "da8w8":  # the spelling that XNNPACK's partitioner knows
        q.quantize_(model, q.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int8, weight_granularity=PerAxis(0)))
    with torch.no_grad():
        exported = torch.export.export(Encoder.of(model), (example(options),))
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    path.write_bytes(lowered.to_executorch().buffer)


def time_executorch(options, scheme):
    from executorch.runtime import Runtime
    name = "da8w8" if scheme == "da8w8" else "f32"
    path = model_file(options, f"{name}.pte")
    if not path.exists():
        export_executorch(options, name, path)
    method = Runtime.get().load_program(path).load_method("forward")
    ids = example(options)
    return median_time(lambda: method.execute([ids]))


def time_torch(options, mode, scheme):
    import torch
    import torch._inductor as inductor
    set_up_torch(options)
    ids = example(options)
    if mode == "AOTInductor":
        run = inductor.aoti_load_package(str(aoti_package(model_file(options, f"{scheme}.pt2"))))
    else:
        module = Encoder.of(make_model(options, scheme))
        run = torch.compile(module, dynamic=False) if mode == "torch compile" else module
    with torch.no_grad():
        return median_time(lambda: run(ids))


def time_contender(options, who, scheme):
    """Seconds of one batch."""
    if who == "qcodegen":
        report = run_json([options.qcodegen, "bench", model_file(options, f"{scheme}.qcg"), "--whole",
                           "--threads", options.threads, "--json"])
        return report["phases"][0]["median_us"] * 1e-6
    python = options.executorch if who == "ExecuTorch" else sys.executable
    return run_json([python, __file__, *sys.argv[1:], "--one", who, "--schemes", scheme])


def time_rounds(options, cases, contenders, time_one):
    """Seconds of each round, by case and contender; a contender that fails has none."""
    results = {}
    for number in range(options.rounds):
        for case in cases:
            for who in contenders:
                print(f"round {number + 1}: {case}, {who}", flush=True)
                try:
                    results.setdefault((case, who), []).append(time_one(options, who, case))
                except RuntimeError as error:
                    print(f"  failed: {error}", flush=True)
    return {key: times for key, times in results.items() if times}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_common_options(parser)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=8, help="sequences")
    parser.add_argument("--length", type=int, default=128, help="tokens of each")
    parser.add_argument("--executorch", type=pathlib.Path, help="a Python that has executorch; without it, it does not take part")
    parser.add_argument("--schemes", default=",".join(SCHEMES), type=lambda text: text.split(","))
    options = parser.parse_args()
    if options.one:
        scheme = options.schemes[0]
        own = {"onnxruntime": time_onnxruntime, "ExecuTorch": time_executorch}.get(options.one)
        return print(json.dumps(own(options, scheme) if own else time_torch(options, options.one, scheme)))

    contenders = ["qcodegen", "onnxruntime"] + (["ExecuTorch"] if options.executorch else []) + [t for t in TORCH if t in options.torch]
    prepare(options, contenders)
    results = time_rounds(options, options.schemes, contenders, time_contender)
    print(f"\nBERT, {options.layers} layers of 768, {options.batch} x {options.length} tokens, {options.threads} threads, "
          f"medians of {options.rounds} rounds\n\n| scheme | who | sequences/s | spread | qcodegen is |\n"
          "| --- | --- | --- | --- | --- |")
    for (scheme, who), times in results.items():
        middle, own = statistics.median(times), statistics.median(results.get((scheme, "qcodegen"), [float("nan")]))
        print(f"| {scheme} | {who} | {options.batch / middle:.1f} | ±{(max(times) - min(times)) / 2 / middle:.0%} | "
              f"{'' if who == 'qcodegen' else f'{middle / own:.2f} x as fast'} |")


if __name__ == "__main__":
    main()
