"""The last lines of t2t-datagen: what to train on the data that was just made, as a command."""

import dataclasses
import os
import pathlib
import shlex
import string
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from t2t_lite import registry
from t2t_lite.data.generation import choosing
from t2t_lite.data.generation.choosing import Advice
from t2t_lite.data.generation.config import DatagenOptions

_PAGE = "docs/choosing.md"


def lines(name: str, args: types.SimpleNamespace, options: DatagenOptions) -> Iterator[str]:
    """Yields a remark and a command to paste; nothing where the rule is silent.

    If the vocabulary should have another size, the command makes it before it trains. Nothing is
    said of a vocabulary that begins with another: its model should go on with that of the other.

    Args:
        name: the problem's, perhaps with `_rev`.
        args: the flags of t2t-datagen.
        options: how the data was generated.
    """
    if options.extend_vocab:
        return
    advice = choosing.advise(registry.problem(name), args.data_dir)
    if advice is None:
        return
    own = {"t2t_usr_dir": args.t2t_usr_dir} if args.t2t_usr_dir else {}
    problem = advice.better or name
    training = _command(
        "t2t-trainer",
        own
        | {
            "problem": problem,
            "data_dir": args.data_dir,
            "output_dir": pathlib.Path(args.data_dir).parent / "runs" / problem,
            "model": advice.choice.model,
            "hparams_set": advice.choice.hparams_set,
            "train_steps": advice.choice.train_steps,
        },
    )
    yield _remark(advice)
    if advice.better:
        folders = {"tmp_dir": args.tmp_dir, "data_dir": args.data_dir}
        making = own | {"problem": problem} | folders | _changed(options)
        yield f"{_command('t2t-datagen', making)} && {training}"
    else:
        yield training


def _remark(advice: Advice) -> str:
    data, wanted = f"{advice.examples:,} training examples", f"{advice.choice.subwords:,}"
    if advice.choice.subwords:  # other targets may be labels, or symbols of trees
        data += f" and {advice.subwords:,} subwords"
    if advice.better:
        return f"{data}: {wanted} subwords are better. To make them, and train ({_PAGE}):"
    if advice.is_other_size:
        return (
            f"{data}: {wanted} subwords are better, by approx_vocab_size in a problem class of "
            f"your own. To train with these ({_PAGE}):"
        )
    return f"{data}. To train ({_PAGE}):"


def _command(program: str, flags: Mapping[str, Any]) -> str:
    return " ".join([program, *(_quoted(f"--{name}={value}") for name, value in flags.items())])


def _quoted(word: str) -> str:
    """Returns a word for the shell; if standard output cannot write it, by the numbers of bytes."""
    try:
        word.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        plain = {*b"-_=/.", *string.ascii_letters.encode(), *string.digits.encode()}
        letters = (chr(b) if b in plain else f"\\x{b:02x}" for b in os.fsencode(word))
        return f"$'{''.join(letters)}'"
    return shlex.quote(word)


def _changed(options: DatagenOptions) -> dict[str, Any]:
    """Returns the options that are not the defaults."""
    values = dataclasses.asdict(options)
    defaults = dataclasses.asdict(DatagenOptions())
    return {name: value for name, value in values.items() if value != defaults[name]}
