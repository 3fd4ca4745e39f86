"""Which mesh axis holds which dimension."""

import jax
import jax.numpy as jnp
import optax
import pytest
from jax.sharding import PartitionSpec as P

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.sharding import rules

BLOCK = "Transformer/encoderblock_0"
ATTENTION = f"{BLOCK}/MultiHeadDotProductAttention_0"


def shape(*dimensions):
  return jax.ShapeDtypeStruct(dimensions, jnp.float32)


def nest(flat):
  tree = {}
  for path, leaf in flat.items():
    *parents, name = path.split("/")
    node = tree
    for parent in parents:
      node = node.setdefault(parent, {})
    node[name] = leaf
  return tree


def specs(flat, config, user_rules=(), family_rules=()):
  mesh = mesh_lib.create_mesh(config)
  placed = rules.param_shardings(nest(flat), mesh, user_rules, family_rules)
  leaves = jax.tree.leaves(placed)
  return dict(zip(sorted(flat), [leaf.spec for leaf in leaves], strict=True))


def test_tensor_parallelism_splits_heads_and_mlp_columns():
  found = specs(
    {
      f"{ATTENTION}/query/kernel": shape(64, 4, 16),
      f"{ATTENTION}/query/bias": shape(4, 16),
      f"{ATTENTION}/out/kernel": shape(4, 16, 64),
      f"{ATTENTION}/out/bias": shape(64),
      f"{BLOCK}/relative_bias/table": shape(52, 4),
      f"{BLOCK}/MlpBlock_0/Dense_0/kernel": shape(64, 256),
      f"{BLOCK}/MlpBlock_0/Dense_1/kernel": shape(256, 64),
      f"{BLOCK}/LayerNorm_0/scale": shape(64),
    },
    schema.Mesh(data=2, tensor=2),
  )
  assert found == {
    f"{ATTENTION}/query/kernel": P(None, "tensor"),
    f"{ATTENTION}/query/bias": P("tensor"),
    f"{ATTENTION}/out/kernel": P("tensor"),
    f"{ATTENTION}/out/bias": P(),
    f"{BLOCK}/relative_bias/table": P(None, "tensor"),
    f"{BLOCK}/MlpBlock_0/Dense_0/kernel": P(None, "tensor"),
    f"{BLOCK}/MlpBlock_0/Dense_1/kernel": P("tensor"),
    f"{BLOCK}/LayerNorm_0/scale": P(),
  }


def test_layers_stacked_by_a_scan_are_split_alike():
  path = "Transformer/encoderblock/MlpBlock_0/Dense_0/kernel"
  found = specs({path: shape(12, 64, 256)}, schema.Mesh(data=2, tensor=2))
  assert found[path] == P(None, None, "tensor")


def test_heads_that_do_not_divide_stay_whole():
  path = f"{ATTENTION}/query/kernel"
  found = specs({path: shape(64, 3, 16)}, schema.Mesh(data=2, tensor=2))
  assert found[path] == P()


def test_fsdp_takes_the_largest_free_dimension_of_large_arrays():
  found = specs(
    {
      "head/kernel": shape(1024, 2048),
      "small/kernel": shape(64, 128),
      "odd/kernel": shape(1023, 2047),
      f"{BLOCK}/MlpBlock_0/Dense_0/kernel": shape(1024, 2048),
    },
    schema.Mesh(data=1, fsdp=2, tensor=2),
  )
  assert found == {
    "head/kernel": P(None, "fsdp"),
    "small/kernel": P(),
    "odd/kernel": P(),
    f"{BLOCK}/MlpBlock_0/Dense_0/kernel": P("fsdp", "tensor"),
  }


@pytest.mark.parametrize(
  ("num_heads", "query", "out"),
  [
    (16, P(None, "fsdp"), P("fsdp")),
    (3, P("fsdp"), P(None, None, "fsdp")),  # 4 do not divide the heads.
  ],
)
def test_fsdp_splits_whole_heads_where_it_divides_them(num_heads, query, out):
  found = specs(
    {
      f"{ATTENTION}/query/kernel": shape(1024, num_heads, 100),
      f"{ATTENTION}/out/kernel": shape(num_heads, 100, 1024),
    },
    schema.Mesh(data=1, fsdp=4),
  )
  assert found == {
    f"{ATTENTION}/query/kernel": query,
    f"{ATTENTION}/out/kernel": out,
  }


def test_a_rule_of_the_users_comes_first():
  found = specs(
    {"head/kernel": shape(8, 8)},
    schema.Mesh(data=2, tensor=2),
    user_rules=[("head/kernel", ("tensor", None))],
  )
  assert found["head/kernel"] == P("tensor")


def test_a_rule_of_the_users_without_axes_keeps_an_array_whole():
  large = {"head/kernel": shape(1024, 2048)}
  for axes, expected in (((), P()), ((None, "tensor"), P("fsdp", "tensor"))):
    mesh = schema.Mesh(data=1, fsdp=2, tensor=2)
    found = specs(large, mesh, user_rules=[("head/kernel", axes)])
    assert found["head/kernel"] == expected


