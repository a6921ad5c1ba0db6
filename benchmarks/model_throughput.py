"""Training speed of ConvS2S and GNMT compared with the same models in PyTorch.

    pip install -e '.[bench]'
    python benchmarks/model_throughput.py

prints a table for each case. The programs take turns in the same run; the ratio is our speed
over PyTorch's: the median of the rounds and their range. PyTorch's modules are described in
`pytorch_conv_s2s.py` and `pytorch_gnmt.py`; they run eagerly and compiled, with fused Adam. All see
the same sentences, smooth labels, and compute no logits for padding.

- `conv_s2s_...`: layers of one width. The convolutions are `nn.Conv1d`: on one CPU thread, forward
  and backward took half as long as with `torch.conv_tbc`, which fairseq calls.
- `gnmt_...`: equal numbers of parameters; the encoder's final states are passed on, and gradients
  clipped. `gnmt_unfed` is without input feeding, `gnmt_old` the architecture of that name.

On a machine with other load, `taskset -c 1 python ...` measures one thread of each: PyTorch's
threads wait for each other at every operation, so that other load slows it more than us.
"""

import dataclasses
import functools

import pairing
import peers
import report
import training_contenders as contenders
from peers import COMPILED, OURS, PYTORCH


@dataclasses.dataclass(frozen=True)
class ConvS2S:
    """Sizes of a ConvS2S with layers of one width."""

    channels: int  # of embeddings, layers and softmax
    encoder_layers: int = 4
    decoder_layers: int = 3
    vocabulary: int = 10_000
    kernel_size: int = 3

    @property
    def shape(self) -> contenders.Shape:
        """Sizes of the batches."""
        return _shape(self.encoder_layers, self.channels, self.vocabulary)

    def prepare_ours(self) -> pairing.Step:
        """Our model and training step."""
        layer = f"{self.channels}x{self.kernel_size}"
        changes = {
            "hidden_size": self.channels,
            "encoder_layers": f"{layer}*{self.encoder_layers}",
            "decoder_layers": f"{layer}*{self.decoder_layers}",
            "shared_embedding_and_softmax_weights": False,
            **_COMMON,
        }
        return contenders.prepare_model("conv_s2s", "conv_s2s_multi30k", changes, self.shape)

    def prepare_pytorch(self, is_compiled: bool = False) -> pairing.Step:
        """The same model and step in PyTorch; it reads EOS first."""
        import pytorch_conv_s2s

        peers.start_torch()
        sizes = self.kernel_size, self.encoder_layers, self.decoder_layers
        model = pytorch_conv_s2s.ConvS2S(self.vocabulary, self.channels, *sizes, contenders.DROPOUT)
        return peers.torch_step(model, model.softmax, self.shape, 1, is_compiled=is_compiled)


@dataclasses.dataclass(frozen=True)
class GNMT:
    """Sizes and form of a GNMT."""

    channels: int
    layers: int  # in each of encoder and decoder
    architecture: str = "gnmt_v2"
    input_feeding: bool = True
    vocabulary: int = 10_000
    clip_norm: float = 2.0

    @property
    def shape(self) -> contenders.Shape:
        """Sizes of the batches."""
        return _shape(self.layers, self.channels, self.vocabulary)

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        d, cells = self.channels, 4 * self.channels

        def lstm(inputs: int) -> int:
            return cells * (inputs + d + 2)

        encoder = self.layers * lstm(d) + lstm(2 * d)
        decoder = lstm(2 * d if self.input_feeding else d) + (self.layers - 1) * lstm(2 * d)
        attention = 2 * d * d + 2 * d + 1
        return self.vocabulary * d + encoder + attention + decoder

    def prepare_ours(self) -> pairing.Step:
        """Our model and training step."""
        changes = {
            "hidden_size": self.channels,
            "num_hidden_layers": self.layers,
            "attention_architecture": self.architecture,
            "input_feeding": self.input_feeding,
            "second_bias": True,  # as PyTorch's LSTMs
            "clip_grad_norm": self.clip_norm,
            **_COMMON,
        }
        return contenders.prepare_model(
            "gnmt", "gnmt_multi30k", changes, self.shape, parameters=self.parameters
        )

    def prepare_pytorch(self, is_compiled: bool = False) -> pairing.Step:
        """The same model and step in PyTorch."""
        import pytorch_gnmt

        peers.start_torch()
        model = pytorch_gnmt.GNMT(
            self.vocabulary,
            self.channels,
            self.layers,
            contenders.DROPOUT,
            delayed=self.architecture == "gnmt",
            input_feeding=self.input_feeding,
        )
        assert sum(weight.numel() for weight in model.parameters()) == self.parameters
        return peers.torch_step(
            model, model.softmax, self.shape, 0, clip_norm=self.clip_norm, is_compiled=is_compiled
        )


_COMMON = {"dropout": contenders.DROPOUT, "label_smoothing": contenders.SMOOTHING}


def _shape(layers: int, channels: int, vocabulary: int) -> contenders.Shape:
    return contenders.Shape(layers, channels, 0, 1, vocabulary, sentences=128, length=32)


CASES: dict[str, ConvS2S | GNMT] = {
    "conv_s2s_128": ConvS2S(128),
    "conv_s2s_256": ConvS2S(256),
    "conv_s2s_512": ConvS2S(512, decoder_layers=4, vocabulary=32_000),
    "gnmt_256": GNMT(256, 3),
    "gnmt_unfed": GNMT(256, 3, input_feeding=False),
    "gnmt_old": GNMT(256, 3, architecture="gnmt"),
    "gnmt_512": GNMT(512, 4),
}


def main() -> None:
    """Prints the comparison of each case."""
    args = report.parser(__doc__, rounds=7, seconds=6.0, cases=CASES).parse_args()
    bars = (report.Bar(OURS, PYTORCH), report.Bar(OURS, COMPILED))
    with report.opened(args) as add_case:
        for name in args.only:
            case = CASES[name]
            prepare = {
                OURS: case.prepare_ours,
                PYTORCH: case.prepare_pytorch,
                COMPILED: functools.partial(case.prepare_pytorch, is_compiled=True),
            }
            found = pairing.compare(prepare, args.rounds, args.seconds)
            add_case(report.Case(name, found, bars))


if __name__ == "__main__":
    main()
