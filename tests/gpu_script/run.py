"""scripts/gpu without a device: its arguments, its plan, its budget of time, and what it says where a step cannot run.

A stub of nvidia-smi stands for the device, stubs of qcodegen and ctest for what runs on it.

    python3 tests/gpu_script/run.py SOURCE_DIR [QCODEGEN]
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1])
QCODEGEN = Path(sys.argv[2]) if len(sys.argv) > 2 else None
STEPS = ["build", "exact", "linears", "merges", "llama"]


class GpuScript(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.dir = Path(self.folder.name)
        (self.dir / "bin").mkdir()
        (self.dir / "tree" / "cli").mkdir(parents=True)

    def stub(self, path, text):
        path = self.dir / path
        path.write_text("#!/bin/bash\n" + text)
        path.chmod(0o755)

    def device(self, capability="9.0"):
        self.stub("bin/nvidia-smi", f'echo "NVIDIA H200, {capability}"\n')

    def gpu(self, *arguments):
        environment = dict(os.environ, PATH=f"{self.dir}/bin:{os.environ['PATH']}")
        return subprocess.run([SOURCE / "scripts" / "gpu", *map(str, arguments)], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)

    def on_stubs(self, *arguments):
        results = self.dir / "results"
        done = self.gpu("--build", self.dir / "tree", "--results", results, *arguments)
        report = results / "gpu_nvidia_h200.md"
        return done, report.read_text() if report.exists() else ""

    def test_plan(self):
        done = self.gpu("--dry-run", "--results", self.dir / "results")
        self.assertEqual(done.returncode, 0, done.stdout)
        budgets = re.findall(r"^== (\w+) \((\d+) s\)", done.stdout, re.MULTILINE)
        self.assertEqual([name for name, _ in budgets], STEPS)
        self.assertLessEqual(sum(int(seconds) for _, seconds in budgets) + 20, 1500)
        self.assertIn("ctest --test-dir build/gpu -L gpu", done.stdout)
        self.assertNotIn(str(SOURCE), done.stdout)
        self.assertFalse((self.dir / "results").exists())

    def test_plan_of_some_steps(self):
        done = self.gpu("--dry-run", "--steps", "exact,merges")
        self.assertEqual(re.findall(r"^== (\w+)", done.stdout, re.MULTILINE), ["exact", "merges"])

    def test_usage(self):
        for arguments, message in [(["--seconds", "1501"], "25 to 1500"), (["--seconds", "ten"], "25 to 1500"),
                                   (["--steps", "exact,all"], "no step 'all'"), (["--build", "/none"], "there is no"),
                                   (["--model", "/none"], "no file"), (["--fast"], "unknown argument"),
                                   (["--steps"], "needs a value")]:
            done = self.gpu(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(message, done.stdout)
        self.assertEqual(self.gpu("--help").returncode, 0)

    def test_no_device(self):
        self.stub("bin/nvidia-smi", 'echo "couldn\'t communicate with the NVIDIA driver"; exit 9\n')
        done, report = self.on_stubs_with_tool("exit 0\n")
        self.assertEqual(done.returncode, 3)
        self.assertIn("finds no device: couldn't communicate", done.stdout)
        self.assertEqual(report, "")
        self.device("10.0")
        done, _ = self.on_stubs()
        self.assertEqual(done.returncode, 3)
        self.assertIn("compute capability 10.0", done.stdout)

    def on_stubs_with_tool(self, text, *arguments):
        self.stub("tree/cli/qcodegen", text)
        return self.on_stubs(*arguments)

    def test_all_steps_are_done(self):
        self.device()
        self.stub("bin/ctest", 'echo "100% tests passed"\n')
        (self.dir / "model.pt2").touch()
        won = '{"status":"won","median_s":1.5e-05,"m":1}'
        done, report = self.on_stubs_with_tool(
            f"""while [[ $# -gt 0 ]]; do [[ $1 == -o ]] && mkdir -p "$2" && echo '{won}' > "$2/tune.jsonl"; shift; done\n""",
            "--model", self.dir / "model.pt2")
        self.assertEqual(done.returncode, 0, done.stdout)
        for name in STEPS[1:]:
            self.assertRegex(report, rf"\| {name} \| done \|")
        for name in ["llama_mlp_int8", "model"]:
            self.assertEqual((self.dir / "results" / "gpu_nvidia_h200" / f"{name}.jsonl").read_text().strip(), won)
        self.assertIn("cuda:sm_90a", report)

    def test_what_was_not_done_is_said(self):
        self.device("8.6")
        self.stub("bin/ctest", 'echo "cuda_device .......***Skipped"\n')
        modeled = '{"status":"won","median_s":0.0,"m":1}'
        done, report = self.on_stubs_with_tool(f"""case $1 in
bench) echo "error: no kernel of the device was right"; exit 3 ;;
esac
while [[ $# -gt 0 ]]; do [[ $1 == -o ]] && mkdir -p "$2" && echo '{modeled}' > "$2/tune.jsonl"; shift; done\n""")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(report, r"\| exact \| tests were skipped")
        self.assertRegex(report, r"\| linears \| failed with status 3 \|")
        self.assertRegex(report, r"\| merges \| no winners to pin")
        self.assertRegex(report, r"\| llama \| could not run: name an exported decoder")
        self.assertIn("no kernel of the device was right", report)
        self.assertIn("cuda:sm_80", report)
        self.assertFalse((self.dir / "results" / "gpu_nvidia_h200").exists())

    def test_it_ends_in_time(self):
        self.device()
        self.stub("bin/ctest", "trap '' TERM\nwhile true; do sleep 1; done\n")
        began = time.monotonic()
        done, report = self.on_stubs_with_tool("sleep 1000\n", "--seconds", "25")
        self.assertLess(time.monotonic() - began, 25)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(report, r"\| exact \| cut after \d s \|")
        self.assertRegex(report, r"\| linears \| not run: no time is left \|")

    @unittest.skipUnless(QCODEGEN, "no qcodegen is given")
    def test_the_real_program_says_what_it_cannot_do(self):
        self.device()
        (self.dir / "tree" / "cli" / "qcodegen").symlink_to(QCODEGEN)
        done, report = self.on_stubs("--steps", "linears")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot be timed: there is no NVIDIA driver here", report)
        self.assertNotIn(str(SOURCE), report)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
