"""Runs a tutorial of docs/tutorials as it is written.

    run.py MARKDOWN SOURCE BUILD      exit status 77: something that it needs is missing; the last line says what

A fence of ```LANGUAGE FILE becomes that file. The fences of ```sh are one script, which bash runs in a fresh folder with
examples/, docs/ and tests/ of the sources and the build directory as build/release; one that begins with `# not run` is
left out. `<!-- needs: redis-server python:torch -->` names programs and modules of Python.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

MOST_S = 900


def read_tutorial(path):
    """The files, by name, the script, and what it needs."""
    with open(path) as file:
        text = file.read()
    files, script = {}, []
    for language, name, body in re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if name:
            files[name] = body
        elif language == "sh" and not body.startswith("# not run"):
            script.append(body)
    needs = re.search(r"<!-- needs: (.*?) -->", text)
    return files, "\n".join(script), needs.group(1).split() if needs else []


def missing(needs):
    """The first of them that is not there, or an empty text."""
    for need in needs:
        module = need.removeprefix("python:")
        if module == need:
            found = shutil.which(need) is not None
        else:
            found = subprocess.run([sys.executable, "-c", "import " + module], stderr=subprocess.DEVNULL).returncode == 0
        if not found:
            return need
    return ""


def environment(build):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    path = [os.path.dirname(sys.executable), os.path.join(build, "cli"), os.environ["PATH"]]
    return {"QCG_CACHE_DIR": os.path.join(build, "test-cache"), **os.environ, "PATH": ":".join(path), "PORT": port}


def main():
    tutorial, source, build = (os.path.abspath(path) for path in sys.argv[1:4])
    files, script, needs = read_tutorial(tutorial)
    if not script:
        sys.exit(f"{tutorial} has no commands")
    need = missing(needs)
    if need:
        print(f"skipped: {need} is missing")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "build"))
        for name in ("examples", "docs", "tests"):
            os.symlink(os.path.join(source, name), os.path.join(folder, name))
        os.symlink(build, os.path.join(folder, "build", "release"))
        for name, body in files.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w") as file:
                file.write(body)
        shell = subprocess.Popen(["bash", "-euxo", "pipefail", "-c", script], cwd=folder, env=environment(build),
                                 stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            status = shell.wait(MOST_S)
        finally:  # and the servers that it started
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    if status != 0:
        sys.exit(f"{tutorial}: exit status {status}")


main()
