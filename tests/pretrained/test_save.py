"""What is saved is loaded back the same."""

import jax
import numpy as np
import pytest

import vit_jax
from tests.models import networks
from vit_jax.errors import UserError
from vit_jax.weights import files, flat

KINDS = {
  "vit": {},
  "gap": {"pool": "gap"},
  "map": {"pool": "map"},
  "pre_logits": {"representation_size": 12},
  "exact": {"gelu": "exact", "layer_norm_eps": 1e-12, "normalize": "imagenet"},
  "2-D": {"pos_embedding": "learned_2d"},
  "hybrid": {"stem_blocks": (1,), "stem_width": 32},
  "resnet": {
    "name": "resnet",
    "variant": "R50x1",
    "blocks": (1, 1),
    "width": 32,
    "depth": None,
    "num_heads": None,
    "mlp_dim": None,
  },
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_npz_gives_back_network_and_parameters(tmp_path, kind):
  model = networks.tiny(**KINDS[kind])
  params = networks.random_params(model)
  path = str(tmp_path / "x.npz")
  vit_jax.save(path, model, params, class_names=list("abcde"))
  again, loaded = vit_jax.load(path)
  assert again == model
  assert files.read(path).class_names == list("abcde")
  loaded = flat.flatten(loaded)
  assert loaded.keys() == flat.flatten(params).keys()
  for name, leaf in flat.flatten(params).items():
    np.testing.assert_array_equal(loaded[name], leaf)


@pytest.mark.parametrize(
  "keys",
  [
    {"gelu": "exact", "layer_norm_eps": 1e-12},
    KINDS["resnet"] | {"standardization": "torch"},
  ],
)
def test_a_directory_gives_back_the_parameters(tmp_path, keys):
  model = networks.tiny(**keys)
  params = networks.random_params(model)
  path = str(tmp_path / "directory")
  vit_jax.save(path, model, params)
  _, loaded = vit_jax.load(path)
  jax.tree.map(np.testing.assert_array_equal, loaded, params)


def test_stacked_layers_of_arrays_on_a_device_are_saved_one_by_one(tmp_path):
  model = networks.tiny(scan_layers=True)
  params = jax.device_put(networks.random_params(model))
  path = str(tmp_path / "x.npz")
  vit_jax.save(path, model, params)
  again, loaded = vit_jax.load(path)
  assert not again.scan_layers and again == model.clone(scan_layers=False)
  np.testing.assert_array_equal(
    loaded["Transformer"]["encoderblock_1"]["LayerNorm_0"]["scale"],
    params["Transformer"]["encoderblock"]["LayerNorm_0"]["scale"][1],
  )


def test_a_form_that_is_not_written_is_refused(tmp_path):
  model = networks.tiny()
  with pytest.raises(UserError, match="ends in '.pt'.*NAME.npz"):
    vit_jax.save(str(tmp_path / "x.pt"), model, networks.random_params(model))
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  ("name", "form", "words"),
  [
    ("x", "zip", "form = 'zip' is not known.*'timm'"),
    ("x.npz", "timm", "ends in '.npz', but form = 'timm' is a directory"),
    ("x.pt", None, "NAME.safetensors"),
  ],
)
def test_forms_that_do_not_go_with_a_path_are_refused(
  tmp_path, name, form, words
):
  model = networks.tiny()
  with pytest.raises(UserError, match=words):
    params = networks.random_params(model)
    vit_jax.save(str(tmp_path / name), model, params, form=form)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("pool", "file"), [("cls", True), ("gap", False)])
def test_a_directory_is_hugging_faces_where_it_has_the_network(
  tmp_path, caplog, pool, file
):
  model = networks.tiny(pool=pool)
  path = tmp_path / "x"
  with caplog.at_level("WARNING"):
    vit_jax.save(str(path), model, networks.random_params(model))
  assert (path / "preprocessor_config.json").exists() == file
  assert ("written in timm's form" in caplog.text) != file


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path):
  (tmp_path / "file").write_text("")
  model = networks.tiny()
  with pytest.raises(UserError, match="cannot be written"):
    path = str(tmp_path / "file/x.npz")
    vit_jax.save(path, model, networks.random_params(model))


@pytest.mark.parametrize(("classes", "said"), [(10, 10), (None, 0)])
def test_every_output_has_its_name(tmp_path, classes, said):
  model, params = vit_jax.create_model(
    "ViT-mu/16", num_classes=classes, image_size=32
  )
  place = tmp_path / "saved"
  with pytest.raises(UserError, match=f"2 names and the head {said} outputs"):
    vit_jax.save(str(place), model, params, class_names=["cat", "dog"])
  assert not place.exists()


@pytest.mark.parametrize("name", ["x.npz", "x.safetensors", "directory"])
@pytest.mark.parametrize(
  ("change", "words"),
  [
    (lambda p: {"params": p}, r"give variables\['params'\]"),
    (lambda p: {**p, "decoder": {"kernel": np.ones(3)}}, "'decoder/kernel' is"),
    (lambda p: {n: x for n, x in p.items() if n != "head"}, "is not there"),
    (
      lambda p: {**p, "head": {"kernel": np.ones((16, 7)), "bias": np.ones(7)}},
      r"'head/bias' is \(7,\) instead of \(5,\)",
    ),
  ],
)
def test_parameters_of_another_model_replace_nothing(
  tmp_path, name, change, words
):
  model = networks.tiny(num_classes=5)
  params = networks.random_params(model)
  path = tmp_path / name
  if path.suffix:
    path.write_text("earlier")
  with pytest.raises(UserError, match=words):
    vit_jax.save(str(path), model, change(params))
  assert not path.suffix or path.read_text() == "earlier"
