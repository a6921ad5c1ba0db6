"""PyTorch's contender of `train_throughput.py`: its own `nn.Transformer`.

It has the same sizes as ours, dropout in the same places, and one matrix for both embeddings and
the softmax; its attention also has biases.
"""

import math

import torch
from torch import nn
from training_contenders import DROPOUT, Shape


class Transformer(nn.Module):
    """Embeddings, a Transformer, and the softmax."""

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
        nn.init.zeros_(self.embedding.weight.data[0])  # what the decoder reads first
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

    def softmax(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns the logits [N, V] of hidden [N, D]."""
        return hidden @ self.embedding.weight.T

    def forward(self, inputs: torch.Tensor, shifted: torch.Tensor) -> torch.Tensor:
        """Returns the last hidden layer [B, T, D]."""
        padding = inputs == 0
        return self.transformer(
            self.dropout(self.embed(inputs) + self.positions),
            self.dropout(self.embed(shifted) + self.positions),
            tgt_mask=self.future,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