@pytest.mark.parametrize(
  ("axes", "expected"),
  [
    ((None, "fsdp"), P(None, "fsdp")),
    (("fsdp", "tensor"), P(None, "tensor")),
    ((None, None), P()),
  ],
)
def test_a_rule_of_the_family_may_name_any_axis(axes, expected):
  found = specs(
    {"layer_0/kernel": shape(7, 8)},
    schema.Mesh(data=1, fsdp=2, tensor=2),
    family_rules=[("layer_0/kernel", axes)],
  )
  assert found["layer_0/kernel"] == expected


def test_what_stays_whole_says_why():
  params = nest(
    {
      f"{ATTENTION}/query/kernel": shape(1024, 3, 1024),
      f"{ATTENTION}/key/kernel": shape(1024, 4, 1024),
      "head/kernel": shape(1024, 2048),
      "head/bias": shape(2048),
      "odd/kernel": shape(1023, 2047),
      "kept/kernel": shape(1024, 2048),
    }
  )
  mesh = mesh_lib.create_mesh(schema.Mesh(data=1, fsdp=2, tensor=2))
  found = rules.placements(params, mesh, [("kept/.*", ())])
  assert {path: place.whole_along for path, place in found.items()} == {
    f"{ATTENTION}/query/kernel": {"tensor": "2 do not divide 3"},
    f"{ATTENTION}/key/kernel": {},
    "head/kernel": {"tensor": "no rule splits it"},
    "head/bias": {"tensor": "no rule splits it", "fsdp": "below 1.00 MiB"},
    "odd/kernel": {
      "tensor": "no rule splits it",
      "fsdp": "2 divide no free dimension",
    },
    "kept/kernel": {
      "tensor": "config.mesh.rules says so",
      "fsdp": "config.mesh.rules says so",
    },
  }


def test_nothing_is_whole_along_an_axis_of_one_device():
  mesh = mesh_lib.create_mesh(schema.Mesh(data=4))
  params = nest({"head/kernel": shape(1024, 2048)})
  assert rules.placements(params, mesh)["head/kernel"].whole_along == {}


@pytest.mark.parametrize(
  ("rule", "sentence"),
  [
    (("head/.*", ("data", "data")), "names the axis 'data' twice"),
    (("tail/.*", ("tensor",)), "'tail/.*' matches no parameter"),
    (("head/.*", ("model",)), "names the axis 'model'"),
    (("head/.*", (None, "tensor")), r"splits dimension 1 of head/kernel \(7\)"),
    (("head/.*", (None, None, None)), "gives 3 axes for head/kernel"),
  ],
)
def test_a_rule_that_does_not_fit_is_an_error(rule, sentence):
  with pytest.raises(UserError, match=sentence):
    specs({"head/kernel": shape(8, 7)}, schema.Mesh(data=2, tensor=2), [rule])


@pytest.mark.parametrize(
  ("axes", "sentence"),
  [
    (("model",), "family's sharding rule 'head/.*' names the axis 'model'; "),
    (("data", "data"), "rule 'head/.*' names the axis 'data' twice"),
  ],
)
def test_a_family_s_rule_that_does_not_fit_the_mesh_is_an_error(axes, sentence):
  with pytest.raises(UserError, match=sentence):
    specs(
      {"head/kernel": shape(8, 7)},
      schema.Mesh(data=2, tensor=2),
      family_rules=[("head/.*", axes)],
    )


def test_optimizer_moments_follow_their_parameters():
  params = nest(
    {
      f"{BLOCK}/MlpBlock_0/Dense_0/kernel": shape(64, 256),
      "head/bias": shape(10),
    }
  )
  mesh = mesh_lib.create_mesh(schema.Mesh(data=2, tensor=2))
  shardings = rules.param_shardings(params, mesh)
  state = jax.eval_shape(optax.adamw(1e-3).init, params)
  placed = rules.state_shardings(state, params, shardings, mesh)
  adam = placed[0]
  assert jax.tree.leaves(adam.mu) == jax.tree.leaves(shardings)
  assert jax.tree.leaves(adam.nu) == jax.tree.leaves(shardings)
  assert adam.count.spec == P()


def test_a_device_holds_its_share_of_the_bytes():
  mesh = mesh_lib.create_mesh(schema.Mesh(data=1, fsdp=4))
  params = {"kernel": shape(1024, 2048), "bias": shape(10)}
  shardings = rules.param_shardings(params, mesh)
  assert rules.shard_bytes(params, shardings) == 1024 * 2048 + 40


@pytest.mark.parametrize(
  ("size", "text"),
  [
    (0, "0 B"),
    (1023, "1023 B"),
    (1536, "1.50 KiB"),
    (3 * 2**40, "3072.00 GiB"),
  ],
)
def test_bytes_are_shown_in_their_unit(size, text):
  assert rules.format_bytes(size) == text
