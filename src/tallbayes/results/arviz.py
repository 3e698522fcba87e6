"""Results for ArviZ before 1.0, which has a class of its own."""

from typing import TYPE_CHECKING, Any

from tallbayes.errors import MissingPackageError

if TYPE_CHECKING:
    from xarray import DataTree


def to_arviz(tree: "DataTree") -> Any:
    """Return a result as the installed ArviZ takes it.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`, or one with further groups such as ``log_likelihood``.

    Returns
    -------
    xarray.DataTree or arviz.InferenceData
        The tree itself for ArviZ 1.0 and later; an InferenceData for older versions.
    """
    try:
        import arviz
    except ImportError:
        raise MissingPackageError("to_arviz: ArviZ is not installed: pip install arviz.") from None
    if int(str(arviz.__version__).split(".", maxsplit=1)[0]) >= 1:
        return tree
    groups = {name: node.to_dataset(inherit=True) for name, node in tree.children.items()}
    return arviz.InferenceData(**groups, attrs=dict(tree.attrs), warn_on_custom_groups=False)
