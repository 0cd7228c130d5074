"""Runs the code of docs/python.md: each fence by itself, in a folder with tiny.json."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def run_fences(kind):
    """Runs the fences of ```kind and returns their number. The message of a failure has the fence."""
    with open(os.path.join(SOURCE, "docs", "python.md")) as file:
        fences = re.findall(rf"^```{kind}\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
    for fence in fences:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(os.path.join(SOURCE, "examples", "native", "mlp_f32.json"), os.path.join(folder, "tiny.json"))
            done = subprocess.run([sys.executable, "-c", fence], cwd=folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
            assert done.returncode == 0, fence + "\n" + done.stdout
    return len(fences)
