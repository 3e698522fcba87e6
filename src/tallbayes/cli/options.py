"""Options of commands: families and priors as text, and numbers that JSON has."""

import ast
import inspect
import math
import re
import tempfile
from pathlib import Path
from typing import Any

from tallbayes import families, priors
from tallbayes.errors import InputError
from tallbayes.families import Family
from tallbayes.priors import Prior, ScalePrior

LINKS = ("probit", "cloglog")
"""Links of Bernoulli that are families of their own on a command line, as `tallbayes warmup` has them."""


def snake_case(name: str) -> str:
    """Return the name of a class as commands have it: student_t for StudentT."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def known_families() -> dict[str, Any]:
    """Return what makes each family, by its name on a command line."""
    found = {}
    for name in families.__all__:
        kind = getattr(families, name)
        if isinstance(kind, type) and kind is not Family:
            found[snake_case(name)] = kind
    return found


def known_priors(kind: type = Prior) -> dict[str, Any]:
    """Return what makes each prior of coefficients, or of another kind, by its name on a command line."""
    kinds = {name: getattr(priors, name) for name in priors.__all__}
    return {
        snake_case(name): k
        for name, k in kinds.items()
        if isinstance(k, type) and issubclass(k, kind) and k not in {Prior, ScalePrior}
    }


def family_of(text: str) -> Family:
    """Return a family from text such as ``bernoulli`` or ``student_t(df=4, scale=10)``."""
    if text in LINKS:
        return families.Bernoulli(text)
    made = _made(text, known_families(), "--family")
    assert isinstance(made, Family)
    return made


def prior_of(texts: list[str]) -> Any:
    """Return priors from texts such as ``normal(0, 2.5)``, for all, or ``C(month)=normal(0, 1)``, for some."""
    named: dict[str, Prior] = {}
    for text in texts:
        found = re.fullmatch(r"(?:(?P<name>.+)=)?\s*(?P<prior>[A-Za-z_]+\s*(?:\([^()]*\))?)\s*", text, re.DOTALL)
        if found is None:
            raise InputError(f"--prior: {text!r} cannot be read; expected e.g. 'C(month)=normal(0, 1)'.")
        made = _made(found["prior"], known_priors(), "--prior")
        if found["name"] is None:
            if len(texts) > 1:
                raise InputError("--prior: one prior for all was given beside others; expected a name for each.")
            return made
        named[found["name"].strip()] = made
    return named or None


def _made(text: str, known: dict[str, Any], option: str) -> Any:
    """Return what a name, or a call with plain values, makes."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        call = node if isinstance(node, ast.Call) else None
        name = ast.unparse(call.func if call else node).lower().replace("-", "_")
        given = [ast.literal_eval(argument) for argument in call.args] if call else []
        named = {str(k.arg): _plain_or_name(k.value) for k in call.keywords} if call else {}
    except InputError:
        raise
    except (SyntaxError, ValueError):
        raise InputError(f"{option}: {text!r} cannot be read; expected e.g. {_example(option)}.") from None
    if name not in known:
        raise InputError(f"{option}: {name!r} is not known; use one of {', '.join(known)}.")
    taken = list(inspect.signature(known[name]).parameters)
    unknown = [key for key in named if key not in taken]
    takes = f"it takes {', '.join(taken)}" if taken else "it takes none"
    if unknown:
        raise InputError(f"{option}: {name} has no option {unknown[0]!r}; {takes}, e.g. {_example(option)}.")
    try:
        return known[name](*given, **named)
    except TypeError:
        raise InputError(
            f"{option}: {text!r} has too many options, too few, or one twice; {takes}, e.g. {_example(option)}."
        ) from None


def _plain_or_name(node: ast.expr) -> Any:
    """Return a plain value; a bare word is text, since quotes are a nuisance in a shell; a call makes a prior."""
    if isinstance(node, ast.Call):
        return _made(ast.unparse(node), {**known_priors(), **known_priors(ScalePrior)}, "--family")
    return node.id if isinstance(node, ast.Name) and node.id != "None" else ast.literal_eval(node)


def _example(option: str) -> str:
    return "'student_t(df=4, scale=10)' or poisson" if option == "--family" else "'normal(0, 2.5)'"


def free_path(path: Path | None, overwrite: bool, option: str = "--out") -> None:
    """Raise, before anything is computed, if an output is there already or has no directory."""
    if path is None:
        return
    if path.exists() and not overwrite:
        raise InputError(f"{option}: {path} is there already. Give another name, or --overwrite to replace it.")
    if not path.parent.is_dir():
        raise InputError(f"{option}: there is no directory {path.parent}. Make it first.")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(
            f"{option}: nothing can be written to {path.parent.resolve()} ({error.strerror}). Choose another directory."
        ) from None


def plain(value: Any) -> Any:
    """Return a value as JSON has it; what is not a finite number is null."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
