"""Code of a user's own, named on the command line as `module:function`: found and called."""

import difflib
import importlib
import inspect
import os
import re
import sys
import traceback
from typing import Any, List

from train.errors import ConfigError, TrainError
from train.report_text import visible

MOST_WORDS = 500
"""Characters of another's message that are shown."""

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_HALF = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:|:[^\W\d]\w*(\.[^\W\d]\w*)*")


def is_named(text: str) -> bool:
    """It is written as `module:function`, and no file of that name is there."""
    return _NAME.fullmatch(text) is not None and not os.path.exists(text)


def check_half(option: str, name: str, returns: str) -> None:
    """Refuse a name of which a half is missing: `mypkg.code:`, `:function`.

    Raises:
        ConfigError: it is such a name, and no file is called like that.
    """
    if _HALF.fullmatch(name) is not None and not os.path.exists(name):
        missing = "the function after the colon" if name.endswith(":") else "the module before it"
        raise ConfigError(
            f"{option}: {name!r} lacks {missing}; write module:function, and the function returns "
            f"{returns}"
        )


def find(option: str, name: str, returns: str) -> Any:
    """The function that `module:function` names; modules of the current folder are found, too.

    Args:
        option: where it was named, for messages.
        name: module:function.
        returns: what the function returns, for messages: "a data set".

    Raises:
        ConfigError: there is no such module or function, or importing it raised something.
    """
    check_half(option, name, returns)
    module_name, _, function_name = name.partition(":")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name + ".").startswith(error.name + "."):
            raise ConfigError(
                f"{option} {name}: there is no module {error.name!r}, neither in this folder "
                f"({folder}) nor among the installed ones; write it as it is imported: "
                f"mypkg.code:{function_name} for mypkg/code.py"
            ) from error
        raise ConfigError(
            f"{option} {name}: {module_name} imports {error.name!r}, which is not installed here"
            f"{place(error)}"
        ) from error
    except (Exception, SystemExit) as error:  # a script without a main guard may exit
        raise ConfigError(
            f"{option} {name}: importing {module_name} raised {told(error)}{place(error)}"
        ) from error
    found: Any = module
    for part in function_name.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, _own_callables(found, module_name), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"{option} {name}: {module_name} has no {part!r}{hint}")
        found = getattr(found, part)
    if not callable(found):
        raise ConfigError(
            f"{option} {name}: {function_name} is {kind(found)}, and not a function that returns "
            f"{returns}"
        )
    if inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found):
        raise ConfigError(
            f"{option} {name}: {function_name} is written with `async def`, and is not awaited "
            f"here; expected a plain function that returns {returns}"
        )
    return found


def call(option: str, name: str, returns: str, *arguments: Any) -> Any:
    """What the function of that name returns.

    Raises:
        ConfigError: see `find`; or it raised something.
    """
    function = find(option, name, returns)
    try:
        return function(*arguments)
    except TrainError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{option} {name}: calling it raised {told(error)}{place(error)}"
        ) from error


def _own_callables(holder: Any, module: str) -> List[str]:
    """What a module, or a class of it, has of its own: not what it imports."""
    return [
        name
        for name, value in list(vars(holder).items())
        if callable(value) and getattr(value, "__module__", None) == module
    ]


def told(error: BaseException) -> str:
    """Kind and message of another's error in one line, whatever the message holds."""
    try:
        words = " ".join(str(error).split())
    except Exception:  # its __str__ fails, too
        words = "(a message that can't be made)"
    return visible(f"{type(error).__name__}: {words}".rstrip(": ")[:MOST_WORDS])


def kind(value: Any) -> str:
    """The name of its type, with an article."""
    name = type(value).__name__
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def place(error: BaseException) -> str:
    """File and line where it was raised, in parentheses."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
