"""User directories of 2017 to 2020 are imported: models, TensorFlow 1, modules beside them."""

import importlib
import subprocess
import sys

import pytest
import tensorflow as tf

from support.usr_dirs import import_usr_dir, write_usr_dir
from t2t_lite import registry, user_imports, usr_dirs
from t2t_lite.bin.registry_help import registry_help
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.records import read_examples
from t2t_lite.errors import UsageError, UserError
from t2t_lite.training.optimizers import make_optimizer

_HEAD = """
from tensor2tensor.data_generators import problem, text_problems
from tensor2tensor.utils import registry
import tensorflow as tf
"""


def test_a_model_beside_a_problem_is_refused_alone(upstream, tmp_path):
    text = """
import functools
from tensor2tensor.layers import common_attention, common_layers, modalities
from tensor2tensor.models.transformer import Transformer
from tensor2tensor.rl.envs import simulated
from tensor2tensor.utils import expert_utils, t2t_model
from tensor2tensor.visualization import visualization

CONV = functools.partial(common_layers.conv, 3)
KIND = common_attention.AttentionType.GLOBAL

@expert_utils.add_name_scope()
def named(x, act=common_layers.belu):
    return common_attention.attention_bias(x)

@registry.register_model
class UsrNet(t2t_model.T2TModel):
    def body(self, features):
        return features

@registry.register_model("usr_own_name")
class Another(Transformer):
    default = Transformer.body

@registry.register_problem
class UsrPairs(text_problems.Text2TextProblem):
    pass

assert not isinstance(1, t2t_model.T2TModel)
"""
    import_usr_dir(tmp_path / "usr_model", init="from . import both", both=_HEAD + text)
    assert "usr_pairs" in registry.list_problems()
    assert "usr_net" not in registry.list_models()
    assert "do not run here:\n    * usr_net\n    * usr_own_name" in registry_help()
    for name, missing in (("usr_net", "T2TModel"), ("usr_own_name", "Transformer")):
        with pytest.raises(UsageError, match=rf"{name}.*{missing}.*docs/extending\.md"):
            registry.require_model(name)
    both = sys.modules["usr_model.both"]
    for use in (both.CONV, both.UsrNet, lambda: both.named(1)):
        with pytest.raises(UsageError, match=r"docs/extending\.md"):
            use()
    with pytest.raises(UsageError, match=r"attention_bias .*used in .*both\.py, line \d+\)"):
        both.named(1)


def test_names_of_tensorflow_1_are_the_users_alone(upstream, tmp_path):
    text = """
from tensorflow import gfile
import tensorflow.contrib.layers as contrib_layers
import tensorflow.compat.v1 as tf1

FLAGS = tf.flags.FLAGS
FEATURES = {"inputs": tf.VarLenFeature(tf.int64), "size": tf.FixedLenFeature([], tf.int64)}
MODE = tf.estimator.ModeKeys.TRAIN
HPARAMS = tf.contrib.training.HParams(size=3)
tf.logging.set_verbosity(tf.logging.INFO)

class Cell(tf.contrib.rnn.RNNCell):
    pass

def read(path):
    import tensorflow as inner
    with inner.gfile.Open(path) as one, gfile.GFile(path) as two, tf1.gfile.Open(path) as three:
        return one.read() + two.read() + three.read()

def wrong():
    return tf.contrib.layers.fully_connected(1)
"""
    import_usr_dir(tmp_path / "usr-dashed", init="from . import tf1", tf1=_HEAD.lstrip() + text)
    own = sys.modules["usr-dashed.tf1"]
    (tmp_path / "x.txt").write_text("a")
    assert own.read(str(tmp_path / "x.txt")) == "aaa"
    assert own.HPARAMS.size == 3
    assert own.tf.io.gfile.exists(str(tmp_path))
    for use in (own.Cell, own.wrong, own.contrib_layers.conv2d, own.tf.estimator.Estimator):
        with pytest.raises(UsageError, match=r"tensorflow\.\w+\.\w+.* is TensorFlow 1's"):
            use()
    with pytest.raises(UsageError, match=r"usr-dashed/tf1\.py, line 24"):
        own.wrong()
    assert not hasattr(importlib.import_module("tensorflow"), "gfile")


