"""Makes random Hugging Face translation models, and records what transformers computes with them.

Needs `pip install torch transformers sentencepiece` (transformers 5), none of which the project
depends on. From the repository, with a Python that has them:

    python tests/support/make_hugging_face_models.py --output_dir=FOLDER [--count=20]

Each model becomes a folder as it would be published, with records/recorded.npz in it:

    sources        [N, S]: ids, padded
    teacher_forced [M, T], logits [M, T, V]: of the first M sources
    greedy         [N, L]
    beam4 ...      [N, L]: see `SEARCHES`

Weights, biases included, are random, except that those of the end of a sentence are fitted: ends
become likelier from step to step, so that outputs have various lengths. The sources are those
whose outputs end in time and do not depend on rounding: equal with float32 and float64. Models
whose logits depend on it by more than `ROUNDING` are left out.
"""

import argparse
import dataclasses
import itertools
import json
import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import random_tokenizers
import torch
import transformers

SOURCES = 200
LOGITS = 6  # sources with logits
LENGTH = 48  # most ids of an output, the start included
ROUNDING = 2.5e-5  # most that rounding may change a logit: a quarter of what the tests allow

# Searches by name: options of `generate`.
GREEDY: dict[str, dict[str, Any]] = {"greedy": {"num_beams": 1, "do_sample": False}}
SEARCHES: dict[str, dict[str, Any]] = {
    f"beam4_{penalty:g}_{str(stopping).lower()}": {
        "num_beams": 4,
        "length_penalty": penalty,
        "early_stopping": stopping,
    }
    for penalty, stopping in (
        (1.0, "never"),
        (1.0, False),
        (1.0, True),
        (0.0, "never"),
        (0.6, "never"),
    )
}


@dataclasses.dataclass(frozen=True)
class Kind:
    """One configuration.

    Attributes:
        family: marian, m2m100 or nllb.
        seed: of all that is random.
        config: of the model's class.
        dtype: of the saved weights.
        layout: safetensors, bin, sharded_safetensors or sharded_bin.
        pieces: entries of the SentencePiece model.
        zero_padding: whether the row of padding is zero, as in published models.
        renormalize: whether probabilities are renormalized without padding.
    """

    family: str
    seed: int
    config: Mapping[str, Any]
    dtype: str
    layout: str
    pieces: int
    zero_padding: bool
    renormalize: bool


class UnfitModelError(Exception):
    """The outputs of a model are not various enough, or its logits depend on rounding."""


def random_kind(family: str, seed: int) -> Kind:
    """Draws a configuration."""
    rng = np.random.default_rng([seed, len(family)])
    heads = int(rng.choice([1, 2, 4]))
    size = heads * int(rng.choice([8, 12, 16]))
    config = {
        "d_model": size,
        "encoder_layers": int(rng.integers(1, 4)),
        "decoder_layers": int(rng.integers(1, 4)),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "activation_function": str(
            rng.choice(["relu", "gelu", "swish", "gelu_new", "quick_gelu", "silu"])
        ),
        "scale_embedding": bool(rng.random() < 0.7),
        "max_position_embeddings": 64,
        "tie_word_embeddings": bool(rng.random() < 0.7),
    }
    config["encoder_ffn_dim"] = config["decoder_ffn_dim"] = int(rng.choice([24, 40, 64]))
    if family == "marian":
        config["share_encoder_decoder_embeddings"] = bool(rng.random() < 0.7)
    return Kind(
        family,
        seed,
        config,
        dtype=str(rng.choice(["float32", "float16", "bfloat16"])),
        layout=str(rng.choice(["safetensors", "bin", "sharded_safetensors", "sharded_bin"])),
        pieces=int(rng.integers(60, 120)),
        zero_padding=bool(rng.random() < 0.7),
        renormalize=bool(rng.random() < 0.5),
    )


