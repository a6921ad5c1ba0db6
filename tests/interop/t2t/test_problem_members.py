"""Members of T2T's problems, and members of users' own, in the manner of user directories."""

import pathlib
import sys
from collections.abc import Callable

import pytest

from support.texts import decoded_pairs, pairs_of
from support.usr_dirs import TOP, generate, import_usr_dir
from t2t_lite import registry
from t2t_lite.data.example_reader import ExampleReader, eval_examples
from t2t_lite.data.problem import Problem
from t2t_lite.data.records import read_examples
from t2t_lite.errors import UsageError, UserError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.interop.t2t import hparam, problem, text_problems
from t2t_lite.interop.t2t.adapter import adapted
from t2t_lite.runs import run_creation
from t2t_lite.runs.run_settings import RunSettings


@pytest.mark.parametrize(
    ("member", "value", "use"),
    [
        ("eval_metrics", None, lambda found: found.metrics),
        ("eval_metrics", "accuracy", lambda found: found.metrics),
        ("eval_metrics", [text_problems, 3], lambda found: found.metrics),
        ("feature_encoders", None, lambda found: found.feature_encoders("")),
        ("feature_encoders", {"inputs": object()}, lambda found: found.feature_encoders("")),
        ("vocab_size", 300, lambda found: found.feature_encoders("")),
        ("modality", "symbol", lambda found: found.feature_encoders("")),
        ("input_space_id", "en", lambda found: found.space_ids),
    ],
)
def test_a_member_of_another_kind_is_named_with_its_class(upstream, member, value, use):
    def hparams(self, defaults, model_hparams):
        setattr(defaults, member, value)

    is_hparam = member in ("vocab_size", "modality", "input_space_id")
    defined = {"hparams": hparams} if is_hparam else {member: lambda *_: value}
    encoders = {"feature_encoders": lambda *_: {"inputs": object(), "targets": object()}}
    kind = type("UsrKinds", (text_problems.Text2TextProblem,), {**encoders, **defined})
    registry.register_problem("usr_kinds")(kind)
    message = rf"^problem 'usr_kinds' \(.*\.UsrKinds\): {member} is .*: expected "
    with pytest.raises(UsageError, match=message):
        use(registry.problem("usr_kinds"))


def test_a_split_that_t2t_does_not_have_is_refused(upstream):
    kind = type("UsrSplits", (problem.Problem,), {})
    registry.register_problem("usr_splits")(kind)
    message = "problem 'usr_splits' has no unseen split: T2T's problems have train, dev, test"
    with pytest.raises(UserError, match=message):
        registry.problem("usr_splits").existing_filepaths("", "unseen")


@pytest.fixture
def usr(upstream, tmp_path) -> Callable[[str], None]:
    """Imports a user directory that holds this code, after a base class `Base`."""
    return lambda code: import_usr_dir(tmp_path / "usr_members", TOP + code)


# ---- members of users' own


def names_of_ours(kind: type) -> set[str]:
    """Returns the members of this package's objects that T2T's class does not have."""
    made = kind()
    names = {*dir(adapted(made)), *vars(adapted(made))} - {*dir(kind), *vars(made)}
    return {name for name in names if not name.startswith("__")}


def used(found: Problem, folders: tuple[str, str]) -> list[tuple[str, str]]:
    """Returns the training pairs, after calls of what the commands call."""
    pairs = decoded_pairs(found, folders[0], "train")
    assert (found.decode_hparams, found.can_split_sources) == ("", True)
    assert (found.space_ids, found.sides) == ((0, 0), ("inputs", "targets"))
    assert found.metrics == ["bleu"]
    assert found.postprocess(" a", " b").text == " b"
    assert found.source(" a ") == found.reference("", " a ") == "a"
    found.source_files("", "train")
    return pairs


