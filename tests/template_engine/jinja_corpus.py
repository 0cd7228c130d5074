#!/usr/bin/env python3
"""Records and checks what jinja2 makes of the template fragments in corpus.json.

The engine in codegen/ must give the same text, or fail in the same way, so the expectations come from jinja2 itself:

    jinja_corpus.py --write    # after adding a fragment: fill in "expected" or "error" of every fragment
    jinja_corpus.py --check    # prove that the recorded ones are what jinja2 gives; exit 77 where jinja2 is missing

A fragment has a name, a template, and optionally a context and includes (name -> template). "error" is one of
undefined, syntax, type, missing.
"""
import json
import os
import pathlib
import subprocess
import sys

CORPUS = pathlib.Path(__file__).with_name("corpus.json")
SKIP = 77


def restart_where_jinja2_is():
    """Run again under the first python3 on PATH that has jinja2 (a virtual environment in front often lacks it)."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        python = os.path.join(folder, "python3")
        if os.environ.get("JINJA_CORPUS_RESTARTED") or not os.access(python, os.X_OK):
            continue
        if subprocess.run([python, "-c", "import jinja2"], capture_output=True).returncode == 0:
            os.execve(python, [python, *sys.argv], {**os.environ, "JINJA_CORPUS_RESTARTED": "1"})
    print("skipped: no python3 on PATH has the module jinja2 (Debian: apt install python3-jinja2)")
    sys.exit(SKIP)


try:
    import jinja2
except ImportError:
    restart_where_jinja2_is()


def render(fragment):
    """{"expected": text} or {"error": kind}."""
    templates = {**fragment.get("includes", {}), "main": fragment["template"]}
    environment = jinja2.Environment(
        block_start_string="<%", block_end_string="%>",
        variable_start_string="<$", variable_end_string="$>",
        comment_start_string="<#", comment_end_string="#>",
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined, loader=jinja2.DictLoader(templates))
    try:
        return {"expected": environment.get_template("main").render(fragment.get("context", {}))}
    except jinja2.TemplateSyntaxError:
        return {"error": "syntax"}
    except SyntaxError:  # jinja2 lets some mistakes through to Python's compiler
        return {"error": "syntax"}
    except jinja2.UndefinedError:
        return {"error": "undefined"}
    except jinja2.TemplateNotFound:
        return {"error": "missing"}
    except (TypeError, ValueError, ArithmeticError, jinja2.TemplateRuntimeError):
        return {"error": "type"}


def outcome(fragment):
    return {key: fragment[key] for key in ("expected", "error") if key in fragment}


def main():
    if sys.argv[1:] not in (["--write"], ["--check"]):
        print(__doc__)
        return 2
    corpus = json.loads(CORPUS.read_text(encoding="utf-8"))
    wrong = 0
    for fragment in corpus:
        now = render(fragment)
        if now != outcome(fragment):
            wrong += 1
            if sys.argv[1] == "--check":
                print(f"{fragment['name']}: recorded {outcome(fragment)}, jinja2 {jinja2.__version__} gives {now}")
        for key in ("expected", "error"):
            fragment.pop(key, None)
        fragment.update(now)
    if sys.argv[1] == "--write":
        CORPUS.write_text(json.dumps(corpus, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{len(corpus)} fragments recorded with jinja2 {jinja2.__version__}, {wrong} changed")
        return 0
    print(f"{len(corpus)} fragments checked against jinja2 {jinja2.__version__}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
