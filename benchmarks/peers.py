"""A model's training step beside that of an equal PyTorch module at its best settings."""

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pairing
import training_contenders as contenders

if TYPE_CHECKING:
    import torch
    from torch import nn

OURS, PYTORCH, COMPILED = "t2t_lite", "PyTorch", "PyTorch compiled"


def torch_device() -> str:
    """Returns PyTorch's name of the GPU, or of the CPU if there is none."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def start_torch() -> None:
    """Sets PyTorch's threads, device and seed."""
    import torch

    torch.set_num_threads(contenders.THREADS)
    if torch_device() != "cpu":
        torch.set_default_device(torch_device())  # slows every call a little
    torch.manual_seed(1)


def torch_batches(shape: contenders.Shape) -> "Iterator[tuple[torch.Tensor, torch.Tensor]]":
    """Yields the batches of `shape` again and again: sources [B, S] and targets [B, T]."""
    import torch

    batches = [
        tuple(torch.from_numpy(batch[name]).long() for name in ("inputs", "targets"))
        for batch in shape.batches()
    ]
    device = torch_device()
    return itertools.cycle([(inputs.to(device), targets.to(device)) for inputs, targets in batches])


def torch_step(
    model: "nn.Module",
    softmax: "Callable[[torch.Tensor], torch.Tensor]",
    shape: contenders.Shape,
    start_id: int,
    clip_norm: float = 0.0,
    dtype: str = "float32",
    is_compiled: bool = False,
) -> pairing.Step:
    """Returns a training step: smooth labels, no logits for padding, fused Adam.

    Args:
        model: maps sources [B, S] and what the decoder reads [B, T] to [B, T, D].
        softmax: maps [N, D] to logits [N, V].
        shape: sizes of the batches.
        start_id: the id that the decoder reads first.
        clip_norm: maximum global norm of the gradient; 0: no clipping.
        dtype: float32, or bfloat16: with autocast.
        is_compiled: whether torch.compile compiles it.
    """
    import torch
    from torch import nn

    criterion = nn.CrossEntropyLoss(label_smoothing=contenders.SMOOTHING)
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=1e-4, betas=(0.9, 0.98), fused=True)
    batches = torch_batches(shape)
    device = torch_device()

    def loss_of(hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return criterion(softmax(hidden), targets)

    forward = torch.compile(model) if is_compiled else model
    # Apart, because its sizes depend on the padding.
    loss = torch.compile(loss_of, dynamic=True) if is_compiled else loss_of

    def step() -> None:
        inputs, targets = next(batches)
        shifted = nn.functional.pad(targets, (1, 0), value=start_id)[:, :-1]
        present = targets != 0
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bfloat16"):
            mean = loss(forward(inputs, shifted)[present], targets[present])
        optimizer.zero_grad(set_to_none=True)
        mean.backward()
        if clip_norm:
            nn.utils.clip_grad_norm_(parameters, clip_norm)
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    if is_compiled:
        _compile(step)
    return step


def _compile(step: pairing.Step) -> None:
    """Takes the first step, which compiles it.

    Raises:
        pairing.UnavailableError: torch.compile cannot, for example without a C++ compiler.
    """
    try:
        step()
    except RuntimeError as error:  # the base class of its errors
        message = str(error).strip().partition("\n")[0]
        raise pairing.UnavailableError(f"torch.compile failed: {message}") from error
