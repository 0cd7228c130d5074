"""compile() and explain(): what the command line does, on models that Python holds."""

import os
import re
import shutil
import sys
import tempfile

from . import _core
from ._errors import BadInputError, IoError, UsageError
from ._progress import make_progress

Program = _core.Program

_LISTS = {"weights": list, "m": list, "disabled_passes": set}
_OWN = {"input", "output", "env_cxx"}  # options of the core that the functions here set
_MOST_THREADS = 4096


def _cache_dir(cache):
    """The folder of the cache: as the command line chooses it, or the caller's."""
    if cache is False:
        return ""
    if cache is not True:
        return os.fspath(cache)
    own = os.environ.get("QCG_CACHE_DIR")
    shared = os.environ.get("XDG_CACHE_HOME", "")
    home = os.environ.get("HOME") or os.path.expanduser("~")
    return own or os.path.join(shared if shared.startswith("/") else os.path.join(home, ".cache"), "qcodegen")


def core_options(*, cache=True, weights=(), **options):
    """CompileOptions of compile()'s keywords."""
    core = _core.CompileOptions()
    core.cache_dir = _cache_dir(cache)
    core.env_cxx = os.environ.get("QCG_CXX", "")
    core.remote_cache = os.environ.get("QCG_REMOTE_CACHE", "")
    core.remote_key_file = os.environ.get("QCG_REMOTE_CACHE_KEY_FILE", "")
    core.weights = [os.fspath(weights)] if isinstance(weights, (str, os.PathLike)) else [os.fspath(w) for w in weights]
    known = {name for name in dir(core) if not name.startswith("_")} - _OWN
    for name, value in options.items():
        if name not in known:
            raise UsageError(f"there is no option '{name}'", name, "options are: " + ", ".join(sorted(known)))
        if name in ("threads", "jobs") and not 0 <= value <= _MOST_THREADS:
            raise UsageError(f"is {value}", name, f"give a number from 0 to {_MOST_THREADS}")
        if name in _LISTS and isinstance(value, (str, int)):
            value = [value]
        setattr(core, name, _LISTS[name](value) if name in _LISTS else os.fspath(value) if name == "pin" else value)
    return core


def _is_path(model):
    return isinstance(model, (str, os.PathLike))


def refuse_inputs(model, **given):
    """What says how a module is exported means nothing for what is exported already."""
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{model} takes no {name}", name, "a torch.nn.Module takes it, and is exported with it")


def refuse_weights(core):
    """A model in memory has its weights."""
    if core.weights:
        raise UsageError("only the path of a graph takes weights", "weights",
                         "load them into the module before it is exported or compiled, or compile the path of a .pt2")


def resolve_model(model, args=None, kwargs=None, dynamic_shapes=None):
    """(path, None) or (None, Export): what the compiler reads."""
    if _is_path(model):
        refuse_inputs("the path of a graph", args=args, kwargs=kwargs, dynamic_shapes=dynamic_shapes)
        return os.fspath(model), None
    if "torch" not in sys.modules:
        raise UsageError(f"a {type(model).__name__} is no model", "model",
                         "give a path, an ExportedProgram or a torch.nn.Module")
    from . import _export

    return None, _export.to_core(_export.exported(model, args, kwargs, dynamic_shapes))


def compile_model(options, model, progress=None, **export):
    """Writes the program to options.output."""
    path, exported = resolve_model(model, **export)
    if path is not None:
        options.input = path
    else:
        refuse_weights(options)
    line = make_progress(progress)
    try:
        _core.compile(options, exported, line.show)
    finally:
        line.clear()


