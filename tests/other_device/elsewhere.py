"""A device that is not the CPU, for machines without one: "elsewhere".

Its tensors hold CPU tensors, which do the work, so that results can be compared with the CPU's. As
on a GPU, an operation on tensors of both devices fails, so does numpy(), and whatever asks for the
type of the device finds another one than "cpu". What is particular to CUDA it does not show.

Import this in a process of its own: torch has room for one such device, and keeps it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils import backend_registration
from torch.utils._python_dispatch import return_and_correct_aliasing

NAME = "elsewhere"
aten = torch.ops.aten
# What takes tensors of both devices on a GPU, too.
COPIES = {aten._to_copy.default, aten.copy_.default}
INDEXED = {
    aten.index.Tensor,
    aten._unsafe_index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
}
# Lengths, the second argument or result, stay on the CPU.
PACKED = {aten._pack_padded_sequence.default, aten._pad_packed_sequence.default}


class Elsewhere(Tensor):
    """A tensor of the device.

    Args:
        held: the CPU tensor with its values.
    """

    @staticmethod
    def __new__(cls, held: Tensor) -> "Elsewhere":
        return Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(NAME, 0),
        )

    def __init__(self, held: Tensor) -> None:
        self.held = held

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Elsewhere({self.held})"

    def tolist(self) -> Any:
        # torch has none for tensors made in Python.
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return compute(func, args, kwargs or {})


def compute(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Do an operation on the tensors held, if it is one that a GPU could do."""
    given = pytree.tree_leaves((args, kwargs))
    to = kwargs.get("device")
    kind = None if to is None else torch.device(to).type
    if kind == NAME or any(isinstance(x, Elsewhere) for x in given):
        check(func, args, given)
    inner_args, inner_kwargs = pytree.tree_map_only(Elsewhere, lambda x: x.held, (args, kwargs))
    if kind == NAME:
        inner_kwargs["device"] = torch.device("cpu")
    result = func(*inner_args, **inner_kwargs)
    if kind == "cpu":
        return result
    if func is aten.copy_.default:
        return args[0]
    if func in PACKED:
        return Elsewhere(result[0]), result[1]
    wrapped = pytree.tree_map_only(Tensor, Elsewhere, result)
    return return_and_correct_aliasing(func, args, kwargs, wrapped)


def check(func: Any, args: tuple[Any, ...], given: list[Any]) -> None:
    """Refuse tensors and generators of the CPU; its single values go with any."""
    if func in COPIES | PACKED:
        return
    if func in INDEXED:  # places on the CPU will do, but not values
        there = isinstance(args[0], Elsewhere)
        if not there and any(isinstance(places, Elsewhere) for places in args[1]):
            raise RuntimeError(f"{func}: got places on the device in a tensor of the CPU")
        given = list(args[2:]) if there else []
    for x in given:
        if isinstance(x, torch._C.Generator) and address(x) not in GENERATORS:
            raise RuntimeError(f"{func}: got a generator of the CPU")
        if isinstance(x, Tensor) and not isinstance(x, Elsewhere) and x.dim() > 0:
            raise RuntimeError(
                f"{func}: expected all tensors on one device, found cpu {tuple(x.shape)}"
            )


def address(generator: torch._C.Generator) -> int:
    """What torch hands on of a generator."""
    return int(generator._cdata)  # type: ignore[attr-defined]


class Generator(torch.Generator):
    """A generator that may be asked for on the device."""

    def __new__(cls, device: torch.device | str = "cpu") -> "Generator":
        generator = super().__new__(cls)
        if torch.device(device).type == NAME:
            GENERATORS.add(address(generator))
        return generator


GENERATORS: set[int] = set()
setattr(torch, "Generator", Generator)  # noqa: B010


class Backend(backend_registration._DummyBackendModule):
    """What torch asks of a device's module."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]


backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=Backend())
LIBRARY = torch.library.Library("aten", "IMPL")


def kernel(func: Any) -> Callable[..., Any]:
    """What creates tensors, and so is asked for without any of the device."""
    return lambda *args, **kwargs: compute(func, args, kwargs)


for name, func in (
    ("empty.memory_format", aten.empty.memory_format),
    ("empty_strided", aten.empty_strided.default),
    ("copy_", aten.copy_.default),
    ("arange", aten.arange.default),  # these would make an empty tensor, and resize it
    ("arange.start", aten.arange.start),
    ("arange.start_step", aten.arange.start_step),
):
    LIBRARY.impl(name, kernel(func), "PrivateUse1")


def on_the_cpu(func: Any) -> Callable[..., Any]:
    """An operation, and its gradient, for which torch has kernels of its own on each device."""

    def there_and_back(*args: Any) -> Any:
        result = func(*pytree.tree_map_only(Tensor, Tensor.cpu, args))
        return pytree.tree_map_only(Tensor, lambda x: x.to(NAME), result)

    return there_and_back


LIBRARY.impl("lstm.input", on_the_cpu(aten.lstm.input), "AutogradPrivateUse1")
LIBRARY.impl("lstm.data", on_the_cpu(aten.lstm.data), "AutogradPrivateUse1")
LIBRARY.impl("lstm_cell", on_the_cpu(aten.lstm_cell.default), "AutogradPrivateUse1")

# Mixed precision: nothing is cast by itself, what asks whether it is on finds that it is.
FALLBACKS = torch.library.Library("_", "IMPL")
FALLBACKS.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