@pytest.mark.parametrize("when", ["before", "after"])
def test_attributes_of_users_may_have_our_names(usr, folders, when):
    names = names_of_ours(text_problems.Text2TextProblem)
    assert {"postprocess", "source", "metrics", "sides", "missing", "text_samples"} <= names
    sets = [f"    self.{name} = 'mine'\n" for name in sorted(names)]
    begin = "    super(OwnAttributes, self).__init__(*args, **kwargs)\n"
    body = [*sets, begin] if when == "before" else [begin, *sets]
    usr(
        "@registry.register_problem\nclass OwnAttributes(Base):\n"
        f"  def __init__(self, *args, **kwargs):\n{''.join(body)}"
        "    self.name_then = self.name\n"
    )
    found = generate("own_attributes", folders)
    assert len(used(found, folders)) == 40
    assert found.upstream.name_then == "own_attributes"
    assert all(getattr(found.upstream, name) == "mine" for name in names)


@pytest.mark.parametrize("form", ["  @property\n  def {}(self):", "  def {}(self, text):"])
def test_methods_and_properties_of_users_may_have_our_names(usr, folders, form):
    names = sorted(names_of_ours(text_problems.Text2TextProblem))
    members = "".join(f"{form.format(name)}\n    raise AssertionError\n" for name in names)
    usr(f"@registry.register_problem\nclass OwnMethods(Base):\n{members}")
    assert len(used(generate("own_methods", folders), folders)) == 40


def test_problems_that_write_their_files_have_their_own_members(usr, folders):
    names = sorted(names_of_ours(problem.Problem))
    usr(
        "@registry.register_problem\nclass Writer(problem.Problem):\n"
        + "".join(f"  def {name}(self):\n    raise AssertionError\n" for name in names)
        + """
  def generate_data(self, data_dir, tmp_dir, task_id=-1):
    case = {"inputs": [2, 1], "targets": [3, 1]}
    generator_utils.generate_dataset_and_shuffle(
        [case] * 3, self.training_filepaths(data_dir, 2, shuffled=False),
        [case], self.dev_filepaths(data_dir, 1, shuffled=False))

  def hparams(self, defaults, unused_model_hparams):
    defaults.vocab_size = {"inputs": 4, "targets": 4}
"""
    )
    assert used(generate("writer", folders), folders) == [("0", "1")] * 3


def test_the_name_of_a_reversed_problem_is_that_of_its_files(usr, folders):
    usr(
        """
@registry.register_problem("named_files")
class Other(Base):
  def __init__(self, was_reversed=False, was_copy=False):
    self.mine = "vocab.of_" + self.name
    super(Other, self).__init__(was_reversed, was_copy)

  @property
  def vocab_filename(self):
    return self.mine
"""
    )
    generate("named_files", folders)
    backwards = registry.problem("named_files_rev")
    assert backwards.name == "named_files_rev"
    assert backwards.vocab_files() == ["vocab.of_named_files"]
    assert backwards.get_feature_encoders(folders[0])


def test_users_get_their_own_objects(usr):
    usr(
        """
@registry.register_problem
class Mine(Base):
  colour = "red"
"""
    )
    from tensor2tensor.utils import registry as t2ts

    assert t2ts.problem("mine").colour == "red"
    assert type(t2ts.problem("mine")) is sys.modules["usr_members"].Mine
    assert t2ts.problem("translate_ende_wmt32k").name == "translate_ende_wmt32k"


# ---- vocabularies


_TWO = """
def must_exist(path):
  {check}
  return path

@registry.register_problem
class Two(Base):
  def feature_encoders(self, data_dir):
    names = [{source}, os.path.join(data_dir, "words", "target.txt")]
    first, second = [text_encoder.TokenTextEncoder(must_exist(name)) for name in names]
    return dict(inputs=first, targets=second)
"""
_JOINED, _FORMATTED = 'os.path.join(data_dir, "source.txt")', '"%s/source.txt" % data_dir'


