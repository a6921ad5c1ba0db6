"""A model's training step beside that of an equal PyTorch module, in one table."""

import argparse
import itertools
import platform
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pairing
import training_contenders as contenders

if TYPE_CHECKING:
    import torch
    from torch import nn

OURS, PYTORCH = "t2t_lite", "PyTorch"

# Our contender and PyTorch's.
Pair = tuple[Callable[[], pairing.Step], Callable[[], pairing.Step]]


def torch_batches(shape: contenders.Shape) -> "Iterator[tuple[torch.Tensor, torch.Tensor]]":
    """Yields the batches of `shape` again and again: sources [B, S] and targets [B, T]."""
    import torch

    batches = [
        tuple(torch.from_numpy(batch[name]).long() for name in ("inputs", "targets"))
        for batch in shape.batches()
    ]
    return itertools.cycle(batches)


def torch_step(
    model: "nn.Module",
    softmax: "Callable[[torch.Tensor], torch.Tensor]",
    shape: contenders.Shape,
    start_id: int,
    clip_norm: float = 0.0,
) -> pairing.Step:
    """Returns a training step: smooth labels, no logits for padding, fused Adam.

    Args:
        model: maps sources [B, S] and what the decoder reads [B, T] to [B, T, D].
        softmax: maps [N, D] to logits [N, V].
        shape: sizes of the batches.
        start_id: the id that the decoder reads first.
        clip_norm: maximum global norm of the gradient; 0: no clipping.
    """
    import torch
    from torch import nn

    criterion = nn.CrossEntropyLoss(label_smoothing=contenders.SMOOTHING)
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=1e-4, betas=(0.9, 0.98), fused=True)
    batches = torch_batches(shape)

    def step() -> None:
        inputs, targets = next(batches)
        shifted = nn.functional.pad(targets, (1, 0), value=start_id)[:, :-1]
        hidden = model(inputs, shifted)
        present = targets != 0
        loss = criterion(softmax(hidden[present]), targets[present])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if clip_norm:
            nn.utils.clip_grad_norm_(parameters, clip_norm)
        optimizer.step()

    return step


def start_torch() -> None:
    """Sets PyTorch's threads and seed."""
    import torch

    torch.set_num_threads(contenders.THREADS)
    torch.manual_seed(1)


def processor() -> str:
    """Returns the name of the processor."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if "model name" in line]
    return names[0] if names else platform.processor()


def parser(description: str | None, sizes: Mapping[str, object]) -> argparse.ArgumentParser:
    """Returns the flags that every such program has."""
    found = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    found.add_argument("--only", choices=sizes, help="one size")
    found.add_argument("--rounds", type=int, default=7, help="turns of each program (7)")
    found.add_argument("--seconds", type=float, default=6.0, help="length of a turn (6)")
    return found


def print_table(pairs: Mapping[str, Pair], args: argparse.Namespace) -> None:
    """Prints a line for each pair, as `args` of `parser` say."""
    print(f"{contenders.THREADS} threads of {processor()}, {args.rounds} rounds")
    print("size: seconds a step of each, ratio of speeds, peak memory of each")
    for name in [args.only] if args.only else pairs:
        prepare = dict(zip((OURS, PYTORCH), pairs[name], strict=True))
        found = pairing.compare(prepare, args.rounds, args.seconds)
        times = " : ".join(f"{found.median(side):.3f} s" for side in prepare)
        peaks = " and ".join(f"{found.peak[side]:,.0f}" for side in prepare)
        print(f"{name:8}  {times}  {found.ratio(OURS, PYTORCH)}  {peaks} MiB", flush=True)