def make(kind: Kind, folder: pathlib.Path, sources: int = SOURCES, logits: int = LOGITS) -> None:
    """Makes the model and the records."""
    folder.mkdir(parents=True)
    ids = write_tokenizer(kind, folder)
    config = {**kind.config, **ids}
    torch.manual_seed(kind.seed)
    if kind.family == "marian":
        model = transformers.MarianMTModel(transformers.MarianConfig(**config))
    else:
        model = transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(**config))
    model.eval()
    randomize(model, kind)
    rng = np.random.default_rng(kind.seed)
    candidates = random_sources(model, rng, 3 * sources)
    model.generation_config = transformers.GenerationConfig(**search_of(kind, config))
    for smallness, slope, middle in itertools.product((100, 10, 1), (0.6, 1.5), (10, 18)):
        for _ in range(3):
            fit_end(model, candidates[:40], slope, middle, smallness)
        save(model, kind, folder)
        loaded = type(model).from_pretrained(folder, dtype=torch.float32).eval()
        recorded = record(loaded, candidates, sources, logits)
        if recorded:
            break
    else:
        raise UnfitModelError
    records = folder / "records"  # beside the model's own files
    records.mkdir()
    np.savez_compressed(records / "recorded.npz", **recorded)
    (records / "kind.json").write_text(json.dumps(dataclasses.asdict(kind), indent=1) + "\n")