@pytest.mark.parametrize(
    ("check", "source"),
    [
        ("open(path).close()", _FORMATTED),
        ("if not os.path.exists(path): raise ValueError('%s is missing.' % path)", _FORMATTED),
        ("if not os.path.exists(path): raise KeyError(os.path.basename(path))", _JOINED),
        ("assert os.path.isfile(path)", _JOINED),
        ("os.stat(path)", _JOINED),
    ],
)
def test_all_vocabularies_are_found_though_each_must_exist(usr, check, source):
    usr(_TWO.format(check=check, source=source))
    found = registry.problem("two")
    assert sorted(found.vocab_files()) == ["source.txt", "words/target.txt"]


def test_a_vocabulary_that_another_file_names_is_copied_to_the_run(usr, tmp_path, caplog):
    usr(
        """
import json

@registry.register_problem
class Listed(Base):
  def feature_encoders(self, data_dir):
    with open(os.path.join(data_dir, "list.json")) as f:
      names = json.load(f)
    return {side: text_encoder.TokenTextEncoder(os.path.join(data_dir, name))
            for side, name in names.items()}
"""
    )
    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    (data / "list.json").write_text('{"inputs": "a.txt", "targets": "b.txt"}')
    (data / "a.txt").write_text("one\ntwo\n")
    (data / "b.txt").write_text("one\ntwo\nthree\n")
    flags = {"problem": "listed", "model": "transformer", "hparams_set": "transformer_tiny"}
    run.mkdir()
    hparams = registry.hparams("transformer_tiny")
    settings = RunSettings.of({**flags, "data_dir": str(data)})
    run_creation.write_run(run, settings, hparams, str(data))
    assert not (run / "b.txt").exists()
    found = registry.problem("listed")
    assert found.vocab_files() == ["list.json"]
    assert found.get_feature_encoders(str(run))["targets"].vocab_size == 5
    assert "b.txt: copied from" in caplog.text
    assert found.vocab_files() == ["list.json", "a.txt", "b.txt"]
    (data / "b.txt").unlink()
    (run / "b.txt").unlink()
    with pytest.raises(UserError, match=r"b\.txt: no such file"):
        registry.problem("listed").get_feature_encoders(str(run))


def test_a_vocabulary_is_not_built_to_learn_its_name(usr, folders):
    usr(
        """
@registry.register_problem
class Lenient(Base):
  built, tmp_dirs = [], []

  def feature_encoders(self, data_dir):
    encoder = self.get_or_create_vocab(data_dir, None)
    return dict(super(Lenient, self).feature_encoders(data_dir), inputs=encoder)

  def get_or_create_vocab(self, data_dir, tmp_dir, force_get=False):
    self.tmp_dirs.append(tmp_dir)
    return super(Lenient, self).get_or_create_vocab(data_dir, tmp_dir)

  def generate_text_for_vocab(self, data_dir, tmp_dir):
    self.built.append(tmp_dir)
    yield "0 1 2 3 4 5 6 7 8 9"
"""
    )
    found = generate("lenient", folders)
    assert found.vocab_files() == ["vocab.lenient.256.subwords"]
    assert found.upstream.built == [folders[1]]
    assert set(found.upstream.tmp_dirs) == {folders[1], None}  # as in T2T


def test_the_vocabulary_may_be_that_of_a_problem_of_this_package(usr, folders):
    usr(
        """
@registry.register_problem
class Tuned(Base):
  use_vocab_from_other_problem = registry.problem("text2text_tmpdir")
"""
    )
    for name in ("inputs.train", "targets.train", "inputs.eval", "targets.eval"):
        pathlib.Path(folders[1], f"{name}.txt").write_text("0 1 2 3 4 5 6 7 8 9\n")
    found = generate("tuned", folders)
    assert len(decoded_pairs(found, folders[0], "train")) == 40
    assert found.vocab_files() == ["vocab.text2text_tmpdir.32768.subwords"]


