"""User directories of 2017 to 2020: their metrics, modalities, hparams sets and optimizers."""

import logging
import pathlib
from collections.abc import Callable

import pytest

from support.usr_dirs import TOP, import_usr_dir
from t2t_lite import registry
from t2t_lite.errors import UsageError, UserError
from t2t_lite.hparams.ranges import ranges_of
from t2t_lite.training.optimizers import make_optimizer

Directory = Callable[[str], None]


@pytest.fixture
def directory(upstream, tmp_path: pathlib.Path) -> Directory:
    """Returns a function that imports a user directory with the given source."""
    return lambda source: import_usr_dir(tmp_path / "usr_written", source)


# ---- metrics and modalities


def test_every_metric_of_t2t_has_a_name(directory, caplog):
    names = "[metrics.Metrics.ROUGE_L_F, metrics.Metrics.SET_RECALL, metrics.Metrics.ACC]"
    members = f"  def eval_metrics(self):\n    return {names}\n"
    directory(f"{TOP}@registry.register_problem\nclass UsrSummary(Base):\n{members}")
    with caplog.at_level(logging.WARNING):
        assert registry.problem("usr_summary").metrics == ["rouge_l", "accuracy"]
    assert "usr_summary: metrics without counterpart: set_recall" in caplog.text


_MODALITIES = """
Base.vocab_type = text_problems.VocabType.CHARACTER

@registry.register_problem
class UsrClass(Base):
  def hparams(self, defaults, unused_model_hparams):
    defaults.modality = {"inputs": modalities.SymbolModality, "targets": modalities.SymbolModality}
    defaults.vocab_size = {"inputs": 300, "targets": 310}

@registry.register_problem
class UsrObject(Base):
  def hparams(self, defaults, model_hparams):
    defaults.modality = {
        "inputs": modalities.SymbolModality(model_hparams, 300),
        "targets": modalities.SymbolModality(model_hparams, vocab_size=310)}

@registry.register_problem
class UsrPair(Base):
  def hparams(self, defaults, unused_model_hparams):
    defaults.input_modality = {"inputs": (registry.Modalities.SYMBOL, 300)}
    defaults.target_modality = (registry.Modalities.SYMBOL, 310)

@registry.register_problem
class UsrNamedPair(Base):
  def hparams(self, defaults, unused_model_hparams):
    defaults.input_modality = {"inputs": ("symbol:default", 300)}
    defaults.target_modality = ("symbol:default", 310)

@registry.register_problem
class UsrLabels(Base):
  def hparams(self, defaults, unused_model_hparams):
    defaults.modality = {"targets": modalities.ModalityType.MULTI_LABEL}

@registry.register_problem
class UsrImage(Base):
  def hparams(self, defaults, unused_model_hparams):
    defaults.input_modality = {"inputs": (registry.Modalities.IMAGE, None)}

@registry.register_problem
class UsrVideo(Base):
  def hparams(self, defaults, unused_model_hparams):
    defaults.modality = {"inputs": modalities.VideoModalityL1Raw}

class OwnSymbols(modalities.SymbolModality):
  def bottom(self, x):
    return x

@registry.register_problem
class UsrOwn(Base):
  def hparams(self, defaults, model_hparams):
    defaults.modality = {"inputs": OwnSymbols(model_hparams, 300)}
"""


@pytest.mark.parametrize("name", ["usr_class", "usr_object", "usr_pair", "usr_named_pair"])
def test_symbols_in_all_of_t2ts_manners(directory, name, tmp_path):
    directory(TOP + _MODALITIES)
    encoders = registry.problem(name).get_feature_encoders(str(tmp_path))
    assert {side: encoder.vocab_size for side, encoder in encoders.items()} == {
        "inputs": 300,
        "targets": 310,
    }


@pytest.mark.parametrize(
    ("name", "modality"),
    [
        ("usr_labels", "targets are 'multi_label'"),
        ("usr_image", "inputs are 'image'"),
        ("usr_video", "inputs are 'video_l1_raw'"),
        ("usr_own", "inputs are 'OwnSymbols'"),
    ],
)
def test_other_modalities_are_refused_when_they_are_chosen(directory, name, modality, tmp_path):
    directory(TOP + _MODALITIES)
    with pytest.raises(UserError, match=f"problem '{name}': {modality}; only sequences"):
        registry.problem(name).get_feature_encoders(str(tmp_path))


