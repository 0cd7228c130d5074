"""Image models of torchvision beside ONNX Runtime and PyTorch: milliseconds of one image with random weights, interleaved.

    python bench/peers_images.py --qcodegen build/release/cli/qcodegen --work build/peers
    python bench/peers_images.py … --models resnet50,swin_t --torch none --rounds 5

Every round starts each contender in a process of its own, one after the other, and the table has the medians over rounds.
All compute in f32, the only float that ONNX Runtime has on CPUs. Needs torch, torchvision, onnx, onnxscript, onnxruntime.
"""
import argparse
import json
import statistics
import subprocess
import sys
import warnings

from peers import TORCH, add_common_options, run_json, set_up_torch
from peers_bert import median_time, time_rounds, time_session

warnings.filterwarnings("ignore")
MODELS = ("resnet50", "densenet121", "regnet_y_800mf", "mobilenet_v3_large", "efficientnet_b0", "shufflenet_v2_x1_0",
          "convnext_tiny", "swin_t")


def make_model(name):
    import torch
    import torchvision
    torch.manual_seed(0)
    return torchvision.models.get_model(name, weights=None).eval()


def example(options):
    import torch
    return torch.randn(options.batch, 3, options.size, options.size, generator=torch.Generator().manual_seed(1))


def model_file(options, name, suffix):
    return options.work / f"{name}-{options.batch}x{options.size}{suffix}"


def prepare(options):
    import torch
    options.work.mkdir(parents=True, exist_ok=True)
    for name in options.models:
        graph, dense = model_file(options, name, ".pt2"), model_file(options, name, ".onnx")
        with torch.no_grad():
            if not graph.exists():
                torch.export.save(torch.export.export(make_model(name), (example(options),)), graph)
            if not dense.exists():
                torch.onnx.export(make_model(name), (example(options),), str(dense), dynamo=True, verbose=False)
        subprocess.run([options.qcodegen, "compile", graph, "-o", graph.with_suffix(".qcg"), f"--tune={options.tune}",
                        "--threads", str(options.threads)], check=True, stdout=subprocess.DEVNULL)


def time_torch(options, mode, name):
    import torch
    set_up_torch(options)
    module, image = make_model(name), example(options)
    run = torch.compile(module, dynamic=False) if mode == "torch compile" else module
    with torch.no_grad():
        return median_time(lambda: run(image))


def time_contender(options, who, name):
    """Seconds of one batch."""
    if who == "qcodegen":
        report = run_json([options.qcodegen, "bench", model_file(options, name, ".qcg"), "--whole", "--threads",
                           options.threads, "--json"])
        return report["phases"][0]["median_us"] * 1e-6
    return run_json([sys.executable, __file__, *sys.argv[1:], "--one", who, "--models", name])


def print_table(options, contenders, results):
    others = contenders[1:]
    print(f"\nf32, {options.batch} x 3 x {options.size} x {options.size}, {options.threads} threads, medians of "
          f"{options.rounds} rounds. Of the others: their time / ours\n")
    print("| model | qcodegen, ms | spread | " + " | ".join(others) + " |\n| --- | --- | --- |" + " --- |" * len(others))
    for name in options.models:
        own = results.get((name, "qcodegen"))
        if not own:
            continue
        middle = statistics.median(own)
        ratios = [f"{statistics.median(times) / middle:.2f}" if (times := results.get((name, who))) else "" for who in others]
        spread = (max(own) - min(own)) / 2 / middle
        print(f"| {name} | {middle * 1e3:.1f} | ±{spread:.0%} | " + " | ".join(ratios) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_common_options(parser)
    parser.add_argument("--batch", type=int, default=1, help="images")
    parser.add_argument("--size", type=int, default=224, help="lines and columns of each")
    parser.add_argument("--models", default=",".join(MODELS), type=lambda text: text.split(","))
    options = parser.parse_args()
    if options.one:
        name = options.models[0]
        if options.one == "onnxruntime":
            return print(json.dumps(time_session(options, model_file(options, name, ".onnx"), example(options))))
        return print(json.dumps(time_torch(options, options.one, name)))

    contenders = ["qcodegen", "onnxruntime"] + [t for t in TORCH if t in options.torch and t != "AOTInductor"]
    prepare(options)
    print_table(options, contenders, time_rounds(options, options.models, contenders, time_contender))


if __name__ == "__main__":
    main()
