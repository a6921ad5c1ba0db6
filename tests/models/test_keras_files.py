"""A `.keras` file gives the model that was saved, or one error that names it."""

import json
import os
import pathlib
import zipfile

import h5py
import keras
import numpy as np
import pytest

from support.model_kinds import model_of
from t2t_lite.errors import DataError, UserError
from t2t_lite.layers.dense import Projection
from t2t_lite.models import keras_files

_EXPERTS = {"vars/0", "vars/1", "gating/vars/0", "gating/vars/1"}  # names of a mixture's weights


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The bytes of a file with a layer of this package and one of Keras, and its weights."""
    model = keras.Sequential([keras.Input([2]), Projection(2, [4]), keras.layers.Dense(3)])
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    model.save(path)
    return path.read_bytes(), [np.asarray(weight) for weight in model.weights]


@pytest.fixture
def path(saved, tmp_path) -> pathlib.Path:
    found = tmp_path / "model.keras"
    found.write_bytes(saved[0])
    return found


def _rewritten(path: pathlib.Path, **changed: bytes | None) -> None:
    """Replaces members, by their names without suffix; None: leaves one out."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, contents in members.items():
            contents = changed.get(name.partition(".")[0], contents)
            if contents is not None:
                archive.writestr(name, contents)


def _config(path: pathlib.Path) -> dict:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("config.json"))


def _with_layer(path: pathlib.Path, **config) -> None:
    """Puts another config in place of the last layer's."""
    whole = _config(path)
    whole["config"]["layers"][-1] = config
    _rewritten(path, config=json.dumps(whole).encode())


def _refusal(path: pathlib.Path, kind: type[UserError] = UserError) -> str:
    with pytest.raises(UserError) as caught:
        keras_files.load(str(path))
    message = str(caught.value)
    assert type(caught.value) is kind
    assert str(path) in message
    assert "\n" not in message
    assert len(message) < 800
    return message


def test_a_sound_file_gives_its_model(path, saved):
    model = keras_files.load(str(path))
    for found, wanted in zip(model.weights, saved[1], strict=True):
        np.testing.assert_array_equal(np.asarray(found), wanted)


def test_no_changed_byte_gives_other_weights(path, saved):
    """Keras itself loads other weights where the bytes of a weight are changed."""
    contents, weights = saved
    at = contents.index(weights[0].tobytes())
    path.write_bytes(contents[:at] + b"\x42" + contents[at + 1 :])
    assert "checksum of 'model.weights.h5'" in _refusal(path, DataError)


@pytest.mark.parametrize("part", [0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(path, saved, part):
    path.write_bytes(saved[0][: int(len(saved[0]) * part)])
    assert "copy it again, or save the model again" in _refusal(path, DataError)


@pytest.mark.integration
def test_changing_any_byte_leaves_the_weights_the_same(path, saved):
    contents, weights = saved
    read = 0
    places = [*range(30), *np.linspace(30, len(contents) - 1, 60, dtype=int)]
    for at in places:
        path.write_bytes(contents[:at] + bytes([contents[at] ^ 0x55]) + contents[at + 1 :])
        try:
            model = keras_files.load(str(path))
        except DataError:
            continue
        read += 1
        for found, wanted in zip(model.weights, weights, strict=True):
            np.testing.assert_array_equal(np.asarray(found), wanted)
    assert 0 < read < len(places) / 3


@pytest.mark.parametrize("member", ["config", "model"])
def test_a_missing_member_is_named(path, member):
    _rewritten(path, **{member: None})
    assert "expected config.json and model.weights.h5" in _refusal(path, DataError)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[]", "expected a JSON object"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_an_invalid_config_is_refused(path, config, message):
    _rewritten(path, config=config)
    assert message in _refusal(path, DataError)


def test_a_class_that_nobody_knows_is_named_with_both_releases(path):
    _with_layer(path, module="shop", class_name="Cart", config={}, registered_name="shop>Cart")
    _rewritten(path, metadata=b'{"keras_version": "3.99.0"}')
    message = _refusal(path)
    assert "'Cart'" in message
    assert "import these first or give custom_objects" in message
    assert (
        f"Keras {keras.version()} cannot load the model, which was saved by Keras '3.99" in message
    )
    _rewritten(path, metadata=b"?")
    assert "saved by an unknown release" in _refusal(path)


@pytest.mark.parametrize("config", [{}, {"class_name": "Dense"}, {"class_name": 3, "config": {}}])
def test_a_config_of_no_model_is_refused(path, config):
    _rewritten(path, config=json.dumps(config).encode())
    assert str(path) in _refusal(path)


def test_a_setting_that_a_layer_refuses_is_quoted(path):
    whole = _config(path)
    whole["config"]["layers"][-1]["config"]["units"] = -3
    _rewritten(path, config=json.dumps(whole).encode())
    assert "-3" in _refusal(path)


@pytest.mark.parametrize("what", ["deleted", "other shape", "no file", "empty"])
def test_weights_that_do_not_fit_are_refused(path, tmp_path, what):
    weights = tmp_path / "weights.h5"
    with zipfile.ZipFile(path) as archive:
        weights.write_bytes(archive.read("model.weights.h5"))
    if what in ("deleted", "other shape"):
        with h5py.File(weights, "r+") as file:
            group = file["layers/dense_1/vars" if "layers/dense_1" in file else "layers/dense/vars"]
            del group["0"]
            if what == "other shape":
                group["0"] = np.ones([3, 4], np.float32)
    else:
        weights.write_bytes(b"x" * 5000 if what == "no file" else b"")
    _rewritten(path, model=weights.read_bytes())
    is_hdf5 = what in ("deleted", "other shape")
    assert ("Keras" in _refusal(path)) if is_hdf5 else ("damaged" in _refusal(path, DataError))


def test_weights_that_keras_leaves_out_are_refused(path, monkeypatch):
    """Those in nested containers, of files of Keras before 3.14."""

    def load_model(*_, **__):
        keras.src.saving.saving_lib.warnings.warn(
            "Skipping nested container at 'blocks/container': no matching group", stacklevel=2
        )

    monkeypatch.setattr(keras.saving, "load_model", load_model)
    assert "blocks/container" in _refusal(path)


def test_what_would_expand_without_measure_is_refused(path, monkeypatch):
    monkeypatch.setattr(keras_files, "_LEAST_BOMB", 1 << 24)
    for size in (1 << 20, 1 << 24):
        assert keras_files.load(str(path))
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"assets/{size}", bytes(size))
    assert "would expand to 17,8" in _refusal(path, DataError)


def test_arrays_that_are_larger_than_their_file_are_refused(path, tmp_path):
    with h5py.File(tmp_path / "weights.h5", "w") as file:
        file.create_dataset("vars/0", [1 << 20, 1 << 18], np.float32, chunks=(1, 1 << 18))
    _rewritten(path, model=(tmp_path / "weights.h5").read_bytes())
    assert "would expand to 1,099,511,627,776 bytes" in _refusal(path, DataError)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "is empty"),
        (b"epoch,loss\n1,2\n", "not a zip file"),
        (b"\x89HDF\r\n\x1a\n" + bytes(500), "HDF5 file, which can run code"),
    ],
)
def test_a_file_of_another_kind_is_refused(path, contents, message):
    path.write_bytes(contents)
    assert message in _refusal(path, UserError if "HDF5" in message else DataError)