def search_of(kind: Kind, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings with which the model is published."""
    options = {
        "max_length": LENGTH,
        "num_beams": 4,
        **{
            name: config[name]
            for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")
        },
    }
    if kind.family == "marian":
        options["bad_words_ids"] = [[config["pad_token_id"]]]
        options["forced_eos_token_id"] = config["eos_token_id"]
        if kind.renormalize:
            options["renormalize_logits"] = True
    return options


def write_tokenizer(kind: Kind, folder: pathlib.Path) -> dict[str, int]:
    """Writes small files in the layout of the family; returns the config's ids and sizes."""
    if kind.family == "marian":
        separate = not kind.config["share_encoder_decoder_embeddings"]
        return random_tokenizers.write_marian(folder, kind.seed, kind.pieces, separate)
    write = {"m2m100": random_tokenizers.write_m2m100, "nllb": random_tokenizers.write_nllb}
    return write[kind.family](folder, kind.seed, kind.pieces)


@torch.no_grad()
def randomize(model: Any, kind: Kind) -> None:
    """Makes all weights random, biases and normalizations too."""
    for name, values in [*model.named_parameters(), *model.named_buffers()]:
        if "embed_positions" in name:
            continue
        if "layer_norm" in name:
            values.normal_(float(name.endswith("weight")), 0.2)
        elif name == "final_logits_bias" or name.endswith("bias"):
            values.normal_(0, 0.3)
        elif "embed_tokens" in name or "shared" in name or "lm_head" in name:
            values.normal_(0, values.shape[1] ** -0.5)
        else:
            values.normal_(0, 1.5 * values.shape[1] ** -0.5)
    # Features where little hides the positions, by which `fit_end` tells the steps apart.
    size = model.config.d_model
    rates = 10_000.0 ** -(np.arange(size // 2) / (size // 2 - 1))
    slow = np.flatnonzero((rates < 0.05) & (rates > 0.004))
    for name, values in model.named_parameters():
        if "embed_tokens" in name or "shared" in name:
            values[:, slow] *= 0.05
        elif "out_proj" in name or "fc2" in name:
            values[slow] *= 0.05
        elif kind.family == "marian" and "layer_norm.weight" in name:
            values[slow] *= 1.8  # each layer of a post-norm model adds to the others
    if kind.zero_padding or kind.family != "marian":
        # Where no generation excludes padding, training makes it unlikely.
        for table in {id(table): table for table in tables(model)}.values():
            table[model.config.pad_token_id] *= 0 if kind.zero_padding else 0.1


def tables(model: Any) -> list[Any]:
    """Returns the embeddings of both sides and the softmax weights, which may be the same."""
    sides = (model.model.encoder.embed_tokens, model.model.decoder.embed_tokens)
    return [layer.weight for layer in (*sides, model.lm_head)]


def random_sources(model: Any, rng: Any, count: int) -> np.ndarray:
    """Returns random ids [N, S], ended and padded; those of M2M100 begin with a language."""
    config = model.config
    special = {config.pad_token_id, config.eos_token_id, config.bos_token_id}
    usable = [i for i in range(config.vocab_size) if i not in special]
    sources = np.full((count, 14), config.pad_token_id)
    for source in sources:
        length = rng.integers(2, 14)
        source[:length] = rng.choice(usable, length)
        source[length - 1] = config.eos_token_id
    return sources


def language(model: Any) -> int | None:
    """Returns the id of the target language with which outputs begin."""
    config = model.config
    return config.vocab_size - 30 if config.model_type == "m2m_100" else None


def generate(model: Any, sources: np.ndarray, **options: Any) -> np.ndarray:
    """Returns outputs [N, L] without the decoder's start."""
    ids = torch.tensor(sources)
    with torch.no_grad():
        found = model.generate(
            input_ids=ids,
            attention_mask=(ids != model.config.pad_token_id).long(),
            max_length=LENGTH,
            forced_bos_token_id=language(model),
            **options,
        )
    return found[:, 1:].numpy()


def forward(model: Any, sources: np.ndarray, targets: np.ndarray) -> tuple[Any, Any]:
    """Returns the decoder's outputs [N, T, D] and logits [N, T, V], given the targets."""
    ids = torch.tensor(sources)
    start = np.full((len(targets), 1), model.config.decoder_start_token_id)
    before = torch.tensor(np.concatenate([start, targets[:, :-1]], axis=1))
    with torch.no_grad():
        found = model(
            input_ids=ids,
            attention_mask=(ids != model.config.pad_token_id).long(),
            decoder_input_ids=before,
            output_hidden_states=True,
        )
    hidden = model.model(
        input_ids=ids,
        attention_mask=(ids != model.config.pad_token_id).long(),
        decoder_input_ids=before,
    ).last_hidden_state
    return hidden.detach(), found.logits


@torch.no_grad()
def fit_end(model: Any, sources: np.ndarray, slope: float, middle: float, smallness: float) -> None:
    """Fits the weights of the end's logit so that it passes the others after some steps.

    Args:
        model: its softmax weights change.
        sources: [N, S].
        slope: by how much it rises in a step.
        middle: the step in which it is to pass the others.
        smallness: of the weights: the factor of ridge regression. Large weights, with which the
            logit differs from step to step by small differences of features, magnify rounding.
    """
    end = model.config.eos_token_id
    targets = generate(model, sources, num_beams=1, do_sample=False, min_new_tokens=LENGTH - 2)
    hidden, logits = forward(model, sources, targets)
    others = logits.clone()
    others[..., end] = -torch.inf
    steps = torch.arange(targets.shape[1])[None].float()
    wanted = others.max(-1).values + (slope * (steps - middle)).clamp(-6, 6)
    free = 0 if language(model) is None else 1  # the first step whose output is not forced
    x = hidden[:, free:].reshape(-1, hidden.shape[-1]).double()
    y = wanted[:, free:].reshape(-1, 1).double()
    bias = getattr(model, "final_logits_bias", None)
    if bias is not None:
        x = torch.cat([x, torch.ones(len(x), 1).double()], dim=1)
    ridge = smallness * torch.eye(x.shape[1]).double()
    weights = torch.linalg.solve(x.T @ x + ridge, x.T @ y)[:, 0].float()
    if bias is not None:
        bias[0, end] = weights[-1]
        weights = weights[:-1]
    model.lm_head.weight[end] = weights


def save(model: Any, kind: Kind, folder: pathlib.Path) -> None:
    """Writes the model's files in the kind's layout and type."""
    model = model.to(getattr(torch, kind.dtype))
    sharded = kind.layout.startswith("sharded")
    for path in folder.glob("*model*.*"):
        if "sentencepiece" not in path.name:
            path.unlink()
    model.save_pretrained(folder, max_shard_size="30KB" if sharded else "1GB")
    model.to(torch.float32)
    if not kind.layout.endswith("bin"):
        return
    # transformers 5 no longer writes .bin; older ones wrote every name of shared weights.
    for path in folder.glob("*.safetensors*"):
        path.unlink()
    weights = model.to(getattr(torch, kind.dtype)).state_dict()
    if not sharded:
        torch.save(weights, folder / "pytorch_model.bin")
    else:
        names = sorted(weights)
        parts = [names[0::2], names[1::2]]
        files = [f"pytorch_model-0000{i}-of-00002.bin" for i in (1, 2)]
        for file, part in zip(files, parts, strict=True):
            torch.save({name: weights[name].clone() for name in part}, folder / file)
        index = {
            "metadata": {"total_size": 0},
            "weight_map": {n: f for f, part in zip(files, parts, strict=True) for n in part},
        }
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index) + "\n")


def record(model: Any, candidates: np.ndarray, count: int, with_logits: int) -> dict[str, Any]:
    """Returns the sources whose outputs are sure, and all outputs; {} if the model is unfit."""
    few = all_outputs(model, candidates[:60], GREEDY)["greedy"]
    typical = np.median((few != model.config.pad_token_id).sum(1))
    if in_time(model, few).mean() < 0.6 or not 4 <= typical <= 30:
        return {}
    quick = in_time(model, all_outputs(model, candidates, GREEDY)["greedy"])
    sources = candidates[quick][: count + count // 3]
    found = all_outputs(model, sources, {**GREEDY, **SEARCHES})
    other = all_outputs(model.double(), sources, {**GREEDY, **SEARCHES})
    sure = np.ones(len(sources), bool)
    for name, outputs in found.items():
        sure &= (outputs == other[name]).all(1) & in_time(model, outputs)
    chosen = np.flatnonzero(sure)[:count]
    lengths = (found["greedy"][chosen] != model.config.pad_token_id).sum(1)
    print(
        f"ended {quick.mean():.2f}, sure {sure.mean():.2f}, {len(chosen)} sources, outputs of "
        f"{np.percentile(lengths, [0, 25, 50, 75, 100])}",
        flush=True,
    )
    if len(chosen) < count:
        return {}
    targets = found["greedy"][chosen][:with_logits, : lengths[:with_logits].max()]
    _, exact = forward(model, sources[chosen][:with_logits], targets)
    _, logits = forward(model.float(), sources[chosen][:with_logits], targets)
    rounding = (logits - exact).abs().max().item()
    print(f"logits up to {logits.abs().max():.1f}, rounded by {rounding:.1e}", flush=True)
    if rounding > ROUNDING:
        return {}
    return {
        "sources": sources[chosen].astype(np.int32),
        "teacher_forced": targets.astype(np.int32),
        "logits": logits.numpy(),
        "language": np.int32(language(model) or 0),
        **{name: outputs[chosen].astype(np.int32) for name, outputs in found.items()},
    }


def all_outputs(
    model: Any, sources: np.ndarray, searches: Mapping[str, Mapping[str, Any]]
) -> dict[str, np.ndarray]:
    """Returns the outputs [N, `LENGTH`] of each search, padded."""
    found = {name: generate(model, sources, **options) for name, options in searches.items()}
    padding = model.config.pad_token_id
    return {
        name: np.pad(x, [(0, 0), (0, LENGTH - x.shape[1])], constant_values=padding)
        for name, x in found.items()
    }


def in_time(model: Any, outputs: np.ndarray) -> np.ndarray:
    """Returns which outputs end before the last step, and without padding before the end, [N]."""
    ends, paddings = (
        np.where((outputs == id_).any(1), (outputs == id_).argmax(1), LENGTH)
        for id_ in (model.config.eos_token_id, model.config.pad_token_id)
    )
    return ends < np.minimum(paddings, LENGTH - 2)


def main() -> None:
    """Makes the models that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output_dir", required=True, type=pathlib.Path)
    parser.add_argument("--count", default=20, type=int, help="models of each class")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for families in (("marian",), ("m2m100", "nllb")):
        made, seeds = 0, itertools.count()
        while made < options.count:
            seed = next(seeds)
            family = families[seed % len(families)]
            folder = options.output_dir / f"{family}_{seed}"
            print(folder.name, flush=True)
            if not (folder / "records").exists():
                shutil.rmtree(folder, ignore_errors=True)
                try:
                    make(random_kind(family, seed), folder)
                except UnfitModelError:
                    shutil.rmtree(folder)
                    continue
            made += 1


if __name__ == "__main__":
    main()
