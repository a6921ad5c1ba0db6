"""A tiny Transformer of bytes, whose weights are noise, in its run folder."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import registry, run_folder
from t2t_lite.decoding.decode_hparams import DecodeHParams
from t2t_lite.decoding.decoder import Decoder


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> run_folder.Run:
    folder = tmp_path_factory.mktemp("run")
    flags = {
        "output_dir": str(folder),
        "problem": "translate_ende_wmt_characters",
        "model": "transformer",
        "hparams_set": "transformer_tiny",
    }
    small = {"num_hidden_layers": 2, "hidden_size": 12, "filter_size": 16, "num_heads": 3}
    hparams = registry.hparams("transformer_tiny").copy(**small, max_length=40)
    run = run_folder.create_run(flags, hparams, str(folder))
    model = run.build_model()
    random = np.random.default_rng(0)
    for variable in model.trainable_variables:
        noise = random.normal(size=variable.shape, scale=2.0 / variable.shape[0] ** 0.5)
        variable.assign(noise + (variable.name == "gamma"))
    checkpoint = tf.train.Checkpoint(model=model, step=tf.Variable(7, dtype=tf.int64))
    checkpoint.write(str(folder / "model.ckpt-7"))
    return run


@pytest.fixture(scope="session")
def decoder(run) -> Decoder:
    return Decoder.from_run(run, hparams=DecodeHParams(beam_size=1, extra_length=4))