def test_samples_may_write_the_vocabulary_that_a_class_reads(usr, folders):
    usr(
        """
@registry.register_problem
class OwnPieces(Base):
  vocab_filename = "vocab.bpe.30"

  def get_or_create_vocab(self, data_dir, tmp_dir, force_get=False):
    path = os.path.join(data_dir, self.vocab_filename)
    if force_get and not tf.gfile.Exists(path):
      raise ValueError("Vocab %s not found" % path)
    return text_encoder.TokenTextEncoder(path, replace_oov="UNK")

  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    words = ["%d" % i for i in range(17)] + ["UNK"]
    path = os.path.join(data_dir, self.vocab_filename)
    text_encoder.TokenTextEncoder(None, vocab_list=words).store_to_file(path)
    return super(OwnPieces, self).generate_samples(data_dir, tmp_dir, dataset_split)
"""
    )
    found = generate("own_pieces", folders)
    assert ("0 0 0 0", "0 0 0 0") in decoded_pairs(found, folders[0], "train")
    assert found.vocab_files() == ["vocab.bpe.30"]


@pytest.mark.parametrize(
    "code", ["os.no_such_function(data_dir)", "unknown_name", "import nowhere"]
)
def test_a_missing_name_is_not_taken_for_a_missing_file(usr, code):
    usr(
        "@registry.register_problem\nclass Wrong(Base):\n"
        f"  def feature_encoders(self, data_dir):\n    {code}\n"
    )
    with pytest.raises((AttributeError, NameError, ImportError), match="no"):
        registry.problem("wrong").vocab_files()


def test_what_was_loaded_stays_when_files_are_asked_for(usr, folders):
    usr("@registry.register_problem\nclass Kept(Base):\n  pass\n")
    found = generate("kept", folders)
    found.get_feature_encoders(folders[0])
    before = found.upstream.get_feature_encoders()
    assert found.vocab_files() == ["vocab.kept.256.subwords"]
    assert found.upstream.get_feature_encoders() is before


# ---- what is read, and what may be missing


@pytest.mark.parametrize("method", ["generate_samples", "generate_encoded_samples"])
def test_data_sets_that_a_class_no_longer_reads_are_not_fetched(usr, folders, method):
    usr(
        f"""
@registry.register_problem
class ReadsOthers(translate.TranslateProblem):
  approx_vocab_size = 2**8
  dataset_splits = [dict(split="train", shards=1), dict(split="eval", shards=1)]

  def source_data_files(self, dataset_split):
    return [["http://no.such.host/gone.tgz", ("gone.en", "gone.de")]]

  def {method}(self, data_dir, tmp_dir, dataset_split):
    samples = [dict(inputs="a %d" % i, targets="b %d" % i) for i in range(9)]
    if "encoded" not in "{method}":
      return samples
    vocab = self.get_or_create_vocab(data_dir, tmp_dir)
    return text_problems.text2text_generate_encoded(samples, vocab)

  def generate_text_for_vocab(self, data_dir, tmp_dir):
    return iter(["a b 0 1 2", "3 4 5 6 7 8"])
"""
    )
    assert len(decoded_pairs(generate("reads_others", folders), folders[0], "train")) == 9


_QUESTIONS = """
import numpy as np

@registry.register_problem
class Questions(text_problems.QuestionAndContext2TextProblem):
  approx_vocab_size = np.int64(2**8)
  is_generate_per_split = False
  dataset_splits = Base.dataset_splits

  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    for number in range(60):
      yield {"inputs": "who ate %d ?" % number, "context": "the cat ate 1", "targets": "the cat"}

  def hparams(self, defaults, unused_model_hparams):
    super(Questions, self).hparams(defaults, unused_model_hparams)
    assert defaults.modality.pop("context") == modalities.ModalityType.SYMBOL
"""


