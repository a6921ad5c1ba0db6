"""ConvS2S in PyTorch, for `model_throughput.py`: what fairseq's `fconv` computes.

Weight norm on every linear map and convolution, attention in every decoder layer, dropout in the
same places.
"""

import math

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

_HALVED = math.sqrt(0.5)


def linear(inputs: int, outputs: int) -> nn.Module:
    """A linear map with weight norm."""
    return weight_norm(nn.Linear(inputs, outputs))


class Layer(nn.Module):
    """Convolution and GLU: [B, T, D] to the same; causal ones see k - 1 earlier positions."""

    def __init__(self, channels: int, kernel_size: int, causal: bool) -> None:
        super().__init__()
        before = kernel_size - 1 if causal else kernel_size // 2
        convolution = nn.Conv1d(channels, 2 * channels, kernel_size, padding=before)
        self.convolution = weight_norm(convolution)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps [B, T, D] to the same."""
        y = self.convolution(x.transpose(1, 2))[..., : x.shape[1]]
        return nn.functional.glu(y, dim=1).transpose(1, 2)


class Embedding(nn.Module):
    """Sums of the embeddings of words and positions."""

    def __init__(self, vocabulary: int, channels: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, channels, padding_idx=0)
        self.positions = nn.Embedding(256, channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Maps ids [B, T] to [B, T, D]."""
        positions = torch.arange(ids.shape[1])
        return self.dropout(self.words(ids) + self.positions(positions))


class Encoder(nn.Module):
    """Maps ids [B, S] to keys and values [B, S, D]."""

    def __init__(
        self, vocabulary: int, channels: int, kernel_size: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.embedding = Embedding(vocabulary, channels, dropout)
        self.start, self.end = linear(channels, channels), linear(channels, channels)
        self.layers = nn.ModuleList(
            Layer(channels, kernel_size, causal=False) for _ in range(layers)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, ids: torch.Tensor, padding: torch.Tensor, gradient_scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns keys and values; `padding` [B, S] is True at padding."""
        embedded = self.embedding(ids)
        hidden = padding[..., None]
        x = self.start(embedded)
        for layer in self.layers:
            x = (layer(self.dropout(x.masked_fill(hidden, 0))) + x) * _HALVED
        z = self.end(x).masked_fill(hidden, 0)
        z = z.detach() + gradient_scale * (z - z.detach())
        return z, (z + embedded) * _HALVED


class DecoderLayer(nn.Module):
    """Causal convolution, then attention to the source."""

    def __init__(self, channels: int, kernel_size: int, dropout: float) -> None:
        super().__init__()
        self.layer = Layer(channels, kernel_size, causal=True)
        self.query, self.output = linear(channels, channels), linear(channels, channels)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: torch.Tensor,
        embedded: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        padding: torch.Tensor,
    ) -> torch.Tensor:
        """Maps `x` [B, T, D] to the same; `keys` are [B, D, S]."""
        root = (~padding).sum(1).sqrt()[:, None, None]
        y = self.layer(self.dropout(x))
        scores = torch.bmm((self.query(y) + embedded) * _HALVED, keys)
        scores = scores.masked_fill(padding[:, None], float("-inf"))
        context = torch.bmm(scores.softmax(dim=-1), values) * root
        y = (self.output(context) + y) * _HALVED
        return (y + x) * _HALVED


class ConvS2S(nn.Module):
    """Maps sources [B, S] and what the decoder reads [B, T] to [B, T, D]."""

    def __init__(
        self,
        vocabulary: int,
        channels: int,
        kernel_size: int,
        encoder_layers: int,
        decoder_layers: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.encoder = Encoder(vocabulary, channels, kernel_size, encoder_layers, dropout)
        self.embedding = Embedding(vocabulary, channels, dropout)
        self.start, self.end = linear(channels, channels), linear(channels, channels)
        self.softmax = linear(channels, vocabulary)
        self.layers = nn.ModuleList(
            DecoderLayer(channels, kernel_size, dropout) for _ in range(decoder_layers)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: torch.Tensor, shifted: torch.Tensor) -> torch.Tensor:
        """Returns what the softmax reads."""
        padding = inputs == 0
        keys, values = self.encoder(inputs, padding, gradient_scale=0.5 / len(self.layers))
        keys = keys.transpose(1, 2).contiguous()
        embedded = self.embedding(shifted)
        x = self.start(embedded)
        for layer in self.layers:
            x = layer(x, embedded, keys, values, padding)
        return self.dropout(self.end(x))
