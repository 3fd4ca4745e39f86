"""The JobSet: its fields, its rules by exit code, and what creates it."""

import dataclasses
import pathlib
import re
import subprocess
import sys

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from launch import exit_codes, experiment, gke
from launch.exit_codes import Outcome
from tests.launch import kubernetes
from tests.launch.conftest import ODD
from tests.launch.programs import Programs
from vit_jax.errors import UserError

IMAGE = "us-docker.pkg.dev/project/repository/vit_jax:0123456789ab"
TPU = gke.Job("first", IMAGE, gke.tpu_nodes("2*v5e:4x4"))
GPU = gke.Job("first", IMAGE, gke.gpu_nodes("nvidia-h100-80gb", 4, 8))
ALL = dict(
  spot=True,
  namespace="research",
  service_account="trainer",
  data_bucket="pictures",
  cache_claim="compiled",
)
JOBS = {
  "tpu": TPU,
  "gpu": GPU,
  "tpu, all flags": dataclasses.replace(TPU, **ALL),
  "gpu, all flags": dataclasses.replace(GPU, **ALL),
}
needs_git = pytest.mark.skipif(
  not (experiment.REPO / ".git").exists(), reason="this is no clone"
)
every_job = pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)


@pytest.fixture
def taken(taken):
  return dataclasses.replace(taken, workdir="gs://bucket/first")


def plan_of(job, taken, revision=None):
  return gke.make_plan(taken, "configs/quickstart.py", job, revision=revision)


def jobset_of(job, taken):
  (text,) = plan_of(job, taken).files.values()
  return kubernetes.JobSet.model_validate(yaml.safe_load(text))


def job_of(job, taken):
  return jobset_of(job, taken).spec.replicatedJobs[0].template.spec


def container_of(job, taken):
  (container,) = job_of(job, taken).template.spec.containers
  return container


@every_job
def test_its_fields_are_those_of_the_api(job, taken):
  jobset = jobset_of(job, taken)
  # JobSet names pods SET-JOB-INDEX-POD-RANDOM, and labels have 63 characters.
  assert len(jobset.metadata.name) <= 40
  assert jobset.spec.network.enableDNSHostnames


@every_job
def test_it_is_restarted_as_the_exit_code_asks(job, taken):
  jobset = jobset_of(job, taken)
  for code in range(1, 256):
    preempted = exit_codes.outcome(code) == Outcome.PREEMPTED
    # A lost process is started again by its pod, which ends when that fails.
    assert kubernetes.outcome(jobset, code) == (
      "RestartJobSetAndIgnoreMaxRestarts" if preempted else "FailJobSet"
    )


@every_job
@pytest.mark.parametrize("code", [1, 42, 137, 143])
def test_who_loses_its_node_is_restarted_whatever_the_code(job, taken, code):
  """137: it was killed before it could save."""
  assert (
    kubernetes.outcome(jobset_of(job, taken), code, disrupted=True)
    == "RestartJobSetAndIgnoreMaxRestarts"
  )


def test_slices_are_jobs_and_their_hosts_pods(taken):
  jobset = jobset_of(TPU, taken)
  (workers,) = jobset.spec.replicatedJobs
  job = workers.template.spec
  assert (workers.replicas, job.parallelism, job.completions) == (2, 4, 4)
  assert job.template.spec.nodeSelector == {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
    "cloud.google.com/gke-tpu-topology": "4x4",
  }
  assert container_of(TPU, taken).resources.limits == {"google.com/tpu": 4}
  # One slice, one node pool, one job.
  assert set(jobset.metadata.annotations.values()) == {
    "cloud.google.com/gke-nodepool"
  }


def test_gpu_processes_find_the_first_pod(taken):
  jobset = jobset_of(GPU, taken)
  (workers,) = jobset.spec.replicatedJobs
  assert (workers.replicas, workers.template.spec.parallelism) == (1, 4)
  container = container_of(GPU, taken)
  assert container.resources.limits == {"nvidia.com/gpu": 8}
  variables = {v.name: v for v in container.env}
  # JobSet names a pod's host SET-JOB-INDEX-POD.SET.
  host = f"{jobset.metadata.name}-{workers.name}-0-0.{jobset.metadata.name}"
  assert variables["JAX_COORDINATOR_ADDRESS"].value == f"{host}:8476"
  assert variables["JAX_NUM_PROCESSES"].value == "4"
  path = variables["JAX_PROCESS_ID"].valueFrom.fieldRef.fieldPath
  assert "batch.kubernetes.io/job-completion-index" in path


