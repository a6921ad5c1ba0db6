"""Training speed of GNMT compared with the same model in PyTorch.

    pip install -e '.[bench]'
    python benchmarks/gnmt_throughput.py
    python benchmarks/gnmt_throughput.py --architecture=gnmt --input_feeding=0

prints a table for each size. The programs take turns in the same run; the ratio is our speed
over PyTorch's: the median of the rounds and their range.

`pytorch_gnmt.py` describes the PyTorch module. It runs eagerly and compiled, with fused Adam. All
have the same number of parameters, see the same sentences, pass the encoder's final states on,
smooth labels, clip gradients, and compute no logits for padding.

On a machine with other load, `taskset -c 1 python ...` measures one thread of each.
"""

import dataclasses
import functools

import pairing
import peers
import training_contenders as contenders

CLIP_NORM = 2.0


@dataclasses.dataclass(frozen=True)
class Size:
    """Sizes and form of a model."""

    channels: int
    layers: int  # in each of encoder and decoder
    vocabulary: int
    architecture: str = "gnmt_v2"
    input_feeding: bool = True

    @property
    def shape(self) -> contenders.Shape:
        """Sizes of the batches."""
        return contenders.Shape(
            self.layers, self.channels, 0, 1, self.vocabulary, sentences=128, length=32
        )

    @property
    def hparams(self) -> dict[str, object]:
        """Changes to `gnmt_multi30k`."""
        return {
            "hidden_size": self.channels,
            "num_hidden_layers": self.layers,
            "attention_architecture": self.architecture,
            "input_feeding": self.input_feeding,
            "second_bias": True,  # as PyTorch's LSTMs
            "dropout": contenders.DROPOUT,
            "label_smoothing": contenders.SMOOTHING,
            "clip_grad_norm": CLIP_NORM,
        }

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


SIZES = {"multi30k": Size(256, 3, 10_000), "wide": Size(512, 4, 10_000)}


def prepare_ours(size: Size) -> pairing.Step:
    """Our model and training step."""
    return contenders.prepare_model(
        "gnmt", "gnmt_multi30k", size.hparams, size.shape, parameters=size.parameters
    )


def prepare_pytorch(size: Size, is_compiled: bool = False) -> pairing.Step:
    """The same model and step in PyTorch."""
    from pytorch_gnmt import GNMT

    peers.start_torch()
    model = GNMT(
        size.vocabulary,
        size.channels,
        size.layers,
        contenders.DROPOUT,
        delayed=size.architecture == "gnmt",
        input_feeding=size.input_feeding,
    )
    assert sum(weight.numel() for weight in model.parameters()) == size.parameters
    return peers.torch_step(
        model, model.softmax, size.shape, 0, clip_norm=CLIP_NORM, is_compiled=is_compiled
    )


def main() -> None:
    """Prints the table."""
    flags = peers.parser(__doc__, SIZES)
    flags.add_argument("--architecture", choices=("gnmt", "gnmt_v2"), default="gnmt_v2")
    flags.add_argument("--input_feeding", type=int, choices=(0, 1), default=1)
    args = flags.parse_args()
    form = {"architecture": args.architecture, "input_feeding": bool(args.input_feeding)}
    sizes = {name: dataclasses.replace(size, **form) for name, size in SIZES.items()}
    pairs = {
        name: (functools.partial(prepare_ours, size), functools.partial(prepare_pytorch, size))
        for name, size in sizes.items()
    }
    peers.print_table(pairs, args)


if __name__ == "__main__":
    main()