def test_a_context_is_in_the_vocabulary_but_no_model_reads_it(usr, folders, caplog):
    usr(_QUESTIONS)
    found = generate("questions", folders)
    assert decoded_pairs(found, folders[0], "train")[0][1] == "the cat"
    assert found.vocab_files() == ["vocab.questions.256.subwords"]
    assert "problem questions: no model here reads context, as T2T's Transformer" in caplog.text
    upstream = found.upstream
    encoder = upstream.get_feature_encoders(folders[0])["context"]
    assert encoder.decode_list([upstream.QUESTION_SEPARATOR_ID]) == ["<EOQ>_"]
    sample = next(iter(upstream.generate_encoded_samples(*folders, "train")))
    assert encoder.decode(sample["context"]) == "the cat ate 1"
    assert sample["context"][-1] == 1


_READS_CONTEXT = (
    _QUESTIONS
    + """
  def example_reading_spec(self):
    fields, decoders = super(Questions, self).example_reading_spec()
    fields["turn"] = tf.FixedLenFeature([], tf.int64)
    fields["weight"] = tf.VarLenFeature(tf.float32)
    return fields, decoders

  def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
    samples = super(Questions, self).generate_encoded_samples(data_dir, tmp_dir, dataset_split)
    for number, sample in enumerate(samples):
      yield dict(sample, turn=[number], weight=[0.5])

  def preprocess_example(self, example, mode, unused_hparams):
    asked = [example["inputs"][:-1], [self.QUESTION_SEPARATOR_ID], example["context"]]
    example["inputs"] = tf.concat(asked, axis=0)
    example["turns"] = tf.one_hot(example["turn"], 60)
    example["targets"] = tf.concat([[example["turn"]], example["targets"]], axis=0)
    return example
"""
)


def test_what_changes_examples_may_read_further_lists_of_integers(usr, folders, caplog):
    usr(_READS_CONTEXT)
    found = generate("questions", folders)
    assert "no model here reads context" not in caplog.text
    pairs = eval_examples(
        found.existing_filepaths(folders[0], "eval"), ExampleReader.of(found, BasicHParams())
    )
    encoder = found.get_feature_encoders(folders[0])["inputs"]
    read = sorted((ids[0], encoder.decode(inputs)) for inputs, ids in pairs)
    numbers = range(2, 60, 3)  # every third sample is one of evaluation
    assert read == [(n, f"who ate {n} ?<EOQ>the cat ate 1") for n in numbers]


@pytest.mark.parametrize("base", ["Base", "text_problems.Text2SelfProblem"])
def test_samples_may_have_further_lists_of_integers(usr, folders, base):
    usr(
        f"""
@registry.register_problem
class Marked({base}):
  vocab_type = text_problems.VocabType.CHARACTER

  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    for _ in range(3):
      yield {{"inputs": "a", "targets": "b", "marks": [7, -8], "note": "free"}}

  def feature_encoders(self, data_dir):
    return dict(super(Marked, self).feature_encoders(data_dir), marks=text_encoder.RealEncoder())

  def example_reading_spec(self):
    fields, decoders = super(Marked, self).example_reading_spec()
    return dict(fields, marks=tf.VarLenFeature(tf.int64)), decoders

  def preprocess_example(self, example, mode, unused_hparams):
    example["targets"] = tf.concat([example["targets"], example["marks"]], axis=0)
    return example
"""
    )
    found = generate("marked", folders)
    paths = found.existing_filepaths(folders[0], "train")
    pairs = eval_examples(paths, ExampleReader.of(found, BasicHParams()))
    assert pairs[0][1] == [100, 1, 7, -8]


_READS_MODEL = """
@registry.register_problem
class ReadsModel(Base):
  def hparams(self, defaults, model_hparams):
    super(ReadsModel, self).hparams(defaults, model_hparams)
    if model_hparams.shared_embedding_and_softmax_weights and model_hparams.hidden_size:
      defaults.input_space_id = problem.SpaceID.EN_TOK
    if not model_hparams.get("chunk_size"):
      model_hparams.chunk_size = 4
    model_hparams.add_hparam("of_mine", model_hparams.data_dir)
"""


