"""What `hostile.py` damages: user directories, with faults that have no effect outside."""

import contextlib
import pathlib
import random
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))

from hostile_readers import ENGLISH, GERMAN, WORDS, Reader, all_of, lines_of

from support.usr_dirs import forgotten
from t2t_lite import registry, usr_dirs
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.errors import UserError
from t2t_lite.interop.t2t import text_iterators
from t2t_lite.text.bad_input import STRICT

_MODULES = {
    "__init__.py": "from . import usr_problems\nfrom . import usr_sets\n",
    "usr_problems.py": """\
import os

from tensor2tensor.data_generators import generator_utils, problem, text_encoder
from tensor2tensor.data_generators import text_problems, translate
from tensor2tensor.utils import metrics, registry


@registry.register_problem
class UsrPairs(text_problems.Text2TextProblem):
    vocab_name = "vocab.usr"

    @property
    def vocab_type(self):
        return text_problems.VocabType.CHARACTER

    @property
    def is_generate_per_split(self):
        return True

    @property
    def dataset_splits(self):
        return [
            {"split": problem.DatasetSplit.TRAIN, "shards": 2},
            {"split": problem.DatasetSplit.EVAL, "shards": 1},
        ]

    def eval_metrics(self):
        return [metrics.Metrics.ACC, metrics.Metrics.APPROX_BLEU]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        sources = os.path.join(tmp_dir, "a.en")
        targets = os.path.join(tmp_dir, "a.de")
        return text_problems.text2text_txt_iterator(sources, targets)


@registry.register_problem("usr_lines")
class Lines(text_problems.Text2SelfProblem):
    @property
    def vocab_type(self):
        return text_problems.VocabType.TOKEN

    @property
    def oov_token(self):
        return "word1"

    @property
    def vocab_filename(self):
        return "vocab.words"

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        path = os.path.join(tmp_dir, "a.en")
        for line in text_problems.txt_line_iterator(path):
            yield {"targets": line}


@registry.register_problem
class UsrLabels(text_problems.Text2ClassProblem):
    @property
    def num_classes(self):
        return 3

    def class_labels(self, data_dir):
        return ["bad", "good", "neither"]

    @property
    def approx_vocab_size(self):
        return 300

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        yield {"inputs": "a text of some words", "label": 1}
        yield {"inputs": "another one", "label": 0}


@registry.register_problem
class UsrSets(translate.TranslateProblem):
    @property
    def approx_vocab_size(self):
        return 300

    def source_data_files(self, dataset_split):
        return [["", ("a.en", "a.de")]]

    def vocab_data_files(self):
        return self.source_data_files(problem.DatasetSplit.TRAIN)


class Words(text_encoder.TextEncoder):
    @property
    def vocab_size(self):
        return 80

    def encode(self, s):
        return [len(word) + 2 for word in s.split()]

    def decode(self, ids, strip_extraneous=False):
        return " ".join(str(number) for number in ids)


@registry.register_problem
class UsrEncoders(UsrPairs):
    def feature_encoders(self, data_dir):
        return {"inputs": Words(), "targets": Words()}

    def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        yield {"inputs": [2, 3, 1], "targets": [4, 1]}

    def hparams(self, defaults, unused_model_hparams):
        p = defaults
        p.input_space_id = problem.SpaceID.EN_TOK
        p.vocab_size = {"inputs": 80, "targets": 80}
""",
    "usr_sets.py": """\
from tensor2tensor.models import transformer
from tensor2tensor.utils import registry


@registry.register_hparams
def usr_base():
    hparams = transformer.transformer_base()
    hparams.hidden_size = 64
    hparams.add_hparam("usr_rate", 0.5)
    hparams.learning_rate_schedule = "constant*linear_warmup"
    return hparams


@registry.register_ranged_hparams
def usr_range(rhp):
    rhp.set_float("learning_rate", 0.1, 0.2)
""",
}

