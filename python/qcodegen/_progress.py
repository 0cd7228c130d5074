"""One line that says what a compile is doing: in a terminal, in Jupyter, or not at all."""

import shutil
import sys


class _Terminal:
    def show(self, text):
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write("\r\x1b[K" + text[:width])
        sys.stderr.flush()

    def clear(self):
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class _Notebook:
    def __init__(self, display):
        self._line = display({"text/plain": ""}, raw=True, display_id=True)

    def show(self, text):
        self._line.update({"text/plain": "qcodegen: " + text}, raw=True)

    def clear(self):
        self._line.update({"text/plain": ""}, raw=True)


class _Callback:
    def __init__(self, show):
        self.show = show

    def clear(self):
        pass


def _notebook():
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return _Notebook(display)


def make_progress(wanted):
    """None: where somebody looks. True, False: always, never. A function: it gets the text of each step."""
    if callable(wanted):
        return _Callback(wanted)
    if wanted is False:
        return _Callback(None)
    notebook = _notebook()
    if notebook is not None:
        return notebook
    return _Terminal() if wanted or sys.stderr.isatty() else _Callback(None)
