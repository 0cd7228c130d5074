"""The exceptions that qcodegen raises."""


class Error(Exception):
    """What went wrong, as `qcodegen` itself prints it.

    code   the kind of error: 'BadInput', 'Unsupported', 'Toolchain', …
    place  where it is: a path of the graph's JSON, a file, the name of a tensor; may be empty
    help   what to do about it; may be empty
    """

    code = "Internal"

    def __init__(self, message, place="", help="", code=None):
        super().__init__(message)
        self.message, self.place, self.help = message, place, help
        if code is not None:
            self.code = code

    def __str__(self):
        place = f"{self.place}: " if self.place else ""
        remedy = f"\nhelp: {self.help}" if self.help else ""
        return f"{place}{self.message}{remedy}"

    def __reduce__(self):
        return type(self), (self.message, self.place, self.help, self.code)


class BadInputError(Error, ValueError):
    """A file, a tensor or an argument is wrong or damaged."""

    code = "BadInput"


class UnsupportedError(Error, NotImplementedError):
    """It is valid, but qcodegen or this machine has nothing for it."""

    code = "Unsupported"


class ToolchainError(Error):
    """There is no usable C++ compiler, or it failed."""

    code = "Toolchain"


class CacheCorruptError(Error):
    """An entry of the cache is damaged."""

    code = "CacheCorrupt"


class IoError(Error, OSError):
    """A file cannot be read or written, or memory cannot be had."""

    code = "Io"

    def __init__(self, message, place="", help="", code=None):
        Error.__init__(self, message, place, help, code)


class UsageError(Error, TypeError):
    """An argument is missing, unknown or not one of its words."""

    code = "Usage"


class InterruptedError(Error):
    """The compile was cancelled; nothing was written."""

    code = "Interrupted"


class InternalError(Error):
    """A bug in qcodegen."""

    code = "Internal"


_CLASSES = {
    kind.code: kind
    for kind in (BadInputError, UnsupportedError, ToolchainError, CacheCorruptError, IoError, UsageError,
                 InterruptedError, InternalError)
}


def make_error(code, place, message, help):
    return _CLASSES.get(code, Error)(message, place, help, code)