# ---- sets

_SETS = """
from tensor2tensor.models import lstm, transformer
from tensor2tensor.models.research import attention_lm, universal_transformer
from tensor2tensor.models.evolved_transformer import add_evolved_transformer_hparams
from tensor2tensor.models.transformer import transformer_tpu as base
from tensor2tensor.utils import registry

@registry.register_hparams
def usr_cubbitt():
  hparams = transformer.transformer_cubbitt()
  hparams.batch_size = 1500
  return hparams

@registry.register_hparams
def usr_tpu():
  hparams = base()
  hparams.max_length = 100
  return hparams

@registry.register_hparams
def usr_for_tpu():
  hparams = transformer.transformer_base_single_gpu()
  transformer.update_hparams_for_tpu(hparams)
  return hparams

@registry.register_hparams
def usr_universal():
  hparams = transformer.transformer_small()
  hparams.num_hidden_layers = 4
  hparams.add_hparam("usr_rate", 0.5)
  hparams = universal_transformer.update_hparams_for_universal_transformer(hparams)
  hparams.recurrence_type = "act"
  hparams.gate_ffn_layer = "dense"
  return hparams

@registry.register_hparams
def usr_evolved():
  return add_evolved_transformer_hparams(transformer.transformer_big())

@registry.register_hparams
def usr_lstm():
  hparams = lstm.lstm_attention_base()
  hparams.add_hparam("attention_mechanism", "luong")
  hparams.dropout = 0.3
  return hparams

@registry.register_hparams
def usr_prepend():
  return transformer.transformer_prepend()

@registry.register_hparams
def usr_area():
  return lstm.lstm_area_attention_base()

@registry.register_hparams
def usr_lm():
  return attention_lm.attention_lm_translation_full_attention()

@registry.register_ranged_hparams
def usr_range(rhp):
  transformer.transformer_base_range(rhp)
  rhp.set_float("learning_rate", 0.5, 2.0, scale=rhp.LOG_SCALE)
  rhp.set_float("weight_noise", 0.0, 0.1)
  rhp.set_int("num_sampled_classes", 0, 9)
  rhp.set_categorical("activation_dtype", ["float32", "bfloat16"])

@registry.register_ranged_hparams("transformer_tpu_range")
def usr_own_of_the_same_name(rhp):
  assert registry.ranged_hparams("usr_range") and "usr_range" in registry.list_ranged_hparams()
  rhp.set_discrete("num_heads", [2, 4], scale=rhp.LINEAR_SCALE, length=2)
"""


def test_sets_that_start_from_t2ts(directory):
    directory(_SETS)
    changed = {
        "usr_cubbitt": ("transformer_cubbitt", {"batch_size": 1500}),
        "usr_tpu": ("transformer_tpu", {"max_length": 100}),
        "usr_for_tpu": (
            "transformer_tpu",
            {"batch_size": 1024, "learning_rate_constant": 0.1},
        ),
        "usr_prepend": ("transformer_prepend_v2", {}),
        "usr_lm": ("attention_lm_translation_full_attention", {}),
        "usr_evolved": ("evolved_transformer_big", {}),
        "usr_lstm": ("lstm_seq2seq", {"attention_mechanism": "luong", "dropout": 0.3}),
    }
    for name, (parent, changes) in changed.items():
        assert registry.hparams(name) == registry.hparams(parent).copy(**changes), name
    universal = registry.hparams("usr_universal")
    expected = registry.hparams("adaptive_universal_transformer_small").copy(
        **{"num_hidden_layers": 4, "hidden_size": 256, "filter_size": 1024, "num_heads": 4},
        **{"num_rec_steps": 4, "act_max_steps": 8},
    )
    assert universal.to_dict() == {**expected.to_dict(), "usr_rate": 0.5}
    assert isinstance(universal, type(expected))


