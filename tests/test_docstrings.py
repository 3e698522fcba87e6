"""Every public object has a docstring, and its Parameters section names exactly the signature's parameters."""

import inspect
import pkgutil
from types import ModuleType

import pytest
from numpydoc.docscrape import ClassDoc, FunctionDoc

import tallbayes as tb

SUBMODULES = [getattr(tb, name) for name in tb.__all__ if isinstance(getattr(tb, name), ModuleType)]


def public_objects():
    """Yield (name, object) of everything that the package and its public submodules export."""
    for name in tb.__all__:
        yield f"tb.{name}", getattr(tb, name)
    for module in SUBMODULES:
        short = module.__name__.removeprefix("tallbayes.")
        for name in module.__all__:
            yield f"tb.{short}.{name}", getattr(module, name)


RECORDS = {tb.Explanation}
"""Made by the package, not by users: their fields have docstrings of their own."""

OBJECTS = dict(public_objects())
CALLABLE = {name: item for name, item in OBJECTS.items() if callable(item)}


def parameters_of(item):
    """Return the names in the signature; users call neither exceptions nor abstract bases nor records."""
    if item in RECORDS or (inspect.isclass(item) and (issubclass(item, Exception) or inspect.isabstract(item))):
        return []
    return list(inspect.signature(item).parameters)


def documented(item):
    doc = ClassDoc(item) if inspect.isclass(item) else FunctionDoc(item)
    return [parameter.name.lstrip("*") for parameter in doc["Parameters"]]


def test_everything_public_is_found():
    assert {"tb.sample", "tb.Regression", "tb.families.Bernoulli", "tb.errors.InputError"} <= set(CALLABLE)


@pytest.mark.parametrize("name", OBJECTS)
def test_has_a_docstring(name):
    assert inspect.getdoc(OBJECTS[name]), name


@pytest.mark.parametrize("name", CALLABLE)
def test_parameters_agree_with_the_signature(name):
    assert documented(CALLABLE[name]) == parameters_of(CALLABLE[name])


def public_methods():
    for name, item in CALLABLE.items():
        if inspect.isclass(item) and item.__module__.startswith("tallbayes"):
            for method_name, method in vars(item).items():
                if not method_name.startswith("_") and (inspect.isfunction(method) or isinstance(method, property)):
                    yield pytest.param(method, id=f"{name}.{method_name}")


@pytest.mark.parametrize("method", list(public_methods()))
def test_methods_have_docstrings(method):
    assert inspect.getdoc(method)
    if inspect.isfunction(method) and FunctionDoc(method)["Parameters"]:
        names = [name for name in inspect.signature(method).parameters if name != "self"]
        assert documented(method) == names


def test_functions_with_a_parameters_section_agree_everywhere():
    """Also in the rooms that are not public: a section that is there must be right."""
    checked = 0
    for info in pkgutil.walk_packages(tb.__path__, "tallbayes."):
        module = __import__(info.name, fromlist=["_"])
        for name, item in vars(module).items():
            if inspect.isfunction(item) and item.__module__ == info.name and documented(item):
                assert documented(item) == list(inspect.signature(item).parameters), f"{info.name}.{name}"
                checked += 1
    assert checked > 10
