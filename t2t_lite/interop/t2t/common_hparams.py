"""T2T's set of basic hyperparameters."""

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.lstm import LSTMHParams
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.interop.t2t.hparam import HParams
from t2t_lite.settings import HParams as Settings

__all__ = ["basic_params1"]


# Every Transformer needs them, and no other model of T2T's needs both.
_OF_TRANSFORMERS = frozenset({"filter_size", "num_heads"})


class _BasicParams(HParams):
    """The set of an LSTM, or of a Transformer once its fields are added."""

    def to_settings(self, name: str) -> Settings:
        """Returns the set that is trained; see `HParams.to_settings`."""
        if not self._set >= _OF_TRANSFORMERS:
            return super().to_settings(name)
        hparams = HParams.of(TransformerHParams())
        for field, value in self.values().items():
            if field in self._set and field not in hparams:
                hparams.add_hparam(field, value)
            elif field in self._set or field in BasicHParams.names():
                setattr(hparams, field, value)
        return hparams.to_settings(name)


def basic_params1() -> HParams:
    """Returns the fields of every model, with T2T's values where they differ from ours.

    Of T2T's models for text, `lstm_seq2seq` alone needs no others, and reads `dropout` among them.
    """
    return _BasicParams.of(
        LSTMHParams(
            num_hidden_layers=4,
            hidden_size=64,
            max_length=0,
            optimizer_adam_beta1=0.85,
            optimizer_adam_beta2=0.997,
            weight_decay=1e-6,
        )
    )