def test_switches_of_tensorflow_are_left_as_they_are(upstream, tmp_path):
    """Training here needs TensorFlow 2's ways; T2T's directories often choose the former ones."""
    text = """
import tensorflow.compat.v1 as tf1
from tensorflow.compat.v1 import disable_eager_execution

tf1.disable_v2_behavior()
tf.compat.v1.disable_resource_variables()
tf.disable_control_flow_v2()
tf.enable_eager_execution()
disable_eager_execution()
"""
    try:
        import_usr_dir(tmp_path / "usr_switches", init=_HEAD + text)
        assert tf.executing_eagerly()
        assert tf.compat.v1.resource_variables_enabled()
        assert tf.compat.v1.control_flow_v2_enabled()
    finally:
        tf.compat.v1.enable_v2_behavior()


def test_packages_that_t2t_installs_may_be_missing(upstream, tmp_path, monkeypatch):
    names = importlib.import_module("t2t_lite.interop.t2t.names")
    monkeypatch.setitem(names.TABLES["dependencies"], "usr_tfp", "usr-probability")
    text = """
import usr_tfp.layers
import usr_tfp as tfp
from usr_tfp import distributions as tfd
from usr_tfp.math import *
import usr_tfp.gin as gin

@gin.configurable
def density(x):
  return tfd.Normal(0., 1.).prob(x)

@registry.register_problem
class UsrBesideDensity(text_problems.Text2TextProblem):
  pass

try:
  import usr_other
except ImportError as error:
  OTHER = str(error)
"""
    import_usr_dir(tmp_path / "usr_density", init=_HEAD + text)
    assert "usr_beside_density" in registry.list_problems()
    module = sys.modules["usr_density"]
    assert module.OTHER == "No module named 'usr_other'"
    line = (_HEAD + text).split("\n").index("  return tfd.Normal(0., 1.).prob(x)") + 1
    with pytest.raises(UsageError) as raised:
        module.density(1)
    assert str(raised.value) == (
        "usr_tfp.distributions.Normal is of a package that T2T installs, but t2t_lite does not: "
        f"pip install usr-probability (used in {module.__file__}, line {line})"
    )


def test_modules_beside_a_linked_directory(upstream, tmp_path):
    (tmp_path / "usr_beside.py").write_text("import tensorflow as tf\nSIZE = 2**8\n")
    (tmp_path / "usr_late.py").write_text("import tensorflow as tf\nopen = tf.gfile.Open\n")
    write_usr_dir(
        tmp_path / "real",
        "import usr_beside\nSIZE = usr_beside.SIZE\n\n"
        "def late():\n    import usr_late\n    return usr_late.open\n",
    )
    (tmp_path / "usr_link").symlink_to("real")
    usr_dirs.import_usr_dir(str(tmp_path / "usr_link"))
    link = sys.modules["usr_link"]
    assert link.SIZE == 256
    assert link.late()


def test_modules_inside_a_directory_that_is_on_the_path(upstream, tmp_path, monkeypatch):
    folder = tmp_path / "usr_root"
    cells = "import tensorflow as tf\n\nclass Cell(tf.nn.rnn_cell.MultiRNNCell):\n    pass\n"
    write_usr_dir(folder / "usr_nets", "", cells=cells)
    write_usr_dir(folder / "lib", "", usr_reading="import tensorflow as tf\nread = tf.gfile.Open\n")
    monkeypatch.syspath_prepend(str(folder))
    import_usr_dir(
        folder,
        init="import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), 'lib'))\n"
        "import usr_nets.cells, usr_reading\n",
    )
    assert sys.modules["usr_reading"].read
    with pytest.raises(UsageError, match=r"rnn_cell\.MultiRNNCell is TensorFlow 1's"):
        sys.modules["usr_nets.cells"].Cell()


def test_modules_elsewhere_that_a_directory_imports(upstream, tmp_path, monkeypatch):
    """Such as those of a repository whose root is on the path; installed ones see TensorFlow 2."""
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    write_usr_dir(tmp_path / "lib" / "usr_lib", init="", reading="import tensorflow as tf\n")
    text = """
from usr_lib import reading
import absl.logging
SEES = hasattr(reading.tf, "gfile"), hasattr(absl.logging, "tf")
"""
    import_usr_dir(tmp_path / "deep" / "down" / "usr_rooted", init=text)
    assert sys.modules["usr_rooted"].SEES == (True, False)
    assert user_imports.is_users("usr_lib.reading")
    assert not user_imports.is_users("absl.logging")


