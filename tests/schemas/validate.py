"""Every JSON document that qcodegen prints, and every line of tune.jsonl, is as docs/schemas says.

    validate.py QCODEGEN SOURCE BUILD

Each document is printed by a real command. A field that its schema does not list is an error here; for users the schemas
are open, since a field may be added within a version. A schema that no command used, a document without a schema, and a
document that no command here prints, are errors too. Exit status 77: python3 has no jsonschema.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings

try:
    import jsonschema
except ImportError:
    print("skipped: python3 has no jsonschema (apt-get install python3-jsonschema)")
    sys.exit(77)

warnings.simplefilter("ignore", DeprecationWarning)  # newer versions than Debian's say so of RefResolver
QCODEGEN, SOURCE, BUILD = sys.argv[1:4]
EXAMPLES = os.path.join(SOURCE, "examples")
NOT_PRINTED = {"common", "tune_record"}


def close(schema):
    """The schema with no room for fields that it does not list."""
    if isinstance(schema, list):
        return [close(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: close(value) for key, value in schema.items()}
    if isinstance(out.get("properties"), dict):
        out.setdefault("additionalProperties", False)
    return out


def read_schemas():
    folder = os.path.join(SOURCE, "docs", "schemas")
    out = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            with open(os.path.join(folder, name)) as file:
                schema = json.load(file)
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["$id"] == name, f"{name} has the $id {schema['$id']}"
            out[name] = close(schema)
    return out


class Validator:
    def __init__(self, schemas):
        self.schemas = schemas
        self.used = set()

    def check(self, name, document, told_by):
        schema = self.schemas.get(name + ".json")
        if schema is None:
            sys.exit(f"{told_by}: the document {name} has no docs/schemas/{name}.json")
        resolver = jsonschema.RefResolver(base_uri=name + ".json", referrer=schema, store=self.schemas)
        errors = list(jsonschema.Draft202012Validator(schema, resolver=resolver).iter_errors(document))
        for error in errors:
            print(f"{told_by}: docs/schemas/{name}.json: {error.json_path}: {error.message[:500]}")
        if errors:
            sys.exit(1)
        self.used.add(name)

    def run(self, *arguments, status=0):
        """The document that a command prints, after its check."""
        told_by = "qcodegen " + " ".join(arguments)
        done = subprocess.run([QCODEGEN, *arguments, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != status:
            sys.exit(f"{told_by}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        document = json.loads(done.stdout)
        self.check(document["document"], document, told_by)
        return document

    def check_log(self, program):
        with open(os.path.join(program, "tune.jsonl")) as file:
            lines = file.read().splitlines()
        assert lines, program + " has an empty log"
        for line in lines:
            self.check("tune_record", json.loads(line), program + "/tune.jsonl")


def compile_and_run(v, at):
    mlp, tiny = os.path.join(EXAMPLES, "llama_mlp_int8"), os.path.join(EXAMPLES, "native", "linear_w8.json")
    graph, inputs, expected = (os.path.join(mlp, name) for name in
                               ("graph.pt2", "m5.inputs.safetensors", "m5.expected.safetensors"))
    program = at("mlp.qcg")
    v.run("compile", graph, "-o", program, "--tune=fast", "--m", "1", "--explain")
    v.check_log(program)
    v.run("compile", graph, "-o", at("pinned.qcg"), "--m", "1", "--pin", program)
    v.run("compile", graph, "-o", program, "--m", "1")
    v.run("compile", graph, "-o", at("untuned.qcg"), "--tune=off")
    assert "earlier" in v.run("compile", graph, "-o", at("copied.qcg"), "--tune=off")
    v.check_log(at("copied.qcg"))
    v.run("compile", "one=" + tiny, "two=" + tiny, "-o", at("methods.qcg"), "--tune=off")
    both = "cpu:portable,cpu:avx2"
    v.run("compile", tiny, "--target", both, "-o", at("targets.qcg"), "--tune=off")
    v.check_log(at("targets.qcg"))
    v.run("compile", "one=" + tiny, "two=" + tiny, "--target", both, "-o", at("both.qcg"), "--tune=off")
    for stage in ("graph", "plan"):
        v.run("compile", graph, "--emit=" + stage)
    for path in (graph, program):
        v.run("explain", path)
    for path in (graph, program, at("methods.qcg"), at("targets.qcg"), at("both.qcg")):
        v.run("inspect", path)
    v.run("run", program, "--inputs", inputs)
    v.run("run", program, "--inputs", inputs, "--profile")
    v.run("report", program, "-o", at("report.html"))
    v.run("check", program, "--trials", "1")
    v.run("check", program, "--inputs", inputs, "--expected", expected)
    v.run("log", program)
    v.run("log", program, "--compare", at("pinned.qcg"))
    v.run("bench", program, "--m", "1", "--budget", "0.05", "--against", "onednn")
    v.run("bench", program, "--whole", "--budget", "0.05", "--trace", at("trace.json"))
    v.run("bench", "--compare", program, at("untuned.qcg"), "--budget", "0.05")
    v.run("bench", "--all", "--schemes", "w8", "--shapes", "o", "--m", "1", "--budget", "0.05", "--against", "none")
    v.run("run", at("nowhere.qcg"), "--inputs", inputs, status=3)
    v.run("compile", "--no-such-option", status=2)


def move_a_cache(v, at):
    tiny, there = os.path.join(EXAMPLES, "native", "linear_w8.json"), ("--cache-dir", at("cache"))
    v.run("compile", tiny, "-o", at("tiny.qcg"), "--tune=off", *there)
    v.run("cache", "path", *there)
    v.run("cache", "stats", *there)
    entries = v.run("cache", "ls", *there)["entries"]
    v.run("cache", "show", entries[0]["key"], *there)
    v.run("cache", "verify", *there)
    v.run("cache", "gc", "--max-size", "1G", *there)
    v.run("cache", "export", at("all.qcache"), *there)
    v.run("cache", "clear", *there)
    v.run("cache", "import", at("all.qcache"), *there)


def share_a_cache(v, at):
    if not shutil.which("redis-server"):
        print("not checked: remote_cache (redis-server is missing)")
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", at("")],
                              stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        with open(os.open(at("key"), os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write("0123456789abcdef")
        os.environ["QCG_REMOTE_CACHE_KEY_FILE"] = at("key")
        tiny = os.path.join(EXAMPLES, "native", "linear_w8.json")
        report = v.run("compile", tiny, "-o", at("shared.qcg"), "--tune=off", "--cache-dir", at("home"),
                       "--remote-cache", f"redis://127.0.0.1:{port}/0")
        assert "remote_cache" in report or any("hiredis" in w for w in report["warnings"]), report["warnings"]
    finally:
        server.terminate()
        server.wait()


def main():
    os.environ.setdefault("QCG_CACHE_DIR", os.path.join(BUILD, "test-cache"))
    v = Validator(read_schemas())
    documents = v.run("list", "documents")["rows"]
    for what in ("targets", "schemes", "microkernels", "passes", "ops"):
        v.run("list", what)
    v.run("doctor")
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        compile_and_run(v, at)
        move_a_cache(v, at)
        share_a_cache(v, at)
    names = {row["name"] for row in documents}
    with_schema = {name[:-len(".json")] for name in v.schemas} - NOT_PRINTED
    assert with_schema == names, f"documents and schemas differ: {sorted(with_schema ^ names)}"
    printed = v.used - NOT_PRINTED
    assert printed == names, f"no command of this test prints {sorted(names - printed)}"
    for row in documents:
        text = json.dumps(v.schemas[row["name"] + ".json"])
        assert f'"version": {{"const": {row["version"]}}}' in text, f"{row['name']}: the schema has another version"
    print(f"{len(names)} documents and tune.jsonl are as their schemas say")


main()
