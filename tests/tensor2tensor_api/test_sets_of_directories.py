"""User directories of 2017 to 2020: their metrics, modalities, hparams sets and optimizers."""

import logging
import pathlib
import textwrap
from collections.abc import Callable

import pytest

from t2t_lite import registry
from t2t_lite.errors import UserError

Directory = Callable[[str], None]

_PROBLEM = """
from tensor2tensor.data_generators import problem, text_problems
from tensor2tensor.layers import modalities
from tensor2tensor.utils import metrics, registry

class Base(text_problems.Text2TextProblem):
  @property
  def approx_vocab_size(self):
    return 2**8
  def is_generate_per_split(self):
    return False
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    yield {"inputs": "a b", "targets": "b a"}
  def feature_encoders(self, data_dir):
    from tensor2tensor.data_generators import text_encoder
    return {"inputs": text_encoder.ByteTextEncoder(), "targets": text_encoder.ByteTextEncoder()}
"""


@pytest.fixture
def directory(upstream, tmp_path: pathlib.Path) -> Directory:
    """Returns a function that imports a user directory with the given source."""

    def make(source: str) -> None:
        folder = tmp_path / "usr_written"
        folder.mkdir()
        (folder / "__init__.py").write_text(textwrap.dedent(source), encoding="utf-8")
        registry.import_usr_dir(str(folder))

    return make


# ---- metrics and modalities


def test_every_metric_of_t2t_has_a_name(directory, caplog):
    directory(
        _PROBLEM
        + """
@registry.register_problem
class UsrSummary(Base):
  def eval_metrics(self):
    return [metrics.Metrics.ROUGE_L_F, metrics.Metrics.SET_RECALL, metrics.Metrics.ACC]
"""
    )
    with caplog.at_level(logging.WARNING):
        assert registry.problem("usr_summary").metrics == ["rouge_l", "accuracy"]
    assert "usr_summary: metrics without counterpart: set_recall" in caplog.text


_MODALITIES = (
    _PROBLEM
    + """
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
)


@pytest.mark.parametrize("name", ["usr_class", "usr_object", "usr_pair", "usr_named_pair"])
def test_symbols_in_all_of_t2ts_manners(directory, name, tmp_path):
    directory(_MODALITIES)
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
    directory(_MODALITIES)
    with pytest.raises(UserError, match=f"problem '{name}': {modality}; only sequences"):
        registry.problem(name).get_feature_encoders(str(tmp_path))
