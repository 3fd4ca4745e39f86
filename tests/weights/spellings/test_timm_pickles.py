"""timm's state dicts in .pth files, without a config."""

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

import vit_jax
from tests.models import networks
from vit_jax.weights import files, torch_file

STAGES4 = dict(depths=(1, 1, 1, 1), image_size=64)
NETWORKS = {
  "swin": networks.tiny_swin(
    5, **STAGES4, window_size=2, num_heads=(1, 1, 2, 2)
  ),
  "convnext": networks.tiny_convnext(5, **STAGES4, widths=(6, 8, 8, 10)),
  "resnet": networks.tiny_resnet(5, blocks=(3, 4, 6, 3), image_size=64),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_timms_names_are_read_from_a_pickle_too(tmp_path, monkeypatch, name):
  network = NETWORKS[name]
  file = tmp_path / "x.safetensors"
  vit_jax.save(str(file), network, networks.random_params(network))
  tensors, wanted = load_file(file), files.read(str(file))
  (tmp_path / "model_best.pth.tar").touch()
  monkeypatch.setattr(torch_file, "read", lambda path: {"state_dict": tensors})
  weights = files.read(str(tmp_path / "model_best.pth.tar"))
  jax.tree.map(np.testing.assert_array_equal, weights.params, wanted.params)
  assert weights.model.name == name
  normalize = "minus_one_to_one" if name == "resnet" else "imagenet"
  assert weights.model.normalize == normalize
  assert any(normalize in note for note in weights.assumed)


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_swin_of_timm_may_have_fewer_stages(tmp_path, monkeypatch, stages):
  network = networks.tiny_swin(
    5, depths=(2,) * stages, num_heads=(1, 2, 2)[:stages], image_size=32
  )
  params = networks.random_params(network)
  file = tmp_path / "x.safetensors"
  vit_jax.save(str(file), network, params)
  tensors = load_file(file)
  (tmp_path / "x.pth").touch()
  monkeypatch.setattr(torch_file, "read", lambda path: tensors)
  weights = files.read(str(tmp_path / "x.pth"))
  jax.tree.map(np.testing.assert_array_equal, weights.params, params)
  assert not weights.model.pad_before_shift
