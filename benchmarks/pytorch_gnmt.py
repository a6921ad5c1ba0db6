"""GNMT in PyTorch, for `model_throughput.py`: what tf/nmt and NVIDIA's implementation compute.

Layers that read whole sequences are `nn.LSTM`. They read padding, too: with packed sequences, which
leave it out, a step took up to 1.2 times as long. The first decoder layer is an `nn.LSTM`, too, as
NVIDIA's, unless it reads the context of the step before. Then it is a loop over `nn.LSTMCell`;
computing the embeddings' products before the loop gained nothing.
"""

import torch
from torch import nn

_FIRST_RESIDUAL = 2

State = tuple[torch.Tensor, torch.Tensor]  # [1, B, D] each: output and cell


def lstm(inputs: int, channels: int) -> nn.LSTM:
    """One layer in one direction."""
    return nn.LSTM(inputs, channels, batch_first=True)


class Encoder(nn.Module):
    """A layer in both directions, then layers from left to right: [B, S, D] to the same."""

    def __init__(self, channels: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.LSTM(channels, channels, batch_first=True, bidirectional=True)
        widths = [2 * channels, *[channels] * (layers - 2)]
        self.layers = nn.ModuleList(lstm(width, channels) for width in widths)
        self.dropout = nn.Dropout(dropout)

    def forward(self, embedded: torch.Tensor) -> tuple[torch.Tensor, list[State]]:
        """Returns the outputs, and the final state of each layer."""
        x, (output, cell) = self.first(self.dropout(embedded))
        final = [(output[1:], cell[1:])]
        for number, layer in enumerate(self.layers, start=1):
            y, state = layer(self.dropout(x))
            x = x + y if number >= _FIRST_RESIDUAL else y
            final.append(state)
        return x, final


class Attention(nn.Module):
    """Bahdanau's attention with a normalised score vector."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.query = nn.Linear(channels, channels, bias=False)
        self.key = nn.Linear(channels, channels, bias=False)
        self.score = nn.Parameter(torch.empty(channels).uniform_(-0.1, 0.1))
        self.scale = nn.Parameter(torch.tensor([channels**-0.5]))
        self.bias = nn.Parameter(torch.zeros(channels))

    def memory(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns keys [B, S, D], with the bias, and the score vector [D]."""
        return self.key(values) + self.bias, self.score * (self.scale / self.score.norm())

    def forward(
        self,
        query: torch.Tensor,
        keys: torch.Tensor,
        score: torch.Tensor,
        values: torch.Tensor,
        padding: torch.Tensor,
    ) -> torch.Tensor:
        """Returns the contexts [B, T, D] of `query` [B, T, D]; `padding` is [B, 1, S]."""
        scores = torch.tanh(self.query(query)[:, :, None] + keys[:, None]) @ score
        return scores.masked_fill(padding, float("-inf")).softmax(dim=-1) @ values


class GNMT(nn.Module):
    """Maps sources [B, S] and what the decoder reads [B, T] to [B, T, D].

    Args:
        vocabulary: V.
        channels: D.
        layers: in each of encoder and decoder.
        dropout: rate, of the inputs of each layer.
        delayed: whether the layers above the first read the context of the step before.
        input_feeding: whether the first layer reads it.
    """

    def __init__(
        self,
        vocabulary: int,
        channels: int,
        layers: int,
        dropout: float,
        delayed: bool,
        input_feeding: bool,
    ) -> None:
        super().__init__()
        self.delayed = delayed
        self.embedding = nn.Embedding(vocabulary, channels)
        nn.init.normal_(self.embedding.weight, std=channels**-0.5)
        self.encoder = Encoder(channels, layers, dropout)
        self.attention = Attention(channels)
        self.first: nn.Module = (
            nn.LSTMCell(2 * channels, channels) if input_feeding else lstm(channels, channels)
        )
        self.layers = nn.ModuleList(lstm(2 * channels, channels) for _ in range(layers - 1))
        self.dropout = nn.Dropout(dropout)

    def softmax(self, x: torch.Tensor) -> torch.Tensor:
        """Maps [N, D] to logits [N, V], by the matrix of the embeddings."""
        return x @ self.embedding.weight.T

    def forward(self, inputs: torch.Tensor, shifted: torch.Tensor) -> torch.Tensor:
        """Returns what the softmax reads."""
        padding = inputs == 0
        root = self.embedding.embedding_dim**0.5
        values, states = self.encoder(self.embedding(inputs) * root)
        memory = *self.attention.memory(values), values, padding[:, None]
        x = self.dropout(self.embedding(shifted) * root)
        attend = self._feed if isinstance(self.first, nn.LSTMCell) else self._read
        x, contexts = attend(x, states[0], memory)
        if self.delayed:
            contexts = nn.functional.pad(contexts, (0, 0, 1, 0))[:, :-1]
        for number, (layer, state) in enumerate(zip(self.layers, states[1:], strict=True), start=1):
            y, _ = layer(self.dropout(torch.cat([x, contexts], dim=-1)), state)
            x = x + y if number >= _FIRST_RESIDUAL else y
        return x

    def _read(
        self, x: torch.Tensor, state: State, memory: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The first layer reads the whole sequence, then attends."""
        x, _ = self.first(x, state)
        return x, self.attention(x, *memory)

    def _feed(
        self, x: torch.Tensor, state: State, memory: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The first layer reads the context of the step before."""
        output, cell = (part[0] for part in state)
        masks = self.dropout(torch.ones_like(x))
        context = torch.zeros_like(output)
        outputs, contexts = [], []
        for now, mask in zip(x.unbind(1), masks.unbind(1), strict=True):
            read = torch.cat([now, context * mask], dim=-1)
            output, cell = self.first(read, (output, cell))
            context = self.attention(output[:, None], *memory)[:, 0]
            outputs.append(output)
            contexts.append(context)
        return torch.stack(outputs, dim=1), torch.stack(contexts, dim=1)