def test_the_first_import_of_a_process_may_follow_a_user_directory(tmp_path):
    """As in a worker: the folders of libraries are known by then, since asking for them imports."""
    program = """
import sys
from t2t_lite import user_imports
user_imports.install(["usr_none"])
assert "colorsys" not in sys.modules
import colorsys
assert not user_imports.is_users("colorsys")
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


def test_no_hint_to_an_unrelated_neighbour(upstream, tmp_path):
    text = "from tensor2tensor.models.transformer import Transformer, transformer_base_v9\n"
    import_usr_dir(tmp_path / "usr_hint", init=text)
    for name in ("Transformer", "transformer_base_v9"):
        with pytest.raises(UsageError, match=name) as raised:
            getattr(sys.modules["usr_hint"], name)()
        assert "did you mean" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("print 'ready'\n", r"__init__\.py.* line 1.*Python 3"),
        ("x = 1\ny = unicode(x)\n", r"NameError.*__init__\.py, line 2"),
    ],
)
def test_python_2_is_named_with_its_line(upstream, tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        import_usr_dir(tmp_path / "usr_old", init=text)


@pytest.mark.parametrize("ending", ["Rev", "Copy"])
def test_a_problem_cannot_be_named_like_a_derived_one(upstream, tmp_path, ending):
    text = f"""from tensor2tensor.data_generators import text_problems
from tensor2tensor.utils import registry
@registry.register_problem
class UsrPoems{ending}(text_problems.Text2TextProblem):
    pass
"""
    with pytest.raises(UserError, match=rf"'usr_poems_{ending.lower()}'.*__init__\.py, line 3"):
        import_usr_dir(tmp_path / "usr_poems", init=text)


_HOOKS = """
from tensor2tensor.layers import common_layers, modalities
from tensor2tensor.models import transformer
from tensor2tensor.utils import modality

for hook in (registry.register_image_modality, registry.register_audio_modality,
             registry.register_video_modality, registry.register_generic_modality,
             registry.register_class_label_modality, registry.register_real_modality,
             registry.register_modality):
  @hook("usr_kind")
  class Kind(modality.Modality):
    @property
    def top_dimensionality(self):
      return self._vocab_size

  @hook
  class Bare(modality.Modality):
    pass

@registry.register_symbol_modality("usr_tied")
class Tied(modalities.SymbolModality):
  def bottom(self, x):
    return common_layers.dense(x, 4)

@registry.register_optimizer
def usr_descent(learning_rate, hparams):
  return tf.train.GradientDescentOptimizer(learning_rate)

@registry.register_attack_params
def usr_attack():
  return tf.contrib.training.HParams(attack_epsilon=1)

@registry.register_pruning_strategy("usr_pruning")
def pruned(weight, sparsity):
  return weight

@registry.register_env_problem
class UsrEnv(object):
  pass

registry.Registries.optimizers.register("usr_other")(usr_descent)

class Base(text_problems.Text2TextProblem):
  vocab_type = text_problems.VocabType.CHARACTER

@registry.register_problem
class UsrOfNames(Base):
  def hparams(self, p, unused_model_hparams):
    p.input_modality = {"inputs": ("symbol:usr_tied", 300)}
    p.target_modality = (registry.Modalities.SYMBOL, 300)

@registry.register_problem
class UsrOfClasses(Base):
  def hparams(self, p, unused_model_hparams):
    p.modality = {"inputs": modalities.ModalityType.SYMBOL, "targets": Tied}
    p.vocab_size = {"inputs": 300, "targets": 300}

@registry.register_problem
class UsrPlain(Base):
  pass

def changed(**fields):
  def make():
    hparams = transformer.transformer_tiny()
    for name, value in fields.items():
      setattr(hparams, name, value)
    return hparams
  return make

registry.register_hparams("usr_inputs")(changed(input_modalities="inputs:symbol:usr_tied"))
registry.register_hparams("usr_targets")(changed(target_modality="symbol:usr_tied"))
registry.register_hparams("usr_default")(
    changed(input_modalities="default", target_modality="default"))
