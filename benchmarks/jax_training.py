r"""Trains the model of a run on an accelerator, with Keras's JAX backend.

    t2t-trainer ... --output_dir=RUN --train_steps=1
    python benchmarks/jax_training.py pack --run=RUN --file=packed.npz
    KERAS_BACKEND=jax python benchmarks/jax_training.py train --file=packed.npz --steps=3000
    python benchmarks/jax_training.py unpack --run=RUN --file=packed.npz

The trainer itself runs only on TensorFlow. So the first step writes a run folder, the second one
the run's settings and its training examples into a file. The third step, where there is JAX but no
TensorFlow, trains the model: the Transformer's own code, the loss with label smoothing and the
auxiliary losses, Adam, and the learning rate of `transformer_base` by the run's hparams. It keeps
the weights, in float16, beside the file. The last step adds them to the run folder as a checkpoint
that t2t-decoder and t2t-eval read. Batches are not those of t2t-trainer: they have few lengths, so
that few functions are compiled.
"""

import argparse
import json
import pathlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

SIDES = ("inputs", "targets", "alignment")
LENGTHS = (24, 48, 96)  # of batches, in subwords; longer examples are left out
LOGGED = 500  # updates between two lines

Batch = dict[str, np.ndarray]
State = tuple[list, list, list]  # weights, other variables, and those of the optimizer


def pack(run: str, file: pathlib.Path) -> None:
    """Writes a run's settings and its training examples."""
    from t2t_lite.data.problem import DatasetSplit
    from t2t_lite.data.records import read_examples
    from t2t_lite.runs.run_folder import RunFolder

    folder = RunFolder.open(run)
    sizes = [encoder.vocab_size for encoder in folder.encoders.values()]
    paths = folder.problem.existing_filepaths(folder.data_dir, DatasetSplit.TRAIN)
    rows: dict[str, list[np.ndarray]] = {side: [] for side in SIDES}
    read = dict(zip(SIDES, SIDES, strict=True))
    if folder.problem.was_reversed:
        read["inputs"], read["targets"] = read["targets"], read["inputs"]
    for example in read_examples(paths):
        for side in SIDES:
            rows[side].append(np.asarray(example.get(read[side], []), np.uint16))
    arrays = {side: np.concatenate(rows[side]) for side in SIDES}
    ends = {f"{side}_ends": np.cumsum([len(row) for row in rows[side]]) for side in SIDES}
    settings = json.dumps([folder.settings.flags(), folder.hparams.to_dict(), sizes])
    np.savez_compressed(file, settings=settings, **arrays, **ends)


