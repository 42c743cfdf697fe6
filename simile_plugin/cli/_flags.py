"""argparse's flags of the fields of a dataclass, and the dataclass of what argparse read."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import inspect
import re
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from simile_plugin.files import FILE, SEED, Range, flag_name, option, problem_of

if TYPE_CHECKING:
    from simile_plugin.encoder import RewardEncoder
    from simile_plugin.reward import Scorer

T = TypeVar("T")
METAVARS = {int: "N", float: "X", str: "TEXT"}
# A 95% interval leaves out one of 40; all resamples are held in memory.
RESAMPLES = Range.within(40, 100_000)


file_option = functools.partial(option, metavar="FILE", range=FILE)
folder_option = functools.partial(option, metavar="DIR", range=FILE)


@dataclass
class JsonFlags:
    """The flag of commands that print numbers."""

    json: bool = option("print one JSON object", False)


@dataclass
class DeviceFlags:
    """The flag of commands that run an encoder."""

    device: str = option("where the encoder runs: cpu, cuda, cuda:1", "cpu", metavar="DEV")


@dataclass
class ScoringFlags(DeviceFlags):
    """Flags of commands that score by an encoder or BLEU."""

    encoder: str | None = folder_option(
        "reward encoder: a folder by simile train-encoder, or, for English, default (a small one) "
        "or minilm (all-MiniLM-L6-v2, from its package)",
        None,
    )
    tokenize: str = option("sacreBLEU tokeniser of BLEU", "13a", metavar="TOK")

    def load(self) -> RewardEncoder | None:
        """Load the encoder, if one is given.

        Raises:
            InputError: for a tokeniser, device or encoder that cannot be used.
        """
        from simile_plugin.encoder import load_encoder, usable_device
        from simile_plugin.reward import check_tokenizer

        check_tokenizer(self.tokenize, "--tokenize")
        return load_encoder(self.encoder, usable_device(self.device)) if self.encoder else None

    def scorer(self, **others: Any) -> Scorer:
        """Return what scores by these flags; `others` are further fields of it, as its reward.

        Raises:
            InputError: as `load`, and if the reward lacks an encoder.
        """
        from simile_plugin.reward import Scorer

        return Scorer(encoder=self.load(), tokenize=self.tokenize, **others)


@dataclass
class SimileFlags(ScoringFlags):
    """Flags of commands that have SIMILE among their scores."""

    simile_alpha: float = option(
        "exponent of SIMILE's length penalty (paper: 0.25)", 0.25, range=Range.at_least(0)
    )

    def scorer(self, **others: Any) -> Scorer:
        """Return what scores by these flags, see `ScoringFlags.scorer`."""
        return super().scorer(alpha=self.simile_alpha, **others)


@dataclass
class BootstrapFlags:
    """Flags of commands that draw and resample."""

    seed: int = option("of what is drawn, and the bootstrap", 12345, range=SEED)
    resamples: int = option("bootstrap resamples of the intervals", 1000, range=RESAMPLES)


class OneFile(argparse.Action):
    """Stores the file of a flag, or its pair of files; the flag given twice is refused."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store `values`, once."""
        before = getattr(namespace, self.dest)
        if before is not self.default:
            parser.error(
                f"{option_string}: got {before} and {values}; expected one: of two the first would "
                "be ignored"
            )
        setattr(namespace, self.dest, values)


def add_flags(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup,
    settings: type,
    other_names: Mapping[str, str] | None = None,
    by_preset: Collection[str] = (),
) -> None:
    """Declare a flag for each field of a dataclass; see `simile_plugin.files.option`.

    A field that is no option is no flag.

    other_names: of fields, a second flag for each.
    by_preset: fields whose default is None here, and later that of a preset.
    """
    kinds = get_type_hints(settings)
    groups = {group.title: group for group in parser._action_groups}
    for field in _options(settings):
        title = field.metadata.get("group")
        if title and title not in groups:
            groups[title] = parser.add_argument_group(title)
        names = list(field.metadata.get("names", [flag_name(field.name)]))
        names += [other_names[field.name]] if other_names and field.name in other_names else []
        words = _keywords(field, kinds[field.name], names)
        if field.name in by_preset:
            words["default"] = None
            words["help"] = words["help"].replace("%(default)s", "the preset's")
        (groups[title] if title else parser).add_argument(*names, **words)


def read_flags(args: argparse.Namespace, settings: type[T], **others: Any) -> T:
    """Return the dataclass of the flags that `add_flags` declared, and its other fields."""
    fields = _options(settings)
    values = {field.name: getattr(args, field.name) for field in fields}
    for field in fields:  # argparse makes lists
        if "tuple[" in str(field.type) and values[field.name] is not None:
            values[field.name] = tuple(values[field.name])
    return settings(**values, **others)


def _options(settings: type) -> list[dataclasses.Field[Any]]:
    """Return the fields that are flags; a command's own come before those that it shares."""
    fields = [field for field in dataclasses.fields(settings) if "help" in field.metadata]
    return sorted(fields, key=lambda field: field.name not in inspect.get_annotations(settings))


def _keywords(field: dataclasses.Field[Any], kind: Any, names: list[str]) -> dict[str, Any]:
    """Return what argparse's add_argument takes for a field of this type."""
    known = field.metadata
    required = field.default is field.default_factory is dataclasses.MISSING
    default = field.default_factory() if callable(field.default_factory) else field.default
    words: dict[str, Any] = {"default": None if required else default}
    shown = words["default"] not in (None, "", False, []) and "(default" not in known["help"]
    words["help"] = re.sub(r"%(?!\()", "%%", known["help"]) + " (default %(default)s)" * shown
    if names[0].startswith("-"):
        words |= {"dest": field.name, "required": required}
    optional = isinstance(kind, types.UnionType) or type(None) in get_args(kind)
    if optional:
        kind = next(part for part in get_args(kind) if part is not types.NoneType)
    if kind is bool:
        return words | {"action": argparse.BooleanOptionalAction if optional else "store_true"}
    several = get_origin(kind) in (list, tuple)
    if several and get_origin(kind) is list and names[0].startswith("-"):
        words["action"] = "extend" if "nargs" in known else "append"
    elif several:
        words["nargs"] = len(get_args(kind)) if get_origin(kind) is tuple else "+"
    if known.get("range") is FILE and get_origin(kind) is not list and field.name != "output":
        words["action"] = OneFile
    value = get_args(kind)[0] if several else kind
    words["type"] = converter(field, value)
    if "choices" not in known:
        words["metavar"] = METAVARS[value]
    return words | {name: known[name] for name in ("metavar", "nargs", "choices") if name in known}


def converter(field: dataclasses.Field[Any], kind: type) -> Callable[[str], Any]:
    """Return a function of a flag's text: its value, checked against the field's range."""

    def convert(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = text  # which problem_of refuses
        if problem := problem_of(field, value, text):
            raise argparse.ArgumentTypeError(problem)
        return value

    return convert
