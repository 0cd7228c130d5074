"""Installs the package into a virtual environment of the test's own, and runs the tests of one part there.

    run.py SOURCE BUILD numpy      needs pip and a network, or a pip that finds nanobind, scikit-build-core and numpy
    run.py SOURCE BUILD torch      needs torch, torchao and transformers too: those of $QCG_TORCH_PYTHON, else those of the
                                   python that runs this, else, with QCG_TORCH_INSTALL=1, pip's (5 GB with CUDA)

Exit status 77: something cannot be had; the last line says what.
"""

import os
import subprocess
import sys
import sysconfig
import time

MOST_DOWNLOAD_S = 240
TOOLS = ["nanobind", "scikit-build-core", "numpy", "ml_dtypes"]
TORCH = ["torch>=2.9", "torchao", "transformers"]


def skip(reason):
    print("skipped: " + reason)
    sys.exit(77)


def run(command, why, most_s):
    began = time.monotonic()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=most_s)
    except subprocess.TimeoutExpired:
        skip(f"{why} takes more than {most_s} s")
    print(f"{why}: {time.monotonic() - began:.1f} s")
    return done


def pip(python, *arguments, most_s=MOST_DOWNLOAD_S):
    return run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments],
               "pip install " + " ".join(os.path.basename(a) for a in arguments if not a.startswith("-")), most_s)


def make_venv(folder):
    """A python in a fresh or an earlier environment."""
    if sys.version_info < (3, 9):
        skip(f"Python {sys.version.split()[0]} is older than 3.9")
    if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
        skip("the headers of Python are missing (apt-get install python3-dev)")
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        made = run([sys.executable, "-m", "venv", folder], "venv", None)
        if made.returncode != 0:
            skip("python3 -m venv fails (apt-get install python3-venv): " + made.stdout.strip().splitlines()[-1])
    got = pip(python, *TOOLS)
    if got.returncode != 0:
        skip("pip cannot install " + ", ".join(TOOLS) + ": " + got.stdout.strip().splitlines()[-1])
    return python


def add_torch(python, folder):
    """Makes torch importable: that of another Python of the same version, or pip's."""
    check = "import torch, torchao, transformers; print(torch.__version__, torchao.__version__, transformers.__version__)"
    if os.environ.get("QCG_TORCH_INSTALL") == "1":
        got = pip(python, *TORCH, most_s=None)
        if got.returncode != 0:
            skip("pip cannot install torch: " + got.stdout.strip().splitlines()[-1])
    else:
        other = os.environ.get("QCG_TORCH_PYTHON", sys.executable)
        paths = subprocess.run([other, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
                               capture_output=True, text=True, check=True).stdout.strip()
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        with open(os.path.join(folder, "lib", version, "site-packages", "torch_of_another.pth"), "w") as file:
            file.write(paths + "\n")
    found = subprocess.run([python, "-c", check], capture_output=True, text=True)
    if found.returncode != 0:
        skip("torch, torchao and transformers cannot be imported (" + found.stderr.strip().splitlines()[-1] +
             "); QCG_TORCH_PYTHON names a python that has them, QCG_TORCH_INSTALL=1 installs them (5 GB)")
    print("torch, torchao, transformers: " + found.stdout.strip())


def install(python, source, build):
    got = pip(python, "--no-build-isolation", "--no-deps", "--force-reinstall", os.path.join(source, "python"),
              f"--config-settings=cmake.define.QCG_PREBUILT={build}", f"--config-settings=build-dir={build}/python/wheel", most_s=None)
    if got.returncode != 0:
        sys.exit(got.stdout + "\nthe package does not build")


def main():
    source, build, part = sys.argv[1:4]
    folder = os.path.join(build, "python", "venv")
    python = make_venv(folder)
    if part == "torch":
        add_torch(python, folder)
    install(python, source, build)
    tests = os.path.join(source, "tests", "python")
    pattern = "test_torch*.py" if part == "torch" else "test_package*.py"
    sys.exit(subprocess.run([python, "-m", "unittest", "discover", "-v", "-s", tests, "-p", pattern, *sys.argv[4:]],
                            cwd=build).returncode)


main()