def load(path, *, threads=0, huge_pages=False, verify=False, target=""):
    """Loads a program that was compiled before, from its directory.

    threads     that its calls use, including the caller; 0: as many as the CPUs that this process may use
    huge_pages  copies the weights to huge pages, which is faster and takes memory; else the file is mapped
    verify      also verifies the checksum of the weights, which takes about 1 s per GB
    target      of a program for several: 'cpu:avx2', or 'cpu'; default: the best that this machine can run

    Raises UnsupportedError where this machine cannot run it, BadInputError where it is damaged, IoError where a file
    cannot be read.

    A program directory is code: load only what you would also execute.
    """
    return Program(os.fspath(path), threads=threads, huge_pages=huge_pages, verify=verify, target=target)


def compile(model, out=None, *, args=None, kwargs=None, dynamic_shapes=None, threads=0, progress=None, **options):
    """Compiles a model and loads the program.

    model           an ExportedProgram of torch.export; a torch.nn.Module, which is exported in eval() with `args`,
                    `kwargs` and `dynamic_shapes` as torch.export.export takes them; the path of a .pt2, of its JSON or
                    of native JSON; or a dict of these by name: the methods of one program
    out             the program directory, NAME.qcg; default: a folder that is gone once the program is loaded
    threads         to tune for and to run on; 0: as many as the CPUs that this process may use
    progress        a function that gets the text of each step; True or False; default: a line where stderr is a terminal
                    or a notebook

    Further options are those of `qcodegen compile`, which has their defaults:

    tune            'fast', 'full' or 'off'
    target          'cpu' is the best target of this host
    weights         safetensors files or folders, or 'random:SEED', for a path whose graph has none
    m               row counts to tune at; only their ranges get kernels
    pin             a tune log or a program whose winners are replayed
    retune          takes kernels from the cache, but times everything again
    verify          'program' or 'kernels'
    dequant         'exact' or 'rounded'
    int4_packing    'auto', 'avx512' or 'avx2'
    jobs, cxx       compiler processes at a time; the compiler
    cache           True, False, or the folder of the cache; remote_cache, remote_key_file: the one that a team shares
    disabled_passes, emulate_precision_casts

    program.report is what the compile did, found and measured.
    Raises an Error: its `place` names the operator, weight or file, its `help` the remedy.
    """
    export = {"args": args, "kwargs": kwargs, "dynamic_shapes": dynamic_shapes}
    core = core_options(threads=threads, **options)
    folder = None
    if out is None:
        folder = tempfile.mkdtemp(prefix="qcodegen-")
        out = os.path.join(folder, "model.qcg")
    core.output = os.fspath(out)
    try:
        if isinstance(model, dict):
            refuse_inputs("a dict of models", **export)
            _compile_methods(core, model, progress)
        else:
            compile_model(core, model, progress, **export)
        return load(out, threads=threads)
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)  # what is loaded stays mapped


def _compile_methods(core, models, progress):
    """Each method as a program of its own, in a place that disappears; then all of them as one."""
    for name in models:
        if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9_]{1,64}", name):
            raise BadInputError("is no name of a method", str(name), "give 1 to 64 letters, digits and underscores")
        if sum(other.upper() == name.upper() for other in models if isinstance(other, str)) > 1:
            raise BadInputError("is the name of two methods", name,
                                "give each method a name of its own, also in upper case, which macros of C are in")
    output = core.output
    beside = os.path.dirname(os.path.abspath(output))
    try:
        temporary = tempfile.TemporaryDirectory(prefix=".qcodegen-", dir=beside)
    except OSError as error:
        raise IoError(f"cannot hold the program: {error.strerror}", beside,
                      "give a folder that exists and is writable") from None
    with temporary as folder:
        programs = []
        for name, model in models.items():
            core.output = os.path.join(folder, name + ".qcg")
            compile_model(core, model, progress)
            programs.append((name, core.output))
        _core.combine(programs, output)


def explain_text(model, args=None, kwargs=None, dynamic_shapes=None, **options):
    """Which passes fire on a graph and which steps its program has."""
    core = core_options(**options)
    path, exported = resolve_model(model, args, kwargs, dynamic_shapes)
    if path is not None:
        core.input = path
    else:
        refuse_weights(core)
    return _core.explain(core, exported)