def test_hparams_of_a_problem_may_read_those_of_a_model(usr, folders):
    usr(_READS_MODEL)
    found = generate("reads_model", folders)
    encoders = found.feature_encoders(folders[0])
    assert encoders["inputs"].vocab_size == encoders["targets"].vocab_size > 2
    assert found.space_ids == (problem.SpaceID.EN_TOK, problem.SpaceID.GENERIC)
    assert registry.problem("reads_model").space_ids == (
        problem.SpaceID.EN_TOK,
        problem.SpaceID.GENERIC,
    )


def test_what_hparams_sets_has_the_encoders_as_in_t2t(usr, folders):
    usr(
        """
@registry.register_problem
class ReadsSizes(Base):
  def get_hparams(self, model_hparams=None):
    found = super(ReadsSizes, self).get_hparams(model_hparams)
    self.size = found.vocabulary["inputs"].vocab_size
    return found

  def hparams(self, defaults, model_hparams):
    defaults.vocab_size = {side: self._encoders[side].vocab_size for side in self._encoders}
    defaults.vocabulary = self._encoders
"""
    )
    size = generate("reads_sizes", folders).feature_encoders(folders[0])["inputs"].vocab_size
    upstream = registry.problem("reads_sizes_rev").upstream
    found = upstream.get_hparams(hparam.HParams(data_dir=folders[0]))
    assert upstream.size == found.vocab_size["targets"] == size
    assert (found.was_reversed, found.was_copy) == (True, False)


def test_a_field_that_only_a_set_of_the_users_has_is_named(usr, folders):
    usr(_READS_MODEL.replace("model_hparams.hidden_size", "model_hparams.of_my_set"))
    with pytest.raises(UserError, match=r"'reads_model': .* model_hparams.get\('of_my_set', "):
        generate("reads_model", folders)


@pytest.mark.parametrize("split", ["eval", "test"])
def test_targets_may_be_missing_outside_training(usr, folders, caplog, split):
    usr(
        f"""
@registry.register_problem
class Blind(Base):
  is_generate_per_split = True
  dataset_splits = [dict(split=s, shards=1) for s in ("train", "eval", "test")]

  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    for i in range(20):
      yield dict(inputs="a%d" % i, targets="" if i == 3 or dataset_split == "{split}" else "b")
"""
    )
    found = generate("blind", folders)
    assert len(decoded_pairs(found, folders[0], "train")) == 19
    pairs = decoded_pairs(found, folders[0], split)
    assert pairs == [(f"a{i}", "") for i in range(20)]
    paths = found.existing_filepaths(folders[0], split)
    assert all(example["targets"] == [1] for example in read_examples(paths))
    assert "20 targets are empty: written as EOS alone" in caplog.text
    assert "blind: dropped 1 pairs: one side is empty" in caplog.text


@pytest.mark.parametrize("split", ["eval", "test"])
def test_an_empty_source_outside_training_keeps_its_place(usr, folders, caplog, split):
    usr(
        """
@registry.register_problem
class Gaps(Base):
  is_generate_per_split = True
  dataset_splits = [dict(split=s, shards=1) for s in ("train", "eval", "test")]

  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    for i in range(12):
      yield dict(inputs="" if i % 5 == 2 else "a%d" % i, targets="" if i == 7 else "b%d" % i)
"""
    )
    found = generate("gaps", folders)
    assert len(decoded_pairs(found, folders[0], "train")) == 10
    expected = [("" if i % 5 == 2 else f"a{i}", "" if i == 7 else f"b{i}") for i in range(12)]
    assert decoded_pairs(found, folders[0], split) == expected
    paths = found.existing_filepaths(folders[0], split)
    assert [example["inputs"] for example in read_examples(paths)][2] == [1]
    assert "2 inputs are empty: written as EOS alone" in caplog.text
    assert "1 targets are empty: written as EOS alone" in caplog.text
    assert "gaps: dropped 2 pairs: one side is empty" in caplog.text


