"""The fields of Kubernetes objects that launch/ uses; any other is an error.

Taken from the references of the JobSet API (jobset.x-k8s.io/v1alpha2) and of
the Kubernetes API (batch/v1 Job, core/v1 Pod).
"""

from typing import Annotated, Literal

import pydantic
from pydantic import Field

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
Name = Annotated[str, Field(pattern=f"^{_LABEL}$")]
Count = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]
Text = Annotated[str, Field(strict=True)]


class Object(pydantic.BaseModel):
  model_config = pydantic.ConfigDict(extra="forbid")


class EmptyDir(Object):
  medium: Literal["", "Memory"] = ""


class Claim(Object):
  claimName: Name


class Csi(Object):
  driver: Literal["gcsfuse.csi.storage.gke.io"]
  readOnly: bool
  volumeAttributes: dict[str, Text]


class Volume(Object):
  name: Name
  emptyDir: EmptyDir | None = None
  persistentVolumeClaim: Claim | None = None
  csi: Csi | None = None

  @pydantic.model_validator(mode="after")
  def has_one_source(self):
    assert len(self.model_fields_set) == 2
    return self


class Mount(Object):
  name: Name
  mountPath: Annotated[str, Field(pattern="^/[^:]*$")]
  readOnly: bool = False


class FieldRef(Object):
  fieldPath: Annotated[str, Field(pattern=r"^metadata\.annotations\['.+'\]$")]


class Source(Object):
  fieldRef: FieldRef


class Variable(Object):
  name: Annotated[str, Field(pattern="^[A-Z_]+$")]
  value: Text | None = None
  valueFrom: Source | None = None

  @pydantic.model_validator(mode="after")
  def has_one_value(self):
    assert (self.value is None) != (self.valueFrom is None)
    return self


class Resources(Object):
  limits: dict[Literal["google.com/tpu", "nvidia.com/gpu"], Positive]


class Container(Object):
  name: Name
  image: Annotated[str, Field(pattern=r"^[a-z0-9][\w./:@-]+$")]
  workingDir: Annotated[str, Field(pattern="^/")]
  command: Annotated[list[Text], Field(min_length=1)]
  env: list[Variable]
  resources: Resources
  volumeMounts: list[Mount]


class Toleration(Object):
  key: Text
  operator: Literal["Equal", "Exists"]
  value: Text
  effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"]


class PodSpec(Object):
  restartPolicy: Literal["Never"]  # As podFailurePolicy demands.
  terminationGracePeriodSeconds: Positive
  serviceAccountName: Name | None = None
  nodeSelector: dict[Text, Text]
  tolerations: list[Toleration] = []
  containers: Annotated[list[Container], Field(min_length=1)]
  volumes: list[Volume]

  @pydantic.model_validator(mode="after")
  def mounts_its_volumes(self):
    mounted = {m.name for c in self.containers for m in c.volumeMounts}
    assert mounted == {volume.name for volume in self.volumes}
    return self


class PodMetadata(Object):
  annotations: dict[Text, Text]


class Pod(Object):
  metadata: PodMetadata | None = None
  spec: PodSpec


class Condition(Object):
  type: Literal["DisruptionTarget"]
  status: Literal["True", "False", "Unknown"]


class ExitCodes(Object):
  containerName: Name
  operator: Literal["In", "NotIn"]
  values: Annotated[list[Count], Field(min_length=1, max_length=255)]

  @pydantic.field_validator("values")
  def are_ordered(values):
    assert values == sorted(set(values))
    return values


class PodRule(Object):
  action: Literal["FailJob", "FailIndex", "Ignore", "Count"]
  onExitCodes: ExitCodes | None = None
  onPodConditions: list[Condition] | None = None

  @pydantic.model_validator(mode="after")
  def has_one_requirement(self):
    assert (self.onExitCodes is None) != (self.onPodConditions is None)
    return self


class PodFailurePolicy(Object):
  rules: Annotated[list[PodRule], Field(max_length=20)]


class JobSpec(Object):
  completionMode: Literal["Indexed"]
  parallelism: Positive
  completions: Positive
  backoffLimit: Count
  podFailurePolicy: PodFailurePolicy
  template: Pod


class JobTemplate(Object):
  spec: JobSpec


class ReplicatedJob(Object):
  name: Name
  replicas: Positive
  template: JobTemplate


class Network(Object):
  enableDNSHostnames: bool
  publishNotReadyAddresses: bool


Reason = Literal[
  "BackoffLimitExceeded",
  "DeadlineExceeded",
  "FailedIndexes",
  "MaxFailedIndexesExceeded",
  "PodFailurePolicy",
]


class JobSetRule(Object):
  name: Annotated[
    str, Field(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
  ]
  action: Literal[
    "FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"
  ]
  onJobFailureReasons: list[Reason]


class FailurePolicy(Object):
  maxRestarts: Count
  restartStrategy: Literal["Recreate", "BlockingRecreate"]
  rules: list[JobSetRule]


class JobSetSpec(Object):
  network: Network
  failurePolicy: FailurePolicy
  replicatedJobs: list[ReplicatedJob]


class Metadata(Object):
  name: Name
  namespace: Name
  annotations: dict[Text, Text] = {}


class JobSet(Object):
  """A JobSet, as kubectl would have to send it."""

  apiVersion: Literal["jobset.x-k8s.io/v1alpha2"]
  kind: Literal["JobSet"]
  metadata: Metadata
  spec: JobSetSpec


def outcome(jobset: JobSet, code: int, *, disrupted: bool = False) -> str:
  """What becomes of a JobSet one of whose pods ends with an exit code.

  As the two APIs describe it: the job's rules are looked through in order, and
  give the reason of its failure; then the JobSet's.
  """
  job = jobset.spec.replicatedJobs[0].template.spec
  assert job.backoffLimit == 0 and code
  reason = "BackoffLimitExceeded"
  for rule in job.podFailurePolicy.rules:
    if rule.onPodConditions:
      matches = disrupted
    else:
      listed = code in rule.onExitCodes.values
      matches = listed == (rule.onExitCodes.operator == "In")
    if matches:
      if rule.action == "FailJob":
        reason = "PodFailurePolicy"
      break
  for rule in jobset.spec.failurePolicy.rules:
    if reason in rule.onJobFailureReasons:
      return rule.action
  return "RestartJobSet"


def expanded(word: str, variables: dict[str, str]) -> str:
  """A word of a command as its container gets it.

  $(NAME) is the variable of that name, and stays where there is none; $$ is $.
  """
  result, rest = "", word
  while rest:
    if rest.startswith("$$"):
      result, rest = result + "$", rest[2:]
    elif rest.startswith("$(") and ")" in rest:
      name = rest[2 : rest.index(")")]
      result += variables.get(name, f"$({name})")
      rest = rest[rest.index(")") + 1 :]
    else:
      result, rest = result + rest[0], rest[1:]
  return result