def test_flags_reach_their_fields(taken):
  job = dataclasses.replace(TPU, grace_seconds=77, max_restarts=5, **ALL)
  jobset, pod = jobset_of(job, taken), job_of(job, taken).template
  assert jobset.metadata.namespace == "research"
  assert pod.spec.terminationGracePeriodSeconds == 77
  assert pod.spec.serviceAccountName == "trainer"
  assert pod.spec.nodeSelector["cloud.google.com/gke-spot"] == "true"
  assert pod.spec.tolerations
  assert pod.metadata.annotations == {"gke-gcsfuse/volumes": "true"}
  volumes = {volume.name: volume for volume in pod.spec.volumes}
  assert volumes["cache"].persistentVolumeClaim.claimName == "compiled"
  assert volumes["data"].csi.volumeAttributes == {"bucketName": "pictures"}
  assert "--max_restarts=5" in container_of(job, taken).command


def test_compiled_programs_are_kept_in_the_volume(taken):
  """Where train keeps them by default; it looks whether all hosts see it."""
  container = container_of(TPU, taken)
  (cache,) = [m for m in container.volumeMounts if m.name == "cache"]
  variables = {v.name: v.value for v in container.env}
  assert variables["XDG_CACHE_HOME"] == cache.mountPath
  assert "JAX_COMPILATION_CACHE_DIR" not in variables


@settings(max_examples=100)
@given(
  words=st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
    | st.text("$()A{}\"'\\\n: #-", max_size=12)
  )
)
def test_any_words_arrive_as_they_are(words):
  overrides = (*(f"--config.key={word}" for word in words), *ODD)
  taken = experiment.Experiment("", ":smoke", overrides, "gs://bucket/a b'$$")
  container = container_of(TPU, taken)
  variables = {v.name: v.value for v in container.env} | {"A": "b", "HOME": "c"}
  command = [kubernetes.expanded(word, variables) for word in container.command]
  dashes = command.index("--")
  assert command[:dashes] == [
    *("python", "-m", "launch.supervise", "--max_restarts=3")
  ]
  assert command[dashes + 1 :] == [
    *("python", "-m", "vit_jax.train"),
    "--config=configs/quickstart.py:smoke",
    *overrides,
    "--workdir=gs://bucket/a b'$$",
  ]


def test_a_run_needs_a_directory_that_outlives_its_pods(taken):
  taken = dataclasses.replace(taken, workdir="runs/first")
  with pytest.raises(UserError, match="goes with its pod"):
    plan_of(TPU, taken)


@pytest.mark.parametrize(("job", "extra"), [(TPU, "tpu"), (GPU, "cuda12")])
def test_the_image_is_built_of_the_commit(
  tmp_path, taken, monkeypatch, job, extra
):
  programs = Programs(tmp_path, "git", "docker", "kubectl")
  programs.behave(
    "git",
    "path = words[4].removeprefix('--output=')\nopen(path, 'w').write('files')",
  )
  programs.behave(
    "docker",
    "if words[0] == 'build':\n  assert sys.stdin.read() == 'files'",
  )
  monkeypatch.setenv("PATH", programs.environment["PATH"])
  monkeypatch.chdir(tmp_path)
  plan = plan_of(job, taken, revision="0123456789abcdef")
  assert plan.carry_out() == 0
  assert [call["name"] for call in programs.calls()] == [
    *("git", "docker", "docker", "kubectl")
  ]
  (git,) = programs.words("git")
  assert git[:2] == ["-C", str(experiment.REPO)]
  assert git[-1] == "0123456789abcdef"
  build, push = programs.words("docker")
  assert f"--build-arg=ACCELERATOR={extra}" in build
  assert "--build-arg=COMMIT=0123456789abcdef" in build
  assert f"--tag={IMAGE}" in build
  assert push == ["push", IMAGE]
  ((create, filename),) = programs.words("kubectl")
  manifest = tmp_path / filename.removeprefix("--filename=")
  assert create == "create"
  assert manifest.read_text() == next(iter(plan.files.values()))


def pushed(repo, *words):
  """The image that a dry run of the launcher would push."""
  outcome = subprocess.run(
    [sys.executable, "-m", "launch.gke", "--name=first", "--image=a/b"]
    + ["--config=configs/quickstart.py", "--workdir=gs://b/run", "--dry_run"]
    + list(words),
    cwd=repo,
    capture_output=True,
    text=True,
  )
  assert outcome.returncode == 0, outcome.stderr
  (image,) = re.findall(r"^docker push (\S+)$", outcome.stdout, re.MULTILINE)
  assert f" --tag={image} " in outcome.stdout
  return image


@needs_git
def test_images_of_tpus_and_of_gpus_do_not_replace_each_other(repo):
  commit = experiment.commit(allow_changes=True)[:12]
  assert pushed(repo, "--tpu=v5e:4x4") == f"a/b:{commit}-tpu"
  assert pushed(repo, "--gpu=nvidia-l4") == f"a/b:{commit}-cuda12"


