"""Training speed of ConvS2S compared with the same model in PyTorch.

    pip install -e '.[bench]'
    python benchmarks/conv_s2s_throughput.py

prints a table for each size. The programs take turns in the same run; the ratio is our speed
over PyTorch's: the median of the rounds and their range.

The PyTorch module computes what fairseq's `fconv` does: weight norm on every linear map and
convolution, attention in every decoder layer, dropout in the same places. Its convolutions are
`nn.Conv1d`: on one CPU thread, forward and backward took half as long as with `torch.conv_tbc`,
which fairseq calls. It runs eagerly and compiled, with fused Adam. All see the same sentences,
smooth labels, and compute no logits for padding.

On a machine with other load, `taskset -c 1 python ...` measures one thread of each: PyTorch's
threads wait for each other at every operation, so that other load slows it more than us.
"""

import dataclasses
import functools

import pairing
import peers
import training_contenders as contenders


@dataclasses.dataclass(frozen=True)
class Size:
    """Sizes of a model with layers of one width."""

    channels: int  # of embeddings, layers and softmax
    encoder_layers: int
    decoder_layers: int
    kernel_size: int
    vocabulary: int

    @property
    def shape(self) -> contenders.Shape:
        """Sizes of the batches."""
        return contenders.Shape(
            self.encoder_layers, self.channels, 0, 1, self.vocabulary, sentences=128, length=32
        )

    @property
    def hparams(self) -> dict[str, object]:
        """Changes to `conv_s2s_multi30k`."""
        return {
            "hidden_size": self.channels,
            "encoder_layers": f"{self.channels}x{self.kernel_size}*{self.encoder_layers}",
            "decoder_layers": f"{self.channels}x{self.kernel_size}*{self.decoder_layers}",
            "shared_embedding_and_softmax_weights": False,
            "dropout": contenders.DROPOUT,
            "label_smoothing": contenders.SMOOTHING,
        }


SIZES = {
    "multi30k": Size(128, 4, 3, 3, 10_000),
    "iwslt": Size(256, 4, 3, 3, 10_000),
    "wide": Size(512, 4, 4, 3, 32_000),
}


def prepare_ours(size: Size) -> pairing.Step:
    """Our model and training step."""
    return contenders.prepare_model("conv_s2s", "conv_s2s_multi30k", size.hparams, size.shape)


def prepare_pytorch(size: Size, is_compiled: bool = False) -> pairing.Step:
    """The same model and step in PyTorch."""
    from pytorch_conv_s2s import ConvS2S

    peers.start_torch()
    model = ConvS2S(
        size.vocabulary,
        size.channels,
        size.kernel_size,
        size.encoder_layers,
        size.decoder_layers,
        contenders.DROPOUT,
    )
    # It reads EOS first.
    return peers.torch_step(model, model.softmax, size.shape, 1, is_compiled=is_compiled)


def main() -> None:
    """Prints the table."""
    pairs = {
        name: (functools.partial(prepare_ours, size), functools.partial(prepare_pytorch, size))
        for name, size in SIZES.items()
    }
    peers.print_table(pairs, peers.parser(__doc__, SIZES).parse_args())


if __name__ == "__main__":
    main()