# Statements that fail, or that only parse in another Python; none has an effect outside.
_STATEMENTS = (
    *("undefined_name", "assert False", "1 / 0", "del registry", "registry = None", "problem = 3"),
    *("import missing_module", "from . import nowhere", "from .usr_sets import nothing"),
    *("from tensor2tensor.utils import nothing", "import tensor2tensor.nowhere.at_all"),
    *("from tensor2tensor.models.research import vqa", "from tensor2tensor.bin import t2t_trainer"),
    *("import tensorflow.contrib.slim", "from tensorflow.contrib import nothing"),
    *("import usr_problems", "from usr_sets import *", "import six", "import gym"),
    *(
        "raise ValueError('two\\nlines')",
        "raise KeyError",
        "raise StopIteration",
        "raise Exception",
    ),
    *("raise SystemExit", "raise SystemExit(3)", "raise OSError(2, 'gone', 'x')"),
    *(
        "raise RecursionError",
        "raise MemoryError",
        "raise NotImplementedError",
        "raise ImportError",
    ),
    *("raise UnicodeDecodeError('utf-8', b'x', 0, 1, 'bad')", "raise SyntaxError('x')"),
    "raise type('Odd', (Exception,), {'__str__': lambda self: 3})()",
    "raise type('Odd', (Exception,), {'__str__': lambda self: self.x})()",
    *("print 'a'", "exec 'a'", "x = (", "return", "yield", "def f(:", "\tx = 1", "   x = 1", "'x"),
    *('"""', "x = 0777", "x = '\\ud800'", "'\\N{nothing}'", "b'\u00e4'", "None = 1", "\0", "\f"),
    *("from __future__ import braces", "class X(Missing): pass", "\ufeff", "(" * 300, "-" * 9000),
    "registry.register_hparams('transformer_base')(lambda: None)",
    "registry.register_hparams('usr_base')(lambda: None)",
    *("registry.register_hparams('usr_other')(3)", "registry.register_problem(3)"),
    *("registry.register_problem('x_rev')", "registry.register_model('usr_model')(object)"),
    "registry.register_hparams(transformer_base)",
)
_VALUES = (
    *("None", "0", "-1", "2.5", "float('nan')", "'x'", "b'x'", "[]", "{}", "()", "object()", "int"),
    *("[None]", "['']", "[{}]", "{'inputs': 3}", "{'inputs': None, 'targets': ''}", "True"),
    *("{'inputs': 'a', 'targets': '\\ud800'}", "{'targets': b'a'}", "iter(())", "'\\0'", "'/'"),
    *("{'inputs': [1.5], 'targets': []}", "{'inputs': [-1], 'targets': [2**70]}", "'..'", "'a/b'"),
    *(
        "{'inputs': 'a', 'label': 9}",
        "{'inputs': 'a', 'label': 'x'}",
        "[('', 'a.en')]",
        "lambda: 1",
    ),
    *("[['', ('a.en', 'b.en')]]", "[['', ('tmx', 'a.en')]]", "[['', ('tsv', 0, 1, 'a*')]]"),
    *(
        "[{'split': 'train', 'shards': 0}]",
        "[{'split': 'x'}]",
        "[{'shards': 1}]",
        "self",
        "missing",
    ),
)
_COOKIES = ("klingon", "latin-1", "ascii", "utf-16", "utf-8-sig", "rot13", "unicode_escape", "idna")
_ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp037", "utf-7")


def write_directory(folder: pathlib.Path) -> None:
    """Writes a user directory, with the texts that its problems read."""
    for name, text in _MODULES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "a.en").write_bytes(lines_of(ENGLISH[:9]))
    (folder / "a.de").write_bytes(lines_of(GERMAN[:9]))
    (folder / "vocab.words").write_bytes(lines_of(WORDS))


def damage_module(path: pathlib.Path, draw: random.Random) -> None:
    """Puts faults into a module; whatever it then runs has no effect outside."""
    text = path.read_text(encoding="utf-8")
    for _ in range(draw.choice((1, 1, 1, 2))):
        text = draw.choice((_with_statement, _with_value, _with_name, _without_line))(text, draw)
    contents = text.encode("utf-8", "surrogatepass")
    kind = draw.random()
    if kind < 0.05:
        contents = text.encode(draw.choice(_ENCODINGS), "replace")
    elif kind < 0.1:
        contents = f"# -*- coding: {draw.choice(_COOKIES)} -*-\n".encode() + contents
    elif kind < 0.15:
        contents = contents.replace(b"\n", draw.choice((b"\r\n", b"\r", b"\n\r", b"\n\f", b"")))
    elif kind < 0.2:
        place = draw.randint(0, len(contents))
        odd = draw.choice((b"\0", b"\xff", b"\xef\xbb\xbf", b"\xe4", b"\x1a", "\u00a0".encode()))
        contents = contents[:place] + odd + contents[place:]
    elif kind < 0.22:
        contents = contents[: draw.randint(0, len(contents))]
    elif kind < 0.24:
        contents += b"\n" * 20_000 + b"x = " + b"1+" * draw.choice((10, 3_000)) + b"1\n"
    path.write_bytes(contents)