registry.register_hparams("usr_descending")(changed(optimizer="usr_descent"))
"""


def test_what_only_t2ts_registry_takes_fails_only_when_chosen(upstream, tmp_path):
    import_usr_dir(tmp_path / "usr_hooks", init="from . import hooks", hooks=_HEAD + _HOOKS)
    encoders = registry.problem("usr_plain").get_feature_encoders(str(tmp_path))
    assert encoders["targets"].vocab_size == 258
    assert registry.hparams("usr_default") == registry.hparams("transformer_tiny")
    for name, message in (
        ("usr_of_names", "inputs are 'symbol:usr_tied'; only"),
        ("usr_of_classes", "targets are 'Tied'; only"),
    ):
        with pytest.raises(UserError, match=message):
            registry.problem(name).get_feature_encoders(str(tmp_path))
    for name, message in (
        ("usr_inputs", "input_modalities='inputs:symbol:usr_tied' is not implemented"),
        ("usr_targets", "target_modality='symbol:usr_tied' is not implemented"),
        ("usr_descending", "optimizer=usr_descent: expected adam, "),
    ):
        with pytest.raises(UsageError, match=message):
            make_optimizer(registry.hparams(name))


_ENCODER = """
import multiprocessing
import beside_of_usr
import tensorflow as tf
from tensor2tensor.data_generators import text_encoder

class Spelling(text_encoder.ByteTextEncoder):
  def __init__(self, path):
    super(Spelling, self).__init__()
    self.path = path
    with tf.gfile.Open(path) as lines:
      self.words = [line.strip() for line in lines]

  def encode(self, s):
    if multiprocessing.parent_process() is not None and not tf.gfile.Exists(self.path + ".worker"):
      tf.gfile.MakeDirs(self.path + ".worker")
    return super(Spelling, self).encode(beside_of_usr.spelt(s, self.words))
"""
_BESIDE = """
import tensorflow as tf

def spelt(text, words):
  tf.logging.debug(tf.compat.as_text(text))
  return " ".join(word for word in text.split() if word in words)
"""
_SPELT = """
from . import spelling

@registry.register_problem
class UsrSpelt(text_problems.Text2TextProblem):
  vocab_type = text_problems.VocabType.CHARACTER
  dataset_splits = [dict(split="train", shards=1)]

  def feature_encoders(self, data_dir):
    encoder = spelling.Spelling(data_dir + "/words.txt")
    return {"inputs": encoder, "targets": encoder}

  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    for _ in range(200):
      yield dict(inputs="a bad cat", targets="cat of a")
"""


@pytest.mark.integration
def test_workers_have_the_names_of_tensorflow_1(upstream, tmp_path, monkeypatch):
    (tmp_path / "beside_of_usr.py").write_text(_BESIDE)
    (tmp_path / "words.txt").write_text("a\ncat\n")
    import_usr_dir(
        tmp_path / "usr-spelt", init="from . import it", it=_HEAD + _SPELT, spelling=_ENCODER
    )
    monkeypatch.setattr(generator, "_CHUNK", 20)
    found = registry.problem("usr_spelt")
    generator.generate_data(found, str(tmp_path), str(tmp_path), DatagenOptions(num_workers=2))
    (path,) = found.existing_filepaths(str(tmp_path), "train")
    encoders = found.get_feature_encoders(str(tmp_path))
    assert all(encoders["inputs"].decode(one["inputs"]) == "a cat" for one in read_examples([path]))
    assert (tmp_path / "words.txt.worker").is_dir()  # another process has encoded


_TRACED = """
from . import scaling

def rate(step, warmup):
  return scaling.rising(step, warmup) if warmup > 0 else tf.to_float(step)
"""
_SCALING = """
import tensorflow as tf

def rising(step, warmup):
  if tf.less(step, warmup):
    share = tf.div(tf.to_float(step), tf.to_float(warmup))
  else:
    share = tf.constant(1.0)
  total = tf.to_int32(0)
  for number in tf.range(warmup):
    total += number
  tf.logging.info("traced")
  with tf.variable_scope("rate"), tf.name_scope("sum"):
    return share + tf.cast(total, tf.float32)
"""


@pytest.mark.integration
def test_autograph_converts_users_functions_with_names_of_tensorflow_1(upstream, tmp_path):
    import_usr_dir(tmp_path / "usr_traced", init=_HEAD + _TRACED, scaling=_SCALING)
    rate = tf.function(sys.modules["usr_traced"].rate)
    assert float(rate(tf.constant(1), tf.constant(4))) == 0.25 + 6
    assert float(rate(tf.constant(9), tf.constant(4))) == 1 + 6
    (mapped,) = tf.data.Dataset.from_tensors(2).map(
        lambda step: sys.modules["usr_traced"].rate(step, tf.constant(4))
    )
    assert float(mapped) == 0.5 + 6