# ---- members of T2T's


_BODIES = {
    "1.4": """
    train_paths = self.training_filepaths(data_dir, 2, shuffled=False)
    dev_paths = self.dev_filepaths(data_dir, 1, shuffled=False)
    all_paths = train_paths + dev_paths
    generator_utils.generate_files(
        self._maybe_pack_examples(
            self.generate_encoded_samples(data_dir, tmp_dir, problem.DatasetSplit.TRAIN)),
        all_paths)
    generator_utils.shuffle_dataset(all_paths)
""",
    "1.15": """
    filepath_fns = {
        problem.DatasetSplit.TRAIN: self.training_filepaths,
        problem.DatasetSplit.EVAL: self.dev_filepaths,
        problem.DatasetSplit.TEST: self.test_filepaths,
    }
    split_paths = [(split["split"], filepath_fns[split["split"]](
        data_dir, split["shards"], shuffled=self.already_shuffled))
                   for split in self.dataset_splits]
    all_paths = []
    for _, paths in split_paths:
      all_paths.extend(paths)
    if self.is_generate_per_split:
      for split, paths in split_paths:
        generator_utils.generate_files(
            self.generate_encoded_samples(data_dir, tmp_dir, split), paths)
    else:
      generator_utils.generate_files(
          self.generate_encoded_samples(data_dir, tmp_dir, problem.DatasetSplit.TRAIN), all_paths)
    generator_utils.shuffle_dataset(all_paths, extra_fn=self._pack_fn())
""",
}


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("release", _BODIES)
def test_bodies_of_generate_data_may_be_copied(usr, folders, release, shuffled):
    usr(
        f"""
@registry.register_problem
class Copied(Base):
  already_shuffled = {shuffled}

  def generate_data(self, data_dir, tmp_dir, task_id=-1):{_BODIES[release]}
"""
    )
    found = generate("copied", folders)
    train = decoded_pairs(found, folders[0], "train")
    assert (len(train), len(decoded_pairs(found, folders[0], "eval"))) == (40, 20)
    assert (train == in_order(found)) == (shuffled and release == "1.15")


def in_order(found: Problem) -> list[tuple[str, str]]:
    """Returns the training pairs of a subclass of `Base`, dealt to two of its three files."""
    samples = pairs_of(found.upstream.generate_samples("", "", "train"))
    return samples[::3] + samples[1::3]


def test_samples_that_are_already_shuffled_keep_their_order(usr, folders):
    usr("@registry.register_problem\nclass Blocks(Base):\n  already_shuffled = True\n")
    blocks = generate("blocks", folders)
    assert decoded_pairs(blocks, folders[0], "train") == in_order(blocks)
    blocks.upstream_class.already_shuffled = False
    with pytest.raises(UserError, match="already_shuffled: True -> False"):
        generate("blocks", folders)


def test_data_may_be_found_by_the_users_pattern(usr, folders):
    usr(
        """
@registry.register_problem
class Whole(Base):
  pass

@registry.register_problem
class Borrowing(Base):
  def filepattern(self, data_dir, mode, shard=None):
    return super(Borrowing, self).filepattern(data_dir, mode, shard).replace("borrowing", "whole")

  @property
  def use_vocab_from_other_problem(self):
    return Whole()
"""
    )
    whole = generate("whole", folders)
    borrowing = registry.problem("borrowing")
    assert decoded_pairs(borrowing, folders[0], "train") == decoded_pairs(
        whole, folders[0], "train"
    )
    assert borrowing.vocab_files() == whole.vocab_files()