def _with_statement(text: str, draw: random.Random) -> str:
    lines = text.splitlines()
    place = draw.randint(0, len(lines))
    indent = re.match(" *", lines[min(place, len(lines) - 1)])[0] if lines else ""
    lines.insert(place, indent + draw.choice(_STATEMENTS))
    return "\n".join(lines) + "\n"


def _with_value(text: str, draw: random.Random) -> str:
    """Changes what a function returns or a name is."""
    found = draw.choice([*re.finditer(r"(?:return|yield| =) ([^\n]+)", text)] or [None])
    if found is None:
        return _with_statement(text, draw)
    return text[: found.start(1)] + draw.choice(_VALUES) + text[found.end(1) :]


def _with_name(text: str, draw: random.Random) -> str:
    """Misspells a name."""
    found = draw.choice([*re.finditer(r"[A-Za-z_]\w+", text)] or [None])
    if found is None:
        return _with_statement(text, draw)
    name = found[0]
    names = [name + "x", name[:-1], name.upper(), "", *set(re.findall(r"[A-Za-z_]\w+", text))]
    return text[: found.start()] + draw.choice(sorted(names)) + text[found.end() :]


def _without_line(text: str, draw: random.Random) -> str:
    lines = text.splitlines()
    if lines:
        del lines[draw.randrange(len(lines))]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def imported(folder: pathlib.Path) -> Iterator[None]:
    """Inside the block, a user directory is imported; then all that it has registered is undone."""
    writes = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        with forgotten():
            usr_dirs.import_usr_dir(str(folder))
            yield
    finally:
        sys.dont_write_bytecode = writes
        text_iterators.receive(STRICT)


def read_directory(folder: pathlib.Path) -> None:
    """Imports a user directory, and uses all that it registers.

    Raises:
        UserError: one of these is refused, or an error shows its line of the directory.
    """
    known = {*registry.list_problems()}, {*registry.list_hparams()}
    with mock.patch("os.fsync"), imported(folder):  # the disk is not on trial
        problems = sorted({*registry.list_problems()} - known[0])
        sets = sorted({*registry.list_hparams()} - known[1])
        uses = [_guarded(folder, registry.hparams, name) for name in sets]
        uses += [_guarded(folder, _use_problem, folder, name) for name in problems]
        all_of(*uses)


def _use_problem(folder: pathlib.Path, name: str) -> None:
    problem = registry.problem(name)
    all_of(
        *(
            _guarded(folder, getattr, problem, member)
            for member in ("metrics", "decode_hparams", "dataset_splits", "space_ids")
        )
    )
    with tempfile.TemporaryDirectory() as data_dir:
        shutil.copy(folder / "vocab.words", data_dir)
        generator.generate_data(problem, data_dir, str(folder), DatagenOptions(num_workers=1))
        problem.get_feature_encoders(data_dir)


def _guarded(folder: pathlib.Path, use: Callable[..., object], *args: object) -> Callable[[], None]:
    """Returns a function whose errors in a user's code are user errors, as users see their line."""

    def call() -> None:
        try:
            use(*args)
        except UserError:
            raise
        except (Exception, SystemExit) as error:  # a function may end the command
            frames = traceback.extract_tb(error.__traceback__)
            if not any(frame.filename.startswith(str(folder)) for frame in frames):
                raise
            raise UserError(f"{type(error).__name__} in the user's code") from error

    return call


READERS = {
    "user directory": Reader(
        write_directory, read_directory, "*.py", share=0.9, damage=damage_module
    ),
}