def test_sets_of_ranges_are_t2ts_with_this_packages_names_of_hparams(directory, caplog):
    directory(_SETS)
    known = registry.hparams("transformer_base").names()
    found = ranges_of("usr_range", known)
    assert [*found] == [*ranges_of("transformer_base_range", known), "dtype"]
    assert (found["learning_rate"].low, found["learning_rate"].high) == (0.5, 2.0)
    assert found["dtype"].choices == ("float32", "bfloat16")
    assert caplog.messages == [
        "hparams range usr_range: weight_noise is left out: only 0.0 is implemented",
        "hparams range usr_range: num_sampled_classes is left out: it has no effect here",
    ]
    assert ranges_of("transformer_tpu_range", known)["num_heads"].choices == (2, 4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("usr_area", "'lstm_area_attention_base' is not available: it needs attention to areas"),
        ("transformer_librispeech", "'transformer_librispeech' is not available: it needs speech"),
    ],
)
def test_sets_that_are_not_available_are_refused_when_chosen(directory, name, message):
    directory(_SETS)
    with pytest.raises(UsageError, match=message):
        registry.hparams(name)


def test_all_functions_of_sets_can_be_imported_at_once(directory):
    directory(
        """
        from tensor2tensor.models.transformer import *
        from tensor2tensor.utils import registry

        @registry.register_hparams
        def usr_starred():
          hparams = update_hparams_for_tpu(transformer_base_v2())
          hparams.hidden_size = 16
          return hparams

        @registry.register_hparams("transformer_prepend")
        def own():
          return transformer_tiny()
        """
    )
    assert registry.hparams("usr_starred").optimizer == "adafactor"
    assert registry.hparams("transformer_prepend") == registry.hparams("transformer_tiny")


@pytest.mark.parametrize("module", ["transformer", "lstm", "research.universal_transformer"])
def test_what_t2ts_modules_import_comes_with_all_their_names(directory, module):
    directory(
        f"""
        from tensor2tensor.models.{module} import *

        @registry.register_model
        class UsrModel(t2t_model.T2TModel):
          def body(self, features):
            return common_layers.dense(features["inputs"], 3)

        @registry.register_model
        class UsrTransformer(Transformer):
          encoder = staticmethod(transformer_encoder)

        @registry.register_hparams
        def usr_of_all():
          tf.logging.info("made")
          hparams = transformer_base()
          hparams.hidden_size = int(common_hparams.basic_params1().hidden_size)
          hparams.symbol_modality_num_shards = len([modalities.ModalityType.SYMBOL])
          return hparams
        """
    )
    assert registry.hparams("usr_of_all").hidden_size == 64
    with pytest.raises(UsageError, match=r"'usr_model' .*t2t_model.*port the model"):
        registry.model("usr_model")
    with pytest.raises(UsageError, match=r"'usr_transformer' .*Transformer .*port the model"):
        registry.model("usr_transformer")


# ---- optimizers

_OPTIMIZERS = """
from tensor2tensor.models import transformer
from tensor2tensor.utils import registry

def tuned(optimizer):
  def make():
    hparams = transformer.transformer_small()
    hparams.optimizer = optimizer
    hparams.learning_rate_schedule = "legacy"
    hparams.learning_rate_decay_scheme = "noam"
    hparams.learning_rate_warmup_steps = 4000
    return hparams
  return make

for optimizer in (
    "Adam", "TrueAdam", "MultistepAdam", "AdamW", "Adafactor", "Momentum", "SGD", "YellowFin"):
  registry.register_hparams("usr_" + optimizer.lower())(tuned(optimizer))
"""


def test_optimizers_under_their_old_names(directory, caplog):
    directory(_OPTIMIZERS)
    old_names = ["Adam", "TrueAdam", "MultistepAdam", "AdamW", "Adafactor", "Momentum", "SGD"]
    names = ["adam", "true_adam", "multistep_adam", "adam_w", "adafactor", "momentum", "sgd"]
    for old, name in zip(old_names, names, strict=True):
        with caplog.at_level(logging.WARNING):
            hparams = registry.hparams(f"usr_{old.lower()}")
        assert hparams.optimizer == name
        assert f"optimizer={old}: an old name; write {name}" in caplog.text
        assert make_optimizer(hparams) is not None
        assert hparams == registry.hparams("transformer_small").copy(
            optimizer=name,
            learning_rate_schedule="legacy",
            learning_rate_decay_scheme="noam",
            learning_rate_warmup_steps=4000,
        )


def test_an_optimizer_that_is_not_here_is_named_with_those_that_are(directory):
    directory(_OPTIMIZERS)
    with pytest.raises(UsageError, match=r"=YellowFin: expected adam, .*adafactor"):
        make_optimizer(registry.hparams("usr_yellowfin"))
