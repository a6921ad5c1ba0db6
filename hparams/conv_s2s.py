"""Hyperparameters of ConvS2S, and its registered sets: fairseq's, which differ from the paper's.

For EN-DE the paper (Gehring et al. 2017, section 5.1) describes 10 layers of 512 features, 3 of 768
and 2 of 2048; the sets here are those of fairseq's `fconv` models, which its authors released.
"""

import dataclasses
import re
from typing import Any, NamedTuple

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.multi30k import for_multi30k
from t2t_lite.settings import setting

_GROUP = re.compile(r"([1-9]\d*)x([1-9]\d*)(?:x(\d+))?(?:\*([1-9]\d*))?")


class LayerSize(NamedTuple):
    """The sizes of one convolutional layer."""

    channels: int  # features of the output
    kernel_size: int  # k: positions that an output sees
    residual: int = 1  # how many layers back the output is that is added; 0: none is


@dataclasses.dataclass
class ConvS2SHParams(BasicHParams):
    """Fields of ConvS2S in addition to those of every model; fairseq's names.

    Its `hidden_size` is the size of the embeddings.
    """

    encoder_layers: str = setting(
        "",
        "Groups of layers joined by +, each features x kernel such as 512x3; 512x3*9: 9 such "
        "layers; 512x3x2: adds the output of 2 layers back, 0: of none. Empty: num_hidden_layers "
        "of hidden_size x 3.",
        group="ConvS2S",
    )
    decoder_layers: str = setting("", "The decoder's layers, as for encoder_layers.")
    decoder_attention: str = setting(
        "", "1 (attention) or 0 for each decoder layer, joined by +; empty: all have attention."
    )
    decoder_out_embed_dim: int = setting(0, "Features before softmax; 0: hidden_size.", minimum=0)
    share_input_output_embed: bool = setting(False, "One matrix for targets and softmax.")
    dropout: float = setting(
        0.1, "Dropout of embeddings, and of inputs of convolutions and softmax.", minimum=0, below=1
    )

    def model_fields(self) -> dict[str, Any]:
        """Returns the fields that describe the model; its positions are learned."""
        return super().model_fields() | {"max_length": self.max_length}

    @property
    def embedding_stddev(self) -> float | None:
        """Standard deviation of initial embeddings, of words and of positions."""
        return 0.1

    @property
    def softmax_size(self) -> int:
        """Features before the softmax."""
        return self.decoder_out_embed_dim or self.hidden_size

    def encoder_sizes(self) -> list[LayerSize]:
        """Returns the sizes of the encoder's layers, from the bottom."""
        return self._sizes("encoder_layers")

    def decoder_sizes(self) -> list[LayerSize]:
        """Returns the sizes of the decoder's layers, from the bottom."""
        return self._sizes("decoder_layers")

    def attends(self) -> list[bool]:
        """Returns which decoder layers attend to the source.

        Raises:
            UsageError: `decoder_attention` does not say it of each layer, or none does.
        """
        layers, flags = len(self.decoder_sizes()), self.decoder_attention
        found = flags.split("+") if flags else ["1"] * layers
        if len(found) != layers or not set(found) <= {"0", "1"} or "1" not in found:
            raise UsageError(
                f"hparam decoder_attention={flags!r}: expected 1 (attention) or 0 for each of the "
                f"{layers} decoder layers, at least one 1, joined by +"
            )
        return [flag == "1" for flag in found]

    def _sizes(self, name: str) -> list[LayerSize]:
        text = getattr(self, name) or f"{self.hidden_size}x3*{self.num_hidden_layers}"
        sizes: list[LayerSize] = []
        for group in text.split("+"):
            found = _GROUP.fullmatch(group.strip())
            if found is None:
                raise UsageError(
                    f"hparam {name}={text!r}: expected groups such as 512x3*9 (9 layers of 512 "
                    f"features and kernel 3), joined by +; got {group.strip()!r}"
                )
            channels, kernel_size, residual, layers = found.groups()
            size = LayerSize(int(channels), int(kernel_size), int(residual or 1))
            sizes += [size] * int(layers or 1)
        for number, size in enumerate(sizes, 1):
            if size.residual > number:
                raise UsageError(
                    f"hparam {name}={text!r}: layer {number} has no output {size.residual} layers "
                    "back to add"
                )
        return sizes


_EN_DE = "512x3*9+1024x3*4+2048x1*2"
_EN_FR = "512x3*6+768x3*4+1024x3*3+2048x1+4096x1"


@registry.register_hparams
def conv_s2s_iwslt_de_en() -> ConvS2SHParams:
    """Fairseq's `fconv_iwslt_de_en`: 4 and 3 layers of 256 features.

    Trained as in the paper: Nesterov's momentum, the gradient clipped at a norm of 0.1. There is no
    schedule: train until the loss on the dev set stops falling, then go on with a tenth of
    `learning_rate_constant`.
    """
    return ConvS2SHParams(
        hidden_size=256,
        encoder_layers="256x3*4",
        decoder_layers="256x3*3",
        dropout=0.2,
        multiply_embedding_mode="none",
        batch_size=4000,
        max_length=1024,
        clip_grad_norm=0.1,
        optimizer="momentum",
        optimizer_momentum_momentum=0.99,
        optimizer_momentum_nesterov=True,
        learning_rate_schedule="constant",
        learning_rate_constant=0.25,
    )


@registry.register_hparams
def conv_s2s_wmt_en_de() -> ConvS2SHParams:
    """Fairseq's `fconv_wmt_en_de`: 15 layers of 512 to 2048 features in each stack."""
    return conv_s2s_iwslt_de_en().copy(
        hidden_size=768,
        encoder_layers=_EN_DE,
        decoder_layers=_EN_DE,
        decoder_out_embed_dim=512,
    )


@registry.register_hparams
def conv_s2s_wmt_en_fr() -> ConvS2SHParams:
    """Fairseq's `fconv_wmt_en_fr`: 15 layers of 512 to 4096 features in each stack."""
    return conv_s2s_wmt_en_de().copy(
        encoder_layers=_EN_FR, decoder_layers=_EN_FR, dropout=0.1, batch_size=3000
    )


@registry.register_hparams
def conv_s2s_multi30k() -> ConvS2SHParams:
    """For 29,000 captions: 4 and 3 layers of 128 features; see `for_multi30k`."""
    small = ConvS2SHParams(
        hidden_size=128,
        encoder_layers="128x3*4",
        decoder_layers="128x3*3",
        dropout=0.3,
        multiply_embedding_mode="none",
    )
    return for_multi30k(small, learning_rate=0.005)
