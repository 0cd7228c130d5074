"""Tensors on a device: calls in a process whose driver is tests/cuda_program/host_device.cpp (device_calls.py)."""

import os
import subprocess
import sys
import tempfile
import unittest

TEXT = """symbol m in [1, 64]
graph(%x: f32[m, 4], %y: f32[m, 4]) {
  %z = aten.mul.Tensor(%x, %y) : f32[m, 4]
  return %z
}
"""


class Device(unittest.TestCase):
    def test_calls_on_the_host_device(self):
        driver = os.path.join(os.getcwd(), "tests", "host_device")
        if not os.path.exists(os.path.join(driver, "libcuda.so.1")):
            self.skipTest("the stand-in for the driver is not built: the tests of cuda_program are not there")
        with tempfile.TemporaryDirectory() as folder:
            graph, log = os.path.join(folder, "mul.qir"), os.path.join(folder, "log")
            with open(graph, "w") as file:
                file.write(TEXT)
            for name, target in (("device", "cuda:sm_80"), ("cpu", "cpu")):  # the package would load the program, too
                made = subprocess.run(["cli/qcodegen", "compile", graph, "--target", target, "--tune=off", "-o",
                                       os.path.join(folder, name + ".qcg")], capture_output=True, text=True)
                if "error[Toolchain]" in made.stderr:
                    self.skipTest("CUDA cannot be compiled here: " + made.stderr)
                self.assertEqual(made.returncode, 0, made.stderr)
            env = dict(os.environ, LD_LIBRARY_PATH=driver, QCG_HOST_DEVICE_LOG=log)
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "device_calls.py")
            ran = subprocess.run([sys.executable, script, folder, log], env=env, capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