@needs_git
def test_trackers_are_installed_in_an_image_of_their_own(repo, taken):
  commit = experiment.commit(allow_changes=True)[:12]
  image = pushed(repo, "--tpu=v5e:4x4", "--config.log.to=wandb,mlflow")
  assert image == f"a/b:{commit}-tpu-wandb-mlflow"
  taken = dataclasses.replace(taken, trackers=("wandb", "mlflow"))
  _, build, *_ = plan_of(TPU, taken, revision=commit).commands
  assert "--build-arg=TRACKERS=wandb mlflow" in build.words
  dockerfile = (repo / "launch" / "Dockerfile").read_text()
  (install,) = re.findall(
    r"pip install .*--requirement(?:.*\\\n)*.*", dockerfile
  )
  assert install.endswith(" $TRACKERS")


def test_an_image_that_is_there_must_have_the_trackers(repo):
  outcome = subprocess.run(
    [sys.executable, "-m", "launch.gke", "--name=first", "--image=a/b:tag"]
    + ["--config=configs/quickstart.py", "--workdir=gs://b/run", "--dry_run"]
    + ["--tpu=v5e:4x4", "--nobuild", "--config.log.to=wandb"],
    cwd=repo,
    capture_output=True,
    text=True,
  )
  assert outcome.returncode == 0
  assert "--image=a/b:tag must have wandb" in outcome.stderr


def test_an_image_that_is_there_is_not_built(taken):
  (command,) = plan_of(TPU, taken).commands
  assert command.words[0] == "kubectl"


def test_the_dockerfile_installs_what_is_pinned(repo):
  lines = (repo / "launch" / "Dockerfile").read_text().splitlines()
  copied = [
    word
    for line in lines
    if line.startswith("COPY ") and ". ./" not in line
    for word in line.split()[1:-1]
  ]
  assert copied and all((repo / name).is_file() for name in copied)
  pins = (repo / "requirements.txt").read_text().splitlines()
  assert len([pin for pin in pins if pin.startswith("jax==")]) == 1
  assert any("--requirement requirements.txt" in line for line in lines)


def test_every_argument_of_the_build_is_one_of_the_dockerfile(repo, taken):
  """docker only warns of one that the file does not have."""
  text = (repo / "launch" / "Dockerfile").read_text()
  (build,) = [
    command.words
    for command in plan_of(GPU, taken, revision="0123456789abcdef").commands
    if command.words[:2] == ["docker", "build"]
  ]
  given = {
    word.removeprefix("--build-arg=").partition("=")[0]
    for word in build
    if word.startswith("--build-arg=")
  }
  assert given == set(re.findall(r"^ARG (\w+)", text, re.MULTILINE))
  # vit_jax.versions reads it where the files are no clone.
  assert "\nENV VIT_JAX_COMMIT=$COMMIT\n" in text


def test_a_failed_build_creates_nothing(tmp_path, taken, monkeypatch):
  programs = Programs(tmp_path, "git", "docker", "kubectl")
  programs.behave(
    "git", "pathlib.Path(words[4].removeprefix('--output=')).touch()"
  )
  programs.behave("docker", "sys.exit(1)")
  monkeypatch.setenv("PATH", programs.environment["PATH"])
  monkeypatch.chdir(tmp_path)
  assert plan_of(TPU, taken, revision="0123456789abcdef").carry_out() == 1
  assert programs.words("kubectl") == []
  assert pathlib.Path("runs/launch/first/jobset.yaml").exists()


@pytest.mark.parametrize(
  ("words", "said"),
  [
    (["--tpu=v5e:4x4", "--gpu=nvidia-l4"], "Give one of --tpu"),
    ([], "Give one of --tpu"),
    (["--tpu=v5e:4x4", "--nodes=4"], "--nodes is for GPUs"),
    (["--gpu=nvidia-l4", "--chips_per_host=8"], "--chips_per_host is for TPUs"),
    (["--tpu=v5e:4x4", "--image=a/b:tag"], "leave it out, or give --nobuild"),
    (["--tpu=v5e:4x4", "--name=Upper"], "--name=Upper must have"),
  ],
)
def test_bad_flags_are_explained(repo, words, said):
  outcome = subprocess.run(
    [sys.executable, "-m", "launch.gke", "--name=first", "--image=a/b"]
    + ["--config=configs/quickstart.py", "--workdir=gs://b/run", "--dry_run"]
    + words,
    cwd=repo,
    capture_output=True,
    text=True,
  )
  assert outcome.returncode == 1
  assert said in outcome.stderr and "Traceback" not in outcome.stderr