class Batches:
    """Batches of the examples of a file.

    Args:
        packed: the file.
        cells: subwords of a batch and side, at most.
        sides: the features that they have.
        seed: of their order.
    """

    def __init__(self, packed: Any, cells: int, sides: Sequence[str], seed: int = 0) -> None:
        self._sides = sides
        self._rows = {s: np.split(packed[s], packed[f"{s}_ends"][:-1]) for s in SIDES}
        self._lengths = np.maximum(*(np.diff(packed[f"{s}_ends"], prepend=0) for s in SIDES[:2]))
        self._cells = cells
        self._random = np.random.default_rng(seed)

    def __iter__(self) -> Iterator[Batch]:
        while True:
            batches = []
            for low, high in zip((0, *LENGTHS), LENGTHS, strict=False):
                found = np.flatnonzero((self._lengths > low) & (self._lengths <= high))
                size = self._cells // high
                self._random.shuffle(found)
                found = found[: len(found) // size * size] if len(found) >= size else found[:0]
                batches += [(rows, high) for rows in found.reshape(-1, size)]
            for i in self._random.permutation(len(batches)):
                yield self._padded(*batches[i])

    def _padded(self, numbers: np.ndarray, length: int) -> Batch:
        batch = {}
        for side in self._sides:
            batch[side] = np.zeros((len(numbers), length), np.int32)  # [B, L]
            for row, number in zip(batch[side], numbers, strict=True):
                ids = self._rows[side][number]
                row[: len(ids)] = ids
        return batch


class Rate(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate of `transformer_base`: its warm-up, and then the inverse square root.

    Args:
        hparams: of the model.
    """

    def __init__(self, hparams: Any) -> None:
        self._hparams = hparams

    def __call__(self, step: Any) -> Any:
        """Returns the rate of an update, after so many others."""
        h = self._hparams
        number = keras.ops.cast(step, "float32") + 1.0
        warmup = max(1.0, h.learning_rate_warmup_steps)
        scale = h.learning_rate_constant * h.hidden_size**-0.5
        falling = keras.ops.rsqrt(keras.ops.maximum(number, warmup))
        return scale * keras.ops.minimum(1.0, number / warmup) * falling


class Training:
    """Trains models of the same kind and size, one after the other, by one compiled function.

    Args:
        model: the model.
    """

    def __init__(self, model: Any) -> None:
        import jax

        self.model = model
        h = model.hparams
        self._smoothing = h.label_smoothing
        self._optimizer = keras.optimizers.Adam(Rate(h), beta_1=0.9, beta_2=0.997, epsilon=1e-9)
        self._optimizer.build(model.trainable_variables)
        variables = (
            model.trainable_variables,
            model.non_trainable_variables,
            self._optimizer.variables,
        )
        self._initial = [[np.asarray(variable.value) for variable in some] for some in variables]
        self.update = jax.jit(self._updated, donate_argnums=0)

    def start(self) -> State:
        """Returns the state before the first update: weights, other variables, optimizer."""
        import jax.numpy as jnp

        # Copies, because an update reuses its arguments' memory for its results.
        return tuple([jnp.array(value) for value in values] for values in self._initial)

    def _updated(self, state: State, batch: Batch) -> tuple:
        """Returns the next state, the mean loss of a token in nats, and the auxiliary losses."""
        import jax

        trainable, rest, slots = state
        gradient = jax.grad(self._loss, has_aux=True)
        gradients, (rest, *shown) = gradient(trainable, rest, batch)
        trainable, slots = self._optimizer.stateless_apply(slots, gradients, trainable)
        return (trainable, rest, slots), *shown

    def _loss(self, trainable: list, rest: list, batch: Batch) -> tuple:
        """Returns the mean loss of a token, smoothed, with the auxiliary losses."""
        import jax
        import jax.numpy as jnp

        logits, rest, others = self.model.stateless_call(
            trainable, rest, batch, training=True, return_losses=True
        )
        smoothing = self._smoothing
        low = smoothing / (logits.shape[-1] - 1)
        logs = jax.nn.log_softmax(logits.astype(jnp.float32))  # [B, T, V]
        right = jnp.take_along_axis(logs, batch["targets"][..., None], axis=-1)[..., 0]
        losses = -(1 - smoothing - low) * right - low * logs.sum(-1)
        present = batch["targets"] != 0
        mean, plain = (jnp.sum(x * present) / jnp.sum(present) for x in (losses, -right))
        more = sum(others, jnp.zeros(()))
        return mean + more, (rest, plain, more)


def train(packed_files: Sequence[pathlib.Path], steps: int, cells: int) -> None:
    """Trains a model for each file, all of the same settings, and writes the weights."""
    from t2t_lite import registry

    training, settings = None, None
    for file in packed_files:
        packed = np.load(file)
        flags, values, sizes = json.loads(str(packed["settings"]))
        if training is None:
            settings = values, sizes
            hparams = registry.hparams(flags["hparams_set"]).copy(**values).copy(dtype="bfloat16")
            keras.utils.set_random_seed(1)
            training = Training(registry.model(flags["model"])(hparams, *sizes))
            sides = SIDES if hparams.is_guided else SIDES[:2]
        if (values, sizes) != settings:
            raise SystemExit(f"{file}: other hparams or vocabulary sizes than in {packed_files[0]}")
        weights = trained(training, Batches(packed, cells, sides), steps, file.stem)
        names = [variable.path for variable in training.model.trainable_variables]
        halves = {str(i): value.astype(np.float16) for i, value in enumerate(weights)}
        np.savez(weights_of(file), steps=steps, names=names, **halves)


def trained(
    training: Training, batches: Iterable[Batch], steps: int, name: str
) -> list[np.ndarray]:
    """Returns the weights after so many updates; prints the losses of some."""
    state = training.start()
    start = time.time()
    for step, batch in zip(range(1, steps + 1), batches, strict=False):
        state, loss, others = training.update(state, batch)
        if step % LOGGED == 0 or step == steps:
            print(
                f"{name} step {step} loss {float(loss):.3f} others {float(others):.3f} "
                f"{time.time() - start:.0f} s",
                flush=True,
            )
    return [np.asarray(value, np.float32) for value in state[0]]


def weights_of(file: pathlib.Path) -> pathlib.Path:
    """Returns the file of the weights that `train` writes beside the packed one."""
    return file.with_suffix(".weights.npz")


def unpack(run: str, file: pathlib.Path) -> None:
    """Adds the weights to a run folder, as a checkpoint."""
    from t2t_lite.interop.imports import run as imported
    from t2t_lite.runs.run_folder import RunFolder

    folder = RunFolder.open(run)
    model = folder.build_model()
    trained = np.load(weights_of(file))
    names = [variable.path for variable in model.trainable_variables]
    if names != trained["names"].tolist():
        raise SystemExit(
            f"{run}: its weights have other names: {names[:3]}, {trained['names'][:3]}"
        )
    for i, variable in enumerate(model.trainable_variables):
        variable.assign(trained[str(i)].astype(np.float32))
    imported.save(model, int(trained["steps"]), folder.folder)


def main() -> None:
    """Does one of the steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("pack", "train", "unpack"))
    parser.add_argument("--run", default="", help="the run folder, to pack and to unpack")
    parser.add_argument(
        "--file",
        type=pathlib.Path,
        nargs="+",
        required=True,
        help="of packed examples; several, to train",
    )
    parser.add_argument("--steps", type=int, default=3000, help="updates (3000)")
    parser.add_argument("--cells", type=int, default=8192, help="subwords of a batch (8192)")
    args = parser.parse_args()
    if args.verb == "pack":
        pack(args.run, *args.file)
    elif args.verb == "train":
        train(args.file, args.steps, args.cells)
    else:
        unpack(args.run, *args.file)


if __name__ == "__main__":
    main()