def test_another_name_a_folder_and_nothing_are_refused(path, tmp_path):
    assert "give the .keras file" in _refusal(tmp_path)
    assert "missing" in _refusal(tmp_path / "modle.keras")
    assert "end in .keras: rename it" in _refusal(path.rename(tmp_path / "model.zip"))


def test_an_unreadable_file_is_named(path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(keras_files, "open", refuse, raising=False)
    assert "Permission denied" in _refusal(path)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("kind", "layer", "weights"),
    [
        *((kind, "mixture_of_experts", _EXPERTS) for kind in ("experts", "moe_lstm")),
        ("adaptive", "adaptive_steps", {f"vars/{number}" for number in range(3)}),
    ],
)
def test_layers_with_losses_of_their_own_have_the_names_of_earlier_files(
    kind, layer, weights, tmp_path
):
    """Keras finds weights by the attributes that lead to them, of which one is a property."""
    model_of(kind).save(tmp_path / "model.keras")
    names: list[str] = []
    with (
        zipfile.ZipFile(tmp_path / "model.keras") as archive,
        archive.open("model.weights.h5") as member,
        h5py.File(member) as file,
    ):
        file.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
    prefix = "auxiliary_layers/"
    assert {name.removeprefix(prefix) for name in names if name.startswith(prefix)} == {
        f"{layer}{number}/{weight}" for number in ("", "_1") for weight in weights
    }


# ---- what would run code


def test_a_python_lambda_is_not_run(path, tmp_path):
    keras.Sequential([keras.Input([2]), keras.layers.Lambda(lambda x: x + 1)]).save(path)
    assert "safe_mode=False" in _refusal(path)
    assert len(keras_files.load(str(path), safe_mode=False).layers) == 1


@pytest.mark.parametrize(
    ("module", "kind", "config"),
    [
        ("keras.utils", "function", "get_file"),
        ("keras.config", "function", "enable_unsafe_deserialization"),
        ("keras.src.utils.file_utils", "get_file", {}),
        ("keras.models", "function", "load_model"),
        ("keras", "function", "device"),
    ],
)
def test_functions_of_no_model_are_not_called(path, module, kind, config):
    called = {"module": module, "class_name": kind, "config": config, "registered_name": None}
    _with_layer(
        path,
        module="keras.layers",
        class_name="Lambda",
        config={"name": "x", "function": called, "arguments": {"origin": "file:///etc/passwd"}},
        registered_name=None,
    )
    assert "not part of a model" in _refusal(path)


def test_functions_that_are_part_of_a_model_are_loaded(tmp_path):
    activations = ["gelu", keras.ops.relu, keras.activations.tanh]
    layers = [keras.layers.Dense(2, activation=activation) for activation in activations]
    model = keras.Sequential([keras.Input([2]), *layers])
    model.compile("adam", loss=keras.losses.mean_squared_error, metrics=["accuracy"])
    model.save(tmp_path / "model.keras")
    loaded = keras_files.load(os.fspath(tmp_path / "model.keras"))
    names = [layer.activation.__name__ for layer in loaded.layers]
    assert names == ["gelu", "relu", "tanh"]
