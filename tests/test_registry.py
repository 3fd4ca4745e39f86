"""Names lead to records, lazily, from inside and outside the package."""

import sys

import pytest

from vit_jax import registry
from vit_jax.errors import UserError


def test_an_entry_is_imported_at_its_first_use(tmp_path, monkeypatch):
  (tmp_path / "far_away.py").write_text("KIND = object()\n")
  monkeypatch.syspath_prepend(tmp_path)
  known = registry.Registry("config.kind", {"far": "far_away:KIND"})
  assert "far_away" not in sys.modules
  assert known.get("far") is sys.modules["far_away"].KIND


def test_a_misspelt_name_is_answered_with_the_nearest():
  known = registry.Registry("config.kind", {"near": "a:B", "far": "a:C"})
  with pytest.raises(UserError) as error:
    known.get("nera")
  assert str(error.value) == (
    "config.kind = 'nera' is not known. Did you mean 'near'? Known: near, far."
  )


def test_a_name_is_taken_once():
  known = registry.Registry("config.kind", {})
  record = object()
  known.register("mine", record)
  known.register("mine", record)
  with pytest.raises(ValueError, match="'mine' is registered already"):
    known.register("mine", object())


@pytest.mark.parametrize(
  "known", [registry.FAMILIES, registry.OBJECTIVES, registry.EVALUATORS]
)
def test_every_name_of_the_package_leads_to_a_record(known):
  for name in known.names():
    assert known.get(name).section


def test_every_tracker_says_which_package_it_needs():
  names = registry.TRACKERS.names()
  assert names == ("wandb", "mlflow", "trackio")
  assert tuple(registry.TRACKERS.get(n).package for n in names) == names


def test_an_extension_that_cannot_be_imported_is_a_sentence():
  with pytest.raises(UserError, match=r"config.extensions: 'no.such.module'"):
    registry.import_extensions(["no.such.module"])
