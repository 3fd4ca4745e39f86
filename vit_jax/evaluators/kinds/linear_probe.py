"""Declaration of `linear_probe`: a linear layer on frozen features."""

from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column
from vit_jax.evaluators import entry_checks, probe_protocols
from vit_jax.evaluators.kind import EvaluatorKind


def _protocol(
  name: str, entry: schema.LinearProbeEval, config: schema.Config
) -> str:
  if (protocol := probe_protocols.of(entry)) is not None:
    return _trained_probe_protocol(entry, protocol)
  fitted = (
    "A multinomial logistic regression is fitted to the frozen"
    f" {entry.representation} features of the whole training split,"
    " standardised, and tested on the whole test split."
  )
  if len(entry.l2_sweep) == 1:
    return f"{fitted} Its l2 is {entry.l2_sweep[0]:g}, fixed beforehand."
  return (
    f"{fitted} Its l2 is the most accurate of"
    f" {entry_checks.listed(entry.l2_sweep)} on {100 * entry.held_out:g}% of"
    " each class of the training split, held out of the fit that is compared;"
    " the test split has no say in it."
  )


def _trained_probe_protocol(
  entry: schema.LinearProbeEval, protocol: probe_protocols.Protocol
) -> str:
  """Describes what is trained, for how long, and what is reported."""
  seen = f"the frozen {entry.representation} features"
  if protocol.blocks:
    counts = entry_checks.listed(protocol.blocks).replace(" and ", " or ")
    seen = f"the frozen class tokens of the last {counts} layers, joined,"
    if protocol.has_patches:
      always = all(protocol.average_patches)
      seen += " with" if always else " with or without"
      seen += " the mean of the patches"
  of_what = f"augmented images ({entry.augment})" if entry.augment else "images"
  rates = entry_checks.listed(protocol.learning_rates)
  several = len(protocol.learning_rates) > 1
  sentences = [
    f"{_PROBES[entry.protocol]}: a linear layer on {seen} of {of_what} of the"
    " whole training split"
    + (", brought to mean 0 and variance 1," if protocol.batch_norm else ""),
    f"is trained for {protocol.epochs} epochs by"
    f" {_OPTIMIZERS[protocol.optimizer]}, batches of"
    f" {protocol.train_batch_size}, learning rate{'s' if several else ''}"
    f" {rates} x batch / 256 with cosine decay",
  ]
  if protocol.warmup_epochs:
    sentences[-1] += f" after {protocol.warmup_epochs} epochs of warmup"
  sentences[-1] += ", and tested on the whole test split."
  count = len(protocol.settings)
  if count > 1:
    sentences.append(
      f"Of {count} such layers the one most accurate on the test split is"
      " reported, as published: that split has a say in it."
    )
  return " ".join(sentences)


_PROBES = {
  "dino": "DINO's protocol",
  "dinov2": "DINOv2's protocol",
  "mae": "MAE's protocol",
}
_OPTIMIZERS = {"sgd": "SGD with momentum", "lars": "LARS"}


def _features(entry: schema.LinearProbeEval) -> tuple[str, ...]:
  protocol = probe_protocols.of(entry)
  if protocol is not None and protocol.blocks:
    return ()  # Reads network layers, not the objective's outputs.
  return (entry.representation,)


def _check(
  name: str, entry: schema.LinearProbeEval, config: schema.Config
) -> None:
  probe_protocols.check(name, entry, config)
  entry_checks.check_features(name, entry, config)


def _columns(entry: schema.LinearProbeEval) -> list[Column]:
  top1 = Column(
    "top1",
    "top-1, %",
    "percent",
    better="higher",
    panel="Linear-probe accuracy",
  )
  protocol = probe_protocols.of(entry)
  if protocol is None:
    return [top1, Column("l2", "l2")]
  if len(protocol.settings) == 1:
    return [top1]
  return [
    top1,
    Column("learning_rate", "rate for 256"),
    Column("blocks", "last layers"),
    Column("average_patches", "with patches"),
  ]


KIND = EvaluatorKind(
  section=schema.LinearProbeEval,
  build="vit_jax.evaluators.linear_probe:build",
  prefix="linear_probe",
  title="Linear probe",
  protocol=_protocol,
  features=_features,
  check=_check,
  columns=_columns,
)
