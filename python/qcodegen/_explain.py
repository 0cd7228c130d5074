"""explain(): what would become of a model, without compiling it."""

from ._compile import explain_text


def explain(model, *args, **options):
    """What qcodegen makes of a model.

    An ExportedProgram or a path: which passes fire on the graph and which steps its program has, as text.
    A torch.nn.Module with inputs: how torch.compile(model, backend="qcodegen") cuts it into parts, and which operator
    broke which part. Print the result. A torch whose torch.compile has no isolate_recompiles forgets what the process
    has compiled.
    """
    if args:
        from .backend import explain_parts

        return explain_parts(model, *args, **options)
    return explain_text(model, **options)
