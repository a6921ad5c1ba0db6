"""Training speed of ConvS2S compared with the same model in PyTorch.

    pip install -e '.[bench]'
    python benchmarks/conv_s2s_throughput.py

prints one line for each size. The two programs take turns in the same run; the ratio is our speed
over PyTorch's: the median of the rounds and their range.

The PyTorch module computes what fairseq's `fconv` does: weight norm on every linear map and
convolution, attention in every decoder layer, dropout in the same places. Its convolutions are
`nn.Conv1d`: on one CPU thread, forward and backward took half as long as with `torch.conv_tbc`,
which fairseq calls. It runs eagerly, with fused Adam. Both see the same sentences, smooth labels,
and compute no logits for padding.

On a machine with other load, `taskset -c 1 python ...` measures one thread of each: PyTorch's
threads wait for each other at every operation, so that other load slows it more than us.
"""

import argparse
import dataclasses
import functools
import itertools
import math
import platform

import pairing
import training_contenders as contenders

OURS, PYTORCH = "t2t_lite", "PyTorch"
HALVED = math.sqrt(0.5)


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


def prepare_pytorch(size: Size) -> pairing.Step:
    """The same model and step in PyTorch."""
    import torch
    from torch import nn
    from torch.nn.utils.parametrizations import weight_norm

    torch.set_num_threads(contenders.THREADS)
    torch.manual_seed(1)
    d, k, dropout = size.channels, size.kernel_size, nn.Dropout(contenders.DROPOUT)

    def linear(outputs: int = d) -> nn.Module:
        return weight_norm(nn.Linear(d, outputs))

    class Layer(nn.Module):
        """Convolution and GLU: [B, T, d] to the same; causal ones see k - 1 earlier positions."""

        def __init__(self, causal: bool) -> None:
            super().__init__()
            before = k - 1 if causal else k // 2
            self.convolution = weight_norm(nn.Conv1d(d, 2 * d, k, padding=before))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.convolution(x.transpose(1, 2))[..., : x.shape[1]]
            return nn.functional.glu(y, dim=1).transpose(1, 2)

    class Embedding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(size.vocabulary, d, padding_idx=0)
            self.positions = nn.Embedding(256, d)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            positions = torch.arange(ids.shape[1])
            return dropout(self.words(ids) + self.positions(positions))

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.start, self.end = Embedding(), linear(), linear()
            self.layers = nn.ModuleList(Layer(causal=False) for _ in range(size.encoder_layers))

        def forward(
            self, ids: torch.Tensor, padding: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            embedded = self.embedding(ids)
            hidden = padding[..., None]
            x = self.start(embedded)
            for layer in self.layers:
                x = (layer(dropout(x.masked_fill(hidden, 0))) + x) * HALVED
            z = self.end(x).masked_fill(hidden, 0)
            scale = 0.5 / size.decoder_layers  # of the gradient
            z = z.detach() + scale * (z - z.detach())
            return z, (z + embedded) * HALVED

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.start, self.end = Embedding(), linear(), linear()
            self.softmax = linear(size.vocabulary)
            self.layers = nn.ModuleList(
                nn.ModuleList((Layer(causal=True), linear(), linear()))
                for _ in range(size.decoder_layers)
            )

        def forward(
            self,
            ids: torch.Tensor,
            keys: torch.Tensor,
            values: torch.Tensor,
            padding: torch.Tensor,
        ) -> torch.Tensor:
            embedded = self.embedding(ids)
            keys = keys.transpose(1, 2).contiguous()
            root = (~padding).sum(1).sqrt()[:, None, None]
            x = self.start(embedded)
            for layer, query, output in self.layers:
                y = layer(dropout(x))
                scores = torch.bmm((query(y) + embedded) * HALVED, keys)
                scores = scores.masked_fill(padding[:, None], float("-inf"))
                context = torch.bmm(scores.softmax(dim=-1), values) * root
                y = (output(context) + y) * HALVED
                x = (y + x) * HALVED
            return dropout(self.end(x))

    encoder, decoder = Encoder(), Decoder()
    criterion = nn.CrossEntropyLoss(label_smoothing=contenders.SMOOTHING)
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-4, betas=(0.9, 0.98), fused=True)
    batches = [
        {name: torch.from_numpy(ids).long() for name, ids in batch.items()}
        for batch in size.shape.batches()
    ]
    number = itertools.count()

    def step() -> None:
        batch = batches[next(number) % len(batches)]
        inputs, targets = batch["inputs"], batch["targets"]
        padding = inputs == 0
        shifted = nn.functional.pad(targets, (1, 0), value=1)[:, :-1]  # EOS first
        hidden = decoder(shifted, *encoder(inputs, padding), padding)
        present = targets != 0
        loss = criterion(decoder.softmax(hidden[present]), targets[present])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def processor() -> str:
    """Returns the name of the processor."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if "model name" in line]
    return names[0] if names else platform.processor()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", choices=SIZES, help="one size of the three")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each program (7)")
    parser.add_argument("--seconds", type=float, default=6.0, help="length of a turn (6)")
    args = parser.parse_args()
    print(f"{contenders.THREADS} threads of {processor()}, {args.rounds} rounds")
    print("size: seconds a step of each, ratio of speeds, peak memory of each")
    for name in [args.only] if args.only else SIZES:
        prepare = {
            OURS: functools.partial(prepare_ours, SIZES[name]),
            PYTORCH: functools.partial(prepare_pytorch, SIZES[name]),
        }
        found = pairing.compare(prepare, args.rounds, args.seconds)
        times = " : ".join(f"{found.median(side):.3f} s" for side in prepare)
        peaks = " and ".join(f"{found.peak[side]:,.0f}" for side in prepare)
        print(f"{name:8}  {times}  {found.ratio(OURS, PYTORCH)}  {peaks} MiB", flush=True)


if __name__ == "__main__":
    main()
