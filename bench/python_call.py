"""What a call from Python costs beyond the same call from C: a program of 8 additions, on one thread.

    python bench/python_call.py BUILD          # a build directory with runtime/libqcodegen_runtime.so; qcodegen is installed

Prints µs per call: the fastest of 300 batches of 200 calls each, which other processes disturb least.
"""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import qcodegen

GRAPH = """graph(%x: f32[8]) {
  %y = aten.add.Tensor(%x, %x) : f32[8]
  return %y
}
"""

CALLER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "qcodegen.h"

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

int main(int argc, char** argv) {
  qcg_program* program;
  qcg_context* context;
  qcg_context_options options = {.threads = 1};
  if (argc != 2 || qcg_program_load(argv[1], NULL, &program) || qcg_context_create(program, &options, &context)) abort();
  float x[8] = {0}, y[8];
  int64_t shape[1] = {8};
  qcg_dltensor in = {x, {1, 0}, 1, {2, 32, 1}, shape, NULL, 0}, out = {y, {1, 0}, 1, {2, 32, 1}, shape, NULL, 0};
  double best = 1e30;
  for (int batch = 0; batch < 300; ++batch) {
    const double begin = now_us();
    for (int i = 0; i < 200; ++i)
      if (qcg_run(context, &in, 1, &out, 1, NULL)) abort();
    const double us = (now_us() - begin) / 200;
    if (us < best) best = us;
  }
  printf("%.3f\n", best);
  return 0;
}
"""


def best_us(call):
    best = float("inf")
    for _ in range(300):
        begin = time.perf_counter()
        for _ in range(200):
            call()
        best = min(best, time.perf_counter() - begin)
    return best / 200 * 1e6


def c_us(build, folder, program):
    source = os.path.join(folder, "caller.c")
    with open(source, "w") as file:
        file.write(CALLER)
    runtime = os.path.join(build, "runtime")
    header = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "runtime")
    caller = os.path.join(folder, "caller")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-I", header, source, "-o", caller, "-L", runtime,
                    "-lqcodegen_runtime", "-Wl,-rpath," + os.path.abspath(runtime)], check=True)
    return float(subprocess.run([caller, program], capture_output=True, text=True, check=True).stdout)


def measure(build):
    """µs per call, by who calls."""
    with tempfile.TemporaryDirectory() as folder:
        graph = os.path.join(folder, "tiny.qir")
        with open(graph, "w") as file:
            file.write(GRAPH)
        path = os.path.join(folder, "tiny.qcg")
        program = qcodegen.compile(graph, path, tune="off", threads=1)
        x, out = np.zeros(8, np.float32), np.zeros(8, np.float32)
        times = {"C": c_us(build, folder, path), "numpy": best_us(lambda: program(x)),
                 "numpy, out=": best_us(lambda: program(x, out=out))}
        try:
            import torch
        except ImportError:
            return times
        x, out = torch.zeros(8), torch.zeros(8)
        return times | {"torch": best_us(lambda: program(x)), "torch, out=": best_us(lambda: program(x, out=out))}


if __name__ == "__main__":
    measured = measure(sys.argv[1])
    for caller, us in measured.items():
        print(f"{caller:12} {us:6.2f} µs   beyond C {us - measured['C']:6.2f} µs")
