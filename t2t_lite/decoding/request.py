"""What is asked of a text beside its translation: one object for every front door.

A field is declared once, in `TextOptions`. Python's keywords, the fields of a request over HTTP,
the flags of `t2t-decoder` and their help come from there. What a field does, its stage knows: see
decoding/stages/. `Options` repeats the names for type checkers; a test holds the two equal.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypedDict, TypeVar, cast

from t2t_lite.errors import UsageError, did_you_mean, quoted
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.settings import Config, setting, settings_of
from t2t_lite.terms.term_list import (
    FORBID_HELP,
    MOST_FORBIDDEN,
    TERMS_HELP,
    TermMapping,
    checked_forms,
    checked_words,
    read_forms,
    read_words,
)
from t2t_lite.text.tags.kinds import HTML, KINDS

T = TypeVar("T")
C = TypeVar("C", bound=type)

_KEY = "asked"
_LONGEST_NAME = 100  # characters of a language or of another name


class Options(TypedDict, total=False):
    """The fields of `TextOptions`, as keywords."""

    source_language: str
    target_language: str
    pivot: str
    markup: str
    terms: TermMapping
    forbid: Sequence[str]


class Asked(NamedTuple):
    """What a field is, beside its setting.

    Attributes:
        checked: returns a value from Python or JSON, of a field with a name, as the field holds
            it; None: a text.
        read: reads the file that a flag names; None: the flag has the value itself.
        most: how many characters a request over HTTP may give; 0: no limit of its own.
        of_outputs: whether it says something of outputs alone: with a pivot, of the second step.
        example: a value, with which tests go through all front doors.
    """

    checked: Callable[[Any, str], Any] | None
    read: Callable[[str], Any] | None
    most: int
    of_outputs: bool
    example: Any


def asked(
    default: T,
    help: str,
    *,
    choices: Iterable[str] = (),
    checked: Callable[[Any, str], Any] | None = None,
    read: Callable[[str], Any] | None = None,
    most: int = _LONGEST_NAME,
    of_outputs: bool = False,
    example: Any = "",
) -> T:
    """Declares a field of `TextOptions`; arguments as in `Setting` and `Asked`."""
    told: Any = setting(default, help, choices=choices)
    metadata = {**told.metadata, _KEY: Asked(checked, read, most, of_outputs, example)}
    field: Any = dataclasses.field(default_factory=lambda: default, metadata=metadata)
    return cast(T, field)


_NO_FORMS: TermMapping = {}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TextOptions(Config):
    """What is asked of some texts; a field at its default asks nothing.

    Raises:
        UsageError: a value is not allowed.
    """

    source_language: str = asked(
        "",
        "The inputs' language, if a model knows several (default: that of the decode hparams).",
        example="fr",
    )
    target_language: str = asked(
        "",
        "The outputs' language, if a model knows several (default: that of the decode hparams).",
        example="de",
    )
    pivot: str = asked(
        "",
        "Language between source and target, such as en: the model translates into it, and then "
        "from it. For pairs of languages that the model has not learned together.",
        example="en",
    )
    markup: str = asked(
        "",
        "Markup of the lines, which is kept: placeholders ({name}, %s, URLs, e-mail addresses, "
        "paths, emoji, `code`) in plain text; or, with html or xml, also tags and entities.",
        choices=("", *KINDS),
        example=HTML,
    )
    terms: Mapping[str, str | Sequence[str]] = asked(
        _NO_FORMS,
        TERMS_HELP,
        checked=checked_forms,
        read=read_forms,
        most=0,
        of_outputs=True,
        example={"file": "Datei"},
    )
    forbid: Sequence[str] = asked(
        (),
        FORBID_HELP,
        checked=checked_words,
        read=read_words,
        most=MOST_FORBIDDEN,
        of_outputs=True,
        example=["Ordner"],
    )

    def __post_init__(self) -> None:
        for name, found in settings_of(type(self)).items():
            value, reader = getattr(self, name), FIELDS[name].checked
            value = reader(value, name) if reader else found.checked(value)
            object.__setattr__(self, name, value)

    @property
    def are_html(self) -> bool:
        """Whether the texts are HTML, which is translated block by block."""
        return self.markup == HTML

    @property
    def search_factor(self) -> int:
        """About how many times as long a search may take, because it keeps more hypotheses."""
        return 8 if self.terms else 1

    @classmethod
    def of(
        cls,
        values: Mapping[str, Any],
        others: Iterable[str] = (),
        taken: Iterable[str] | None = None,
    ) -> Self:
        """Returns the options that a call names.

        Args:
            values: by name.
            others: the other keywords of the call, for the message.
            taken: the fields that the call takes; None: all.

        Raises:
            UsageError: a name is unknown, or a value is not allowed.
        """
        known = [*FIELDS] if taken is None else [*taken]
        for name, value in values.items():
            if name in known:
                continue
            if name in DecodeHParams.names():
                raise UsageError(
                    f"{name} is a search setting, which a translator has from its start: "
                    f"run.translator({name}={quoted(value)})"
                )
            near = did_you_mean(name, [*others, *known])
            raise UsageError(f"unknown keyword {name!r}{near}")
        return cls(**values)

    def changed(self, **changes: Any) -> Self:
        """Returns these options with other values."""
        return dataclasses.replace(self, **changes)

    def without_outputs(self) -> Self:
        """Returns these options without those of outputs alone."""
        return self.changed(
            **{n: getattr(NOTHING, n) for n, field in FIELDS.items() if field.of_outputs}
        )


FIELDS: Mapping[str, Asked] = {
    field.name: field.metadata[_KEY] for field in dataclasses.fields(TextOptions)
}
# Of these, the decode hparams have the default; the others concern texts that are translated.
_OF_SEARCH = frozenset(DecodeHParams.names()) & FIELDS.keys()
OF_TRANSLATION = [name for name in FIELDS if name not in _OF_SEARCH]
NOTHING = TextOptions()


def with_text_flags(config: C) -> C:
    """Adds to a configuration a text for each field: its value, or the file that has it."""
    fields = []
    for name, found in settings_of(TextOptions).items():
        reads = FIELDS[name].read is not None
        flag: Any = setting("", found.help, choices=found.choices, reads=reads, group="Input")
        fields.append((name, str, flag))
    made = dataclasses.make_dataclass(
        config.__name__, fields, bases=(config,), frozen=True, kw_only=True
    )
    made.__module__, made.__doc__ = config.__module__, config.__doc__
    return cast(C, made)


def given_flags(config: Any) -> dict[str, str]:
    """Returns the texts of `with_text_flags`, by name."""
    return {name: getattr(config, name) for name in FIELDS}


def files_of(config: Any) -> list[str]:
    """Returns the files that the flags of a configuration name."""
    return [path for name, path in given_flags(config).items() if path and FIELDS[name].read]


def read_options(config: Any) -> TextOptions:
    """Returns what the flags of a configuration ask for.

    Raises:
        DataError: a file is not as expected.
    """
    values: dict[str, Any] = {}
    for name, text in given_flags(config).items():
        read = FIELDS[name].read
        if text:
            values[name] = read(text) if read else text
    return TextOptions(**values)
