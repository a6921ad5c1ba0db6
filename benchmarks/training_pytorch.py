"""PyTorch's contender of `train_throughput.py`: its own `nn.Transformer`.

It has the same sizes as ours, dropout in the same places, one matrix for both embeddings and the
softmax, label smoothing and fused Adam; its attention also has biases. It runs eagerly or through
torch.compile, in float32 or with autocast, on all threads or on a GPU.
"""

import itertools
import math

import pairing
import torch
from torch import nn
from training_contenders import DROPOUT, SMOOTHING, THREADS, Shape

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Model(nn.Module):
    """Embeddings and a Transformer; `loss` is apart, because its shapes depend on the padding."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        d = shape.channels
        self.transformer = nn.Transformer(
            d,
            shape.heads,
            shape.layers,
            shape.layers,
            shape.hidden,
            DROPOUT,
            batch_first=True,
            norm_first=True,
        )
        self.embedding = nn.Embedding(shape.vocabulary, d, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=d**-0.5)
        self.dropout = nn.Dropout(DROPOUT)
        angle = torch.arange(shape.length)[:, None] * torch.exp(
            -math.log(10_000.0) * torch.arange(d // 2) / (d // 2 - 1)
        )
        future = nn.Transformer.generate_square_subsequent_mask(shape.length, dtype=torch.bool)
        self.register_buffer("positions", torch.cat([angle.sin(), angle.cos()], dim=1))
        self.register_buffer("future", future)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns scaled embeddings [B, T, D]."""
        return self.embedding(ids) * self.embedding.embedding_dim**0.5

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Returns the last hidden layer [B, T, D]."""
        shifted = nn.functional.pad(self.embed(targets), (0, 0, 1, 0))[:, :-1]
        padding = inputs == 0
        return self.transformer(
            self.dropout(self.embed(inputs) + self.positions),
            self.dropout(shifted + self.positions),
            tgt_mask=self.future,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )


def loss_of(hidden: torch.Tensor, matrix: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns the loss of N tokens, hidden [N, D]."""
    return nn.functional.cross_entropy(hidden @ matrix.T, targets, label_smoothing=SMOOTHING)


def prepare(shape: Shape, dtype: str, is_compiled: bool) -> pairing.Step:
    """Returns the training step.

    Raises:
        pairing.UnavailableError: torch.compile fails.
    """
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    model = Model(shape).to(DEVICE)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=1e-4, betas=(0.9, 0.997), eps=1e-9, fused=True
    )
    forward, loss = model, loss_of
    if is_compiled:
        forward = torch.compile(model)
        loss = torch.compile(loss_of, dynamic=True)
    batches = itertools.cycle(
        {name: torch.from_numpy(ids).long().to(DEVICE) for name, ids in batch.items()}
        for batch in shape.batches()
    )

    def step() -> None:
        batch = next(batches)
        present = batch["targets"] != 0  # the softmax skips padding, as ours does
        with torch.autocast(DEVICE, torch.bfloat16, enabled=dtype == "bfloat16"):
            hidden = forward(batch["inputs"], batch["targets"])
            mean = loss(hidden[present], model.embedding.weight, batch["targets"][present])
        optimizer.zero_grad(set_to_none=True)
        mean.backward()
        optimizer.step()
        if DEVICE == "cuda":
            torch.cuda.synchronize()

    if is_compiled:
        try:
            step()
        except RuntimeError as error:  # the base class of its errors
            message = str(error).strip().partition("\n")[0]
            raise pairing.UnavailableError(f"torch.compile failed: {message}") from error
    return step
