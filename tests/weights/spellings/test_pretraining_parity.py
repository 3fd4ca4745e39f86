"""Masked pre-training of transformers, where it is installed, beside ours.

With torch's CPU wheel: pip install torch transformers
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests.weights.published import relative_error
from vit_jax.objectives import mae, masked_tokens
from vit_jax.objectives.mae import prediction

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
# Imports both.
positions = pytest.importorskip("tests.golden.make_mae").positions

pytestmark = pytest.mark.slow

PATCH = 4
SIDES = {
  "hidden_size": 48,
  "num_hidden_layers": 3,
  "num_attention_heads": 3,
  "intermediate_size": 96,
  "image_size": 32,
  "patch_size": PATCH,
}
HALVES = np.float32([0.5, 0.5, 0.5])
IMAGENET = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


def drawn(side, seed=0):
  rng = np.random.default_rng(seed)
  return rng.integers(0, 256, (3, side, side, 3), np.uint8)


def pixels(images, mean, deviation):
  values = (images / np.float32(255) - mean) / deviation
  return torch.from_numpy(values.transpose(0, 3, 1, 2).copy())


def randomized(model):
  """A model with parameters that outputs depend on; fixed positions stay."""
  generator = torch.Generator().manual_seed(0)
  with torch.no_grad():
    for name, parameter in sorted(model.named_parameters()):
      if "pos_embed" in name or "position_embeddings" in name:
        continue
      value = torch.randn(parameter.shape, generator=generator)
      if parameter.ndim == 1 and name.endswith("weight"):
        value = 1 + 0.3 * value
      elif parameter.ndim > 1 and name.endswith("weight"):
        value = value / parameter[0].numel() ** 0.5
      else:
        value = 0.3 * value
      parameter.copy_(value)
  return model.eval()


@pytest.mark.parametrize("side", [32, 48, 20])
def test_logits_of_masked_places_are_those_of_beit(tmp_path, side):
  config = transformers.BeitConfig(
    **SIDES,
    use_shared_relative_position_bias=True,
    use_mask_token=True,
    vocab_size=40,
    drop_path_rate=0.0,
  )
  reference = randomized(transformers.BeitForMaskedImageModeling(config))
  reference.save_pretrained(tmp_path)
  images = drawn(side)
  rng = np.random.default_rng(1)
  mask = rng.random((3, (side // PATCH) ** 2)) < 0.4
  with torch.no_grad():
    wanted = reference(
      pixels(images, HALVES, HALVES), bool_masked_pos=torch.from_numpy(mask)
    ).logits.numpy()
    unmasked = reference(pixels(images, HALVES, HALVES)).logits.numpy()

  network, params = vit_jax.load(
    str(tmp_path), image_size=side, pretraining=True
  )
  found = jax.jit(masked_tokens.encode, static_argnums=0)(
    network, params, images, params["mask_token"], jnp.asarray(mask)
  )
  head = params["patch_head"]
  found = np.asarray(found)[:, 1:] @ np.asarray(head["kernel"])
  found += np.asarray(head["bias"])
  print(f"masked {relative_error(found[mask], wanted[mask]):.1e}")
  assert relative_error(found[mask], wanted[mask]) <= 1e-5
  assert relative_error(found[~mask], wanted[~mask]) <= 1e-5
  assert relative_error(unmasked[mask], wanted[mask]) > 0.1


@pytest.fixture(scope="module")
def autoencoder(tmp_path_factory):
  """transformers' masked autoencoder, with MAE's positions, as it is saved."""
  found = randomized(transformers.ViTMAEForPreTraining(mae_config(32)))
  place(found.vit.embeddings.position_embeddings, positions(8, 48))
  place(found.decoder.decoder_pos_embed, positions(8, 24))
  path = tmp_path_factory.mktemp("mae")
  found.save_pretrained(path)
  return found, str(path)


def mae_config(side):
  return transformers.ViTMAEConfig(
    **(SIDES | {"image_size": side}),
    decoder_hidden_size=24,
    decoder_num_hidden_layers=2,
    decoder_num_attention_heads=2,
    decoder_intermediate_size=96,
    norm_pix_loss=True,
    layer_norm_eps=1e-6,
  )


def place(parameter, values):
  with torch.no_grad():
    parameter.copy_(torch.as_tensor(values)[None])


@pytest.mark.parametrize("side", [32, 48, 20])
def test_the_encoder_of_mae_interpolates_as_transformers_does(
  autoencoder, side
):
  reference, path = autoencoder
  images = drawn(side)
  number = (side // PATCH) ** 2
  noise = np.random.default_rng(2).random((3, number), np.float32)
  with torch.no_grad():
    wanted = reference.vit(
      pixels(images, *IMAGENET),
      noise=torch.from_numpy(noise),
      interpolate_pos_encoding=True,
    ).last_hidden_state.numpy()
  network, params = vit_jax.load(path, image_size=side)
  visible = np.argsort(noise, axis=1)[:, : wanted.shape[1] - 1]
  found = network.apply(
    {"params": params},
    jnp.asarray(images),
    jnp.asarray(visible),
    False,
    method=prediction.visible_features,
  )
  print(f"encoder {relative_error(np.asarray(found), wanted):.1e}")
  assert relative_error(np.asarray(found), wanted) <= 1e-5


@pytest.mark.parametrize("side", [48, 20])
def test_mae_predicts_at_another_size_as_a_network_of_that_size(
  autoencoder, side
):
  """transformers interpolates the decoder's positions along one line.

  Ours are MAE's for the new grid, as of a network that is made for it.
  """
  source, path = autoencoder
  grid = side // PATCH
  reference = transformers.ViTMAEForPreTraining(mae_config(side)).eval()
  tensors = {
    name: tensor
    for name, tensor in source.state_dict().items()
    if "pos_embed" not in name and "position_embeddings" not in name
  }
  reference.load_state_dict(tensors, strict=False)
  with torch.no_grad():
    patches = torch.zeros(1, grid**2 + 1, 48)
    table = source.vit.embeddings.interpolate_pos_encoding(patches, side, side)
  place(reference.vit.embeddings.position_embeddings, table[0])
  place(reference.decoder.decoder_pos_embed, positions(grid, 24))

  values = pixels(drawn(side), *IMAGENET)
  noise = np.random.default_rng(3).random((3, grid**2), np.float32)
  with torch.no_grad():
    wanted = reference(values, noise=torch.from_numpy(noise))
  model, params = vit_jax.load(path, image_size=side, pretraining=True)
  images = values.numpy().transpose(0, 2, 3, 1)
  loss, predicted, mask = mae.reconstruct(model, params, images, noise)
  np.testing.assert_allclose(loss, wanted.loss, rtol=1e-5)
  error = relative_error(np.asarray(predicted), wanted.logits.numpy())
  print(f"predicted {error:.1e}")
  assert error <= 1e-5
  np.testing.assert_array_equal(mask, wanted.mask.bool())