def test_a_pattern_of_ones_own_names_no_file_that_is_generated(usr, folders):
    usr(
        """
@registry.register_problem
class Patterned(Base):
  def filepattern(self, data_dir, mode, shard=None):
    return super(Patterned, self).filepattern(data_dir, mode, shard)
"""
    )
    generate("patterned", folders)
    paths = registry.problem("patterned").existing_filepaths(folders[0], "eval")
    assert [pathlib.Path(path).name for path in paths] == ["patterned-dev-00000-of-00001"]


def test_a_split_without_examples_is_not_evaluated_on(usr, folders):
    usr(
        """
@registry.register_problem
class Short(text_problems.ChoppedTextProblem):
  remainder_policy = "drop"
  sequence_length = 8
  approx_vocab_size = 2**8
  num_train_shards = num_dev_shards = 1

  def train_text_filepaths(self, tmp_dir):
    return [os.path.join(tmp_dir, "train.txt")]

  def dev_text_filepaths(self, tmp_dir):
    return [os.path.join(tmp_dir, "dev.txt")]
"""
    )
    for name, text in (("train", "abc def " * 20), ("dev", "a")):
        pathlib.Path(folders[1], f"{name}.txt").write_text(text, encoding="utf-8")
    short = generate("short", folders)
    assert short.existing_filepaths(folders[0], "train")
    with pytest.raises(UserError, match="problem 'short' has no example in its eval split"):
        short.existing_filepaths(folders[0], "eval")


def test_base_classes_have_t2ts_members(usr, caplog):
    usr(
        """
import tensorflow as tf

@registry.register_problem
class Asking(Base):
  def __init__(self, *args, **kwargs):
    super(Asking, self).__init__(*args, **kwargs)
    self.pattern = self.filepattern("d", problem.DatasetSplit.TEST, shard=3)
    self.turned = self.maybe_reverse_and_copy({"inputs": 1, "targets": 2})

  def max_length(self, model_hparams):
    return super(Asking, self).max_length(model_hparams) * 2

  @property
  def decode_hooks(self):
    return super(Asking, self).decode_hooks + [print]

  def eval_metric_fns(self, model_hparams):
    return dict(super(Asking, self).eval_metric_fns(model_hparams), mine=print)

  def example_reading_spec(self):
    fields, decoders = super(Asking, self).example_reading_spec()
    fields["inputs"] = tf.io.VarLenFeature(tf.int64)
    return fields, decoders
"""
    )
    found = registry.problem("asking_rev")
    assert found.upstream.pattern == "d/asking-test-00003*"
    assert found.upstream.turned == {"inputs": 2, "targets": 1}
    found.require_supported()
    assert "not called here: decode_hooks, eval_metric_fns, max_length" in caplog.text


def test_problems_are_made_with_keywords(usr):
    usr(
        """
@registry.register_problem
class TakesAll(Base):
  def __init__(self, size=3, **forms):
    super().__init__(**forms)
    self.size = size

@registry.register_problem
class TakesNone(Base):
  def __init__(self, model_dir):
    super().__init__()
"""
    )
    found = registry.problem("takes_all_rev")
    assert (found.upstream.size, found.was_reversed, found.upstream.was_reversed) == (3, True, True)
    with pytest.raises(
        UserError, match=r"usr_members\.TakesNone .*was_reversed and was_copy alone"
    ):
        registry.problem("takes_none")


def test_files_of_another_tool_may_be_more_or_fewer(usr, folders, tmp_path):
    usr("registry.register_problem('made_elsewhere')(Base)")
    found = generate("made_elsewhere", folders)
    expected = decoded_pairs(found, folders[0], "train")
    for number in range(2):
        path = tmp_path / "data" / f"made_elsewhere-train-0000{number}-of-00002"
        path.rename(path.with_name(f"made_elsewhere-train-0000{number + 1}-of-00003"))
    with pytest.raises(UserError, match=r"train-00000-of-00002 is missing"):
        decoded_pairs(found, folders[0], "train")
    (tmp_path / "data" / "made_elsewhere-train-00000-of-00003").touch()
    assert decoded_pairs(found, folders[0], "train") == expected
