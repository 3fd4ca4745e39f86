"""Cloud TPU: the watch over a queued resource, and the script of its workers.

Both are run: the one against a gcloud that plays a service, the other with a
train module that notes how it was started.
"""

import dataclasses
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launch import cloud_tpu, experiment
from launch.experiment import Experiment
from tests.launch.conftest import ODD
from tests.launch.programs import Programs
from vit_jax.errors import UserError

PLACE = cloud_tpu.Place("first", "us-west4-a", "research")
JOB = cloud_tpu.Job(
  "v5litepod-256", "v2-alpha-tpuv5-lite", spot=True, poll_seconds=0
)
REVISION = "0123456789abcdef"
TAKEN = Experiment(
  "configs/quickstart.py", ":smoke", ("--config.seed=3",), "gs://bucket/first"
)

# Answers from lists, and where they end as a TPU does whose slices have as many
# workers as `hosts` says; what is asked for or deleted by `create` and `delete`
# changes nothing by itself. Fails where it is told to. The words of an answer
# to `status`, say, are those of the workers, slice by slice, each in its
# sentence; one that fails does not keep the others from answering. Workers of a
# slice that gcloud cannot prepare are omitted, and it succeeds with the others,
# as in Google Cloud SDK 528.0.0 (queued_resources/ssh.py, tpu_vm/ssh.py). Like
# that, it takes any --output-directory for None and copies from one worker
# only, and counts the first of as many endpoints as there are networks as a
# worker. What is not "whole" of the log of "SLICE/WORKER", `logs` says.
GCLOUD = r"""
import re, time
play = json.loads((place / "play.json").read_text())
hosts = play["hosts"]
nodes = [f"first-{i}" for i in range(len(hosts))] if hosts[1:] else ["first"]
action = words[3]
flags = dict(word.split("=", 1) for word in words if "=" in word)
if "--output-directory" in flags:
  sys.exit(f"ERROR: Unable to write file [None/{flags['--worker']}.log]")
if action == "scp" and words[4].startswith("first:"):
  assert words[4] == "first:vit_jax-first/train.log"
  node, worker = int(flags["--node"]), int(flags["--worker"])
  assert worker < hosts[node]
  log = pathlib.Path(words[5])
  comes = play.get("logs", {}).get(f"{node}/{worker}", "whole")
  if comes.startswith("after "):
    while not (log.parents[1] / comes.removeprefix("after ")).exists():
      time.sleep(0.01)
  if comes != "omitted":
    text = f"the log of worker {worker} of slice {node}\n"
    log.write_text(text[:9] if comes == "fail" else text)
  sys.exit(comes == "fail")
command = [w for w in words if w.startswith("--command=")]
key, default = action, ""
if command and command[0].endswith((" status", " start", " stop", " logs")):
  key = command[0].split(" ")[-1]
  asked = {"--node=0", "--worker=0"}
  if key != "logs":
    asked = {"--node=all", "--worker=all"}
  assert asked <= set(words)
  default = " ".join(["started"] * sum(hosts)) if key == "start" else ""
elif words[2] == "tpu-vm":
  lengths = "networkEndpoints.len(),networkConfigs.len()"
  assert words[5] == f"--format=value({lengths})"
  key, default = "endpoints", str(hosts[nodes.index(words[4])])
elif any("tpu.nodeSpec[].nodeId" in word for word in words):
  key, default = "nodes", " ".join(nodes)
answer = play.get(key, [])
value = answer.pop(0) if answer else default
(place / "play.json").write_text(json.dumps(play))
if key == "endpoints" and value.isdigit():
  networks = play.get("networks", 0)
  value = f"{int(value) * max(1, networks)}\t{networks}"
parts = value.split(" ")
if key in ("status", "start", "stop", "logs") and all(map(str.isalnum, parts)):
  workers = [(i, host) for i, n in enumerate(hosts) for host in range(n)]
  value = "\n".join(
    f"launch: status is {part} on t1v-n-{i}a1b2c3d-w-{host}."
    for (i, host), part in zip(workers, parts)
    if part not in ("fail", "omitted")
  )
print("" if value == "fail" else value)
if "fail" in parts:
  sys.exit(1)
"""


@pytest.fixture
def gcloud(tmp_path, monkeypatch):
  programs = Programs(tmp_path / "programs", "gcloud", "git")
  programs.behave("gcloud", GCLOUD)
  monkeypatch.setenv("PATH", programs.environment["PATH"])
  monkeypatch.chdir(tmp_path)
  return programs


def plan_of(taken=TAKEN, place=PLACE, **changes):
  return cloud_tpu.make_plan(
    taken,
    "configs/quickstart.py",
    place,
    dataclasses.replace(JOB, **changes),
    revision=REVISION,
  )


def scripts(plan):
  """The one for here and the one for the workers."""
  watch, worker = plan.files.values()
  return watch, worker


def watched(gcloud, plan=None, hosts=None, **play):
  """The exit code of watching while gcloud gives these answers.

  Without `hosts` there is one slice, with a worker for each word of a status.
  """
  words = [status.split(" ") for status in play.get("status", [])]
  known = [len(w) for w in words if all(map(str.isalnum, w))]
  play["hosts"] = hosts or [max(known, default=1)]
  (gcloud.place / "play.json").write_text(json.dumps(play))
  return (plan or plan_of()).carry_out()


def action_of(words):
  """What gcloud is asked to do; for a worker, the action of its script."""
  command = [w for w in words if w.startswith("--command=")]
  if words[4:5] == ["first:vit_jax-first/train.log"]:
    return "log"
  return command[0].split()[-1] if command else words[3]


def actions(gcloud):
  """What gcloud was asked to do, without the looks at the state.

  The logs that were fetched one after the other are one action.
  """
  found = []
  for words in gcloud.words("gcloud"):
    assert words[-3:] == ["--zone=us-west4-a", "--project=research", "--quiet"]
    if words[:4] == ["compute", "tpus", "tpu-vm", "describe"]:
      continue
    assert words[:3] == ["compute", "tpus", "queued-resources"]
    action = action_of(words)
    counts = any("nodeId" in word for word in words)
    again = action == "log" and found[-1:] == ["log"]
    if action not in ("list", "status") and not counts and not again:
      found.append(action)
  return found


def call(gcloud, action):
  """The words of the only call of an action."""
  (words,) = [w for w in gcloud.words("gcloud") if action_of(w) == action]
  return words[4:]


START = ["vit_jax-first", "scp", "install", "start"]  # The first: mkdir -p.
END = ["log", "delete"]


def test_both_scripts_pass_shellcheck(shellcheck):
  for changes in ({}, {"setup": "mount data", "num_slices": 2, "keep": True}):
    for script in scripts(plan_of(**changes)):
      shellcheck(script)


def test_a_run_from_its_first_request_to_its_last_log(gcloud):
  code = watched(
    gcloud,
    list=["", "WAITING_FOR_RESOURCES", "PROVISIONING", *["ACTIVE"] * 4],
    status=["running", "running", "0"],
  )
  assert code == 0
  assert actions(gcloud) == ["create", *START, *END]
  assert call(gcloud, "create") == [
    "first",
    "--accelerator-type=v5litepod-256",
    "--runtime-version=v2-alpha-tpuv5-lite",
    "--node-id=first",
    "--spot",
    "--async",
    *PLACE.options,
  ]
  assert call(gcloud, "scp")[:5] == [
    "runs/launch/first/research/us-west4-a/commit.tar.gz",
    "runs/launch/first/research/us-west4-a/worker.sh",
    "first:vit_jax-first/",
    "--node=all",
    "--worker=all",
  ]
  assert call(gcloud, "delete")[:2] == ["first", "--force"]
  (git,) = gcloud.words("git")
  assert git[-1] == REVISION
  assert git[-2].endswith(
    "/runs/launch/first/research/us-west4-a/commit.tar.gz"
  )


def test_launches_of_one_name_in_two_zones_have_files_of_their_own():
  """The watch of the first copies them again when its TPU was taken away."""
  places = [
    PLACE,
    dataclasses.replace(PLACE, zone="us-east1-d"),
    dataclasses.replace(PLACE, project="another"),
    dataclasses.replace(PLACE, project=None),
  ]
  files = [path for place in places for path in plan_of(place=place).files]
  files += [
    path
    for place in places
    for path in cloud_tpu.action_plan("logs", place).files
  ]
  assert len(set(files)) == len(files)
  folders = {os.path.dirname(path) for path in files}
  assert len(folders) == len(places)
  assert "runs/launch/first/us-west4-a" in folders


def test_a_tpu_that_is_taken_away_is_asked_for_again(gcloud):
  code = watched(
    gcloud,
    list=["", "ACTIVE", "ACTIVE", "SUSPENDING", "SUSPENDED"]
    + ["", "PROVISIONING", "ACTIVE", "ACTIVE"],
    status=["running", "0"],
  )
  assert code == 0
  assert actions(gcloud) == [
    *("create", *START, "delete"),
    *("create", *START, *END),
  ]


@pytest.mark.parametrize("ended", ["42", "143", "gone"])
def test_a_run_that_left_its_worker_is_started_again(gcloud, ended):
  """On a TPU that is still there, as after its host was serviced."""
  code = watched(gcloud, list=["ACTIVE"] * 5, status=["running", ended, "0"])
  assert code == 0
  assert actions(gcloud) == [*START, *START, *END]


@pytest.mark.parametrize(
  "looks",
  [
    ["running running gone"],
    ["running running fail", "fail", "running running gone"],
    ["134 134 gone"],  # The others have given up already.
    ["1 gone 134"],
    ["42 running running"],
  ],
  ids=str,
)
def test_a_worker_that_was_rebooted_is_started_again(gcloud, looks):
  looks = ["running running running", *looks, "running running running"]
  code = watched(
    gcloud, list=["ACTIVE"] * 9, status=[*looks, "running 0 0", "0 0 0"]
  )
  assert code == 0
  assert actions(gcloud) == [*START, *START, *END]


@pytest.mark.parametrize(
  ("ends", "code"),
  [
    (["0 0 0"], 0),
    (["running 0 running", "0 0 0"], 0),
    (["134 1 137"], 1),
    (["130 134 0"], 130),
    (["0 134 0"], 134),
    (["stopped running running", "stopped stopped stopped"], 42),
    (["stopped gone 0"], 42),
  ],
  ids=str,
)
def test_a_run_ends_when_it_has_on_all_workers(gcloud, ends, code):
  status = ["running running running", *ends]
  assert watched(gcloud, list=["ACTIVE"] * 9, status=status) == code
  assert actions(gcloud) == [*START, *END]


def test_a_worker_that_is_asked_twice_is_one_worker(gcloud):
  """As gcloud does where a connection broke after the answer."""
  twice = "\n".join(
    f"launch: status is {status} on t1v-{host}."
    for host, status in [(0, "running"), (1, "running"), (0, "gone")]
  )
  ends = ["running running", "0 0"]
  status = [twice, *ends]
  assert watched(gcloud, list=["ACTIVE"] * 9, status=status) == 0
  assert actions(gcloud) == [*START, *START, *END]


def test_one_that_gave_up_on_a_rebooted_worker_joins_it(gcloud):
  status = ["running gone", "134 running", "running running", "0 0"]
  assert watched(gcloud, list=["ACTIVE"] * 9, status=status) == 0
  assert actions(gcloud) == [*START, *START, *START, *END]


def test_a_run_that_leaves_its_workers_again_and_again_is_given_up(
  gcloud, capfd
):
  status = ["running gone", "running running"] * 20
  assert watched(gcloud, list=["ACTIVE"] * 99, status=status) == 1
  assert "may still be there, and cost" in capfd.readouterr().err
  assert actions(gcloud) == START * 10


def test_a_worker_that_says_nothing_is_waited_for(gcloud, capfd):
  """Whatever gcloud's exit code says of the others."""
  status = ["running running", "0", "running running", "0 0"]
  assert watched(gcloud, list=["ACTIVE"] * 9, status=status) == 0
  assert "1 of 2 workers have answered" in capfd.readouterr().err
  assert actions(gcloud) == [*START, *END]


@pytest.mark.parametrize(
  "first",
  [
    "0 0 omitted omitted",
    "omitted omitted 134 134",
    "running gone omitted omitted",
    "stopped stopped omitted omitted",
    "omitted omitted omitted omitted",
    "0 0 0",
  ],
)
def test_no_run_is_judged_by_a_part_of_its_workers(gcloud, capfd, first):
  """By none of the looks, the first included."""
  running = "running running running running"
  status = [first, running, first, "0 0 0 0"]
  plan = plan_of(num_slices=2)
  states = ["ACTIVE"] * 9
  assert watched(gcloud, plan, [2, 2], list=states, status=status) == 0
  assert "of 4 workers have answered" in capfd.readouterr().err
  assert actions(gcloud) == [*START, *END]


def test_a_slice_that_never_answers_deletes_nothing(gcloud, capfd):
  plan = plan_of(num_slices=2)
  status = ["0 omitted"] * 99
  states = ["ACTIVE"] * 99
  assert watched(gcloud, plan, [1, 1], list=states, status=status) == 1
  assert "may still be there, and cost" in capfd.readouterr().err
  assert actions(gcloud) == START


def test_a_slice_that_was_omitted_from_the_start_is_started(gcloud):
  plan = plan_of(num_slices=2)
  play = {"start": ["started omitted"], "status": ["running running", "0 0"]}
  assert watched(gcloud, plan, [1, 1], list=["ACTIVE"] * 9, **play) == 0
  assert actions(gcloud) == [*START, *START, *END]


@pytest.mark.parametrize(
  "play",
  [
    {"nodes": ["fail"]},
    {"nodes": [""]},
    {"endpoints": ["4", "fail"]},
    {"endpoints": ["4", ""]},
    {"endpoints": ["4", "0"]},
  ],
  ids=str,
)
def test_a_run_starts_when_its_workers_can_be_counted(gcloud, capfd, play):
  plan = plan_of(num_slices=2)
  play["status"] = ["0 0 0 0"]
  assert watched(gcloud, plan, [2, 2], list=["ACTIVE"] * 9, **play) == 0
  assert "could not be started on all workers" in capfd.readouterr().err
  assert actions(gcloud) == [*START, *END]


@pytest.mark.parametrize("networks", [1, 2, 3])
def test_a_worker_of_several_networks_is_one_worker(gcloud, capfd, networks):
  """As gcloud has it: ParseWorkerFlag of tpu_vm/ssh.py."""
  play = {"networks": networks, "status": ["1 1 1"]}
  plan = plan_of(num_slices=2)
  assert watched(gcloud, plan, [1, 2], list=["ACTIVE"] * 2, **play) == 1
  assert "have answered" not in capfd.readouterr().err
  assert actions(gcloud) == [*START, *END]
  assert logs() == logs_of([1, 2])


def test_days_in_a_queue_are_no_row_of_troubles(gcloud):
  waits = ["", *["WAITING_FOR_RESOURCES", "fail"] * 12]
  states = [*waits, "ACTIVE", "ACTIVE"]
  assert watched(gcloud, list=states, status=["0"]) == 0
  assert actions(gcloud) == ["create", *START, *END]


@pytest.mark.parametrize("before", [["ACTIVE"], ["PROVISIONING"], []], ids=str)
def test_a_tpu_that_was_deleted_by_hand_is_not_asked_for(gcloud, capfd, before):
  """But one is whose deletion was going on when the watch began."""
  states = [*before, "DELETING", "", *["ACTIVE"] * 2]
  code = watched(gcloud, list=states, status=["0"])
  assert code == (1 if before else 0)
  assert ("create" in actions(gcloud)) == (not before)
  said = capfd.readouterr().err
  assert ("deleted, and not by this watch" in said) == bool(before)


@pytest.mark.parametrize(
  ("deletes", "states", "tries"),
  [
    (["fail", "fail", "gone"], ["ACTIVE", "fail"], 3),
    (["fail"], [""], 1),
    (["fail"] * 99, ["ACTIVE"] * 99, 10),
  ],
)
def test_a_deletion_that_fails_is_tried_again(
  gcloud, capfd, deletes, states, tries
):
  play = {"delete": deletes, "list": ["ACTIVE", "ACTIVE", *states]}
  assert watched(gcloud, status=["134"], **play) == 134
  assert actions(gcloud) == [*START, "log", *["delete"] * tries]
  said = capfd.readouterr().err
  assert ("and costs: do it yourself" in said) == (tries == 10)


def test_workers_run_the_script_that_was_copied_last(worker_of):
  """A slice that gcloud left out of the copying would train another commit."""
  worker = worker_of()
  watch, _ = scripts(plan_of())
  (command,) = re.findall(r"on_all '(sha256sum .* install)'", watch)
  (start,) = re.findall(r"ask '(sha256sum .* start)'", watch)

  def run(line):
    words = ["bash", "-c", line]
    environment = {**worker.programs.environment, "PLACE": str(worker.place)}
    return subprocess.run(words, cwd=worker.place / "home", env=environment)

  script = worker.folder / "worker.sh"
  text = script.read_text()
  script.write_text(text.replace("seed=3", "seed=4"))
  assert run(command).returncode != 0
  assert run(start).returncode != 0
  assert worker.programs.calls("python3") == []
  script.write_text(text)
  assert run(command).returncode == 0
  assert run(start).returncode == 0
  worker.wait_for("0")


@pytest.mark.parametrize("code", [1, 130, 134])
def test_an_error_that_a_restart_would_repeat_ends_it(gcloud, code):
  assert watched(gcloud, list=["ACTIVE"] * 2, status=[str(code)]) == code
  assert actions(gcloud) == [*START, *END]


def test_a_run_that_was_stopped_by_hand_is_not_started_again(gcloud):
  assert watched(gcloud, list=["ACTIVE"] * 2, status=["stopped"]) == 42
  assert actions(gcloud) == [*START, *END]


def test_a_tpu_may_be_kept(gcloud):
  plan = plan_of(keep=True)
  assert watched(gcloud, plan, list=["ACTIVE"] * 2, status=["0"]) == 0
  assert actions(gcloud) == [*START, "log"]


def test_each_slice_is_asked_for(gcloud):
  plan = plan_of(num_slices=3)
  states = ["", *["ACTIVE"] * 2]
  status = ["0 0 0"]
  assert watched(gcloud, plan, [1, 1, 1], list=states, status=status) == 0
  create = call(gcloud, "create")
  assert {"--node-count=3", "--node-prefix=first"} <= set(create)
  assert not any(word.startswith("--node-id") for word in create)


LOGS = pathlib.Path("runs/launch/first/research/us-west4-a/logs")


def logs():
  """The files among the logs, and what they have."""
  files = (path for path in LOGS.rglob("*") if path.is_file())
  return {str(path.relative_to(LOGS)): path.read_text() for path in files}


def logs_of(hosts):
  """Those of all workers, which slices have as many of as `hosts` says."""
  return {
    f"{node}/{worker}.log": f"the log of worker {worker} of slice {node}\n"
    for node, workers in enumerate(hosts)
    for worker in range(workers)
  }


@pytest.mark.parametrize("hosts", [[1], [20], [2, 3], [1] * 9], ids=str)
def test_each_worker_has_its_log(gcloud, capfd, hosts):
  plan = plan_of(num_slices=len(hosts))
  status = [" ".join(["0"] * sum(hosts))]
  assert watched(gcloud, plan, hosts, list=["ACTIVE"] * 2, status=status) == 0
  assert logs() == logs_of(hosts)
  assert "could not be fetched" not in capfd.readouterr().err


@pytest.mark.parametrize("comes", ["fail", "omitted"])
@pytest.mark.parametrize(
  "missing", [["0/0"], ["1/2"], ["1/0", "1/1", "1/2"]], ids=str
)
def test_a_log_that_cannot_be_fetched_is_named(gcloud, capfd, comes, missing):
  """It keeps no other from being fetched, and leaves no part of itself."""
  play = {"logs": dict.fromkeys(missing, comes), "status": ["1 1 1 1 1"]}
  plan = plan_of(num_slices=2)
  assert watched(gcloud, plan, [2, 3], list=["ACTIVE"] * 2, **play) == 1
  said = capfd.readouterr().err
  whole = logs_of([2, 3])
  for worker in missing:
    del whole[f"{worker}.log"]
    assert f"{LOGS}/{worker}.log could not be fetched" in said
  assert said.count(".log could not be fetched") == len(missing)
  assert "not all logs could be fetched" in said
  assert logs() == whole
  assert actions(gcloud) == [*START, *END]


def test_no_log_of_an_earlier_run_is_taken_for_one_of_this(gcloud):
  for name in ("0.log", "0.log.part"):
    (LOGS / "0").mkdir(parents=True, exist_ok=True)
    (LOGS / "0" / name).write_text("earlier\n")
  play = {"logs": {"0/0": "omitted"}, "status": ["0"]}
  assert watched(gcloud, list=["ACTIVE"] * 2, **play) == 0
  assert logs() == {}


def test_several_logs_are_fetched_at_a_time(gcloud):
  """The first comes when the eighth has come."""
  play = {"logs": {"0/0": "after 0/7.log"}, "status": [" ".join(["0"] * 9)]}
  assert watched(gcloud, list=["ACTIVE"] * 2, **play) == 0
  assert logs() == logs_of([9])


def test_no_worker_is_waited_for_as_long_as_ssh_would(gcloud):
  """Two minutes on Linux, for each of the ten times that gcloud tries.

  And for ever, where one is lost while ssh waits for its answer. gcloud splits
  an --ssh-flag at its spaces, but no --scp-flag.
  """
  options = [
    "-oConnectTimeout=20",
    "-oServerAliveInterval=15",
    "-oServerAliveCountMax=4",
  ]
  assert watched(gcloud, list=["ACTIVE"] * 2, status=["0"]) == 0
  calls = [w for w in gcloud.words("gcloud") if w[3] in ("ssh", "scp")]
  ssh = "vit_jax-first install start status".split()
  assert sorted(map(action_of, calls)) == sorted([*ssh, "scp", "log"])
  for words in calls:
    for option in options:
      assert f"--{words[3]}-flag={option}" in words


def test_network_troubles_are_sat_out(gcloud):
  code = watched(
    gcloud,
    list=["ACTIVE", "fail", "ACTIVE", "ACTIVE", "fail", "ACTIVE"],
    scp=["fail"],
    status=["fail", "0"],
  )
  assert code == 0
  assert actions(gcloud) == [*START[:2], *START, *END]


@pytest.mark.parametrize(
  "odd",
  [
    "",
    "Connection closed by 10.0.0.2 port 22",
    "client_loop: send disconnect: Broken pipe",
    "launch: status is 1",  # Cut short: of 143, perhaps.
    "launch: status is 0 on t1v",  # Likewise.
    "launch: status is  on t1v.",
    "launch: status is lost on t1v.",
    "launch: status is 0 on t1v. Write failed",
    "255\n",
    "\r",
  ],
)
def test_an_odd_answer_is_no_status_and_deletes_nothing(gcloud, odd):
  status = [odd, "running", odd, "0"]
  assert watched(gcloud, list=["ACTIVE"] * 5, status=status) == 0
  assert actions(gcloud) == [*START, *END]


def test_a_status_is_found_among_lines_of_ssh(gcloud):
  status = [
    "Warning: Permanently added 'x'.\nlaunch: status is 0 on t1v.\nClosed."
  ]
  assert watched(gcloud, list=["ACTIVE"] * 2, status=status) == 0
  assert actions(gcloud) == [*START, *END]


def test_after_ten_troubles_it_says_that_the_tpu_costs(gcloud, capfd):
  states = ["ACTIVE"] * 99
  assert watched(gcloud, list=states, status=["fail"] * 99) == 1
  assert "may still be there, and cost" in capfd.readouterr().err
  assert actions(gcloud) == START


@pytest.mark.parametrize(
  "play", [{"list": ["fail"]}, {"list": [""], "create": ["fail"]}]
)
def test_a_first_request_that_fails_is_not_repeated(gcloud, play):
  assert watched(gcloud, **play) == 1
  assert len(gcloud.calls("gcloud")) == len(play)


def test_a_request_that_is_refused_is_shown(gcloud):
  assert watched(gcloud, list=["PROVISIONING", "FAILED"]) == 1
  assert actions(gcloud) == ["describe"]


@settings(
  max_examples=8,
  suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
  words=st.lists(
    st.text(
      st.characters(exclude_characters="\0", exclude_categories=["Cs"]),
      max_size=12,
    ),
    max_size=3,
  )
)
def test_any_options_arrive_as_they_are(gcloud, words):
  (gcloud.place / "calls.jsonl").unlink(missing_ok=True)
  options = [f"--labels=key={word}" for word in words]
  plan = plan_of(create=tuple(options))
  watched(gcloud, plan, list=["", "FAILED"])
  assert call(gcloud, "create")[5:-4] == options


@pytest.mark.parametrize(
  ("action", "words"),
  [
    ("delete", ["delete", "first", "--force"]),
    (
      "stop",
      ["ssh", "first", "--command=bash vit_jax-first/worker.sh stop"]
      + ["--node=all", "--worker=all"],
    ),
    (
      "logs",
      ["ssh", "first", "--command=bash vit_jax-first/worker.sh logs"]
      + ["--node=0", "--worker=0"],
    ),
  ],
)
def test_the_other_actions_are_one_command_each(action, words):
  command = cloud_tpu.simple_command(action, PLACE)
  assert list(command.words) == [*cloud_tpu._QUEUED, *words, *PLACE.options]


def asked(gcloud, action, hosts, **play):
  """The exit code of an action by hand while gcloud gives these answers."""
  (gcloud.place / "play.json").write_text(json.dumps({"hosts": hosts, **play}))
  return cloud_tpu.action_plan(action, PLACE).carry_out()


@pytest.mark.parametrize("action", ["stop", "logs"])
def test_what_asks_by_hand_passes_shellcheck(shellcheck, action):
  (script,) = cloud_tpu.action_plan(action, PLACE).files.values()
  shellcheck(script)


@pytest.mark.parametrize("action", ["stop", "logs"])
def test_an_action_by_hand_waits_no_longer_than_the_watch(gcloud, action):
  assert asked(gcloud, action, [1], **{action: ["running"]}) == 0
  (words,) = [w for w in gcloud.words("gcloud") if w[3] == "ssh"]
  assert {
    "--ssh-flag=-oConnectTimeout=20",
    "--ssh-flag=-oServerAliveInterval=15",
    "--ssh-flag=-oServerAliveCountMax=4",
    *cloud_tpu.simple_command(action, PLACE).words[1:],
  } == set(words)


def test_a_stop_that_all_workers_have_heard_says_so(gcloud, capfd):
  play = {"stop": ["running stopped running running"], "networks": 2}
  assert asked(gcloud, "stop", [2, 2], **play) == 0
  said = capfd.readouterr().err
  assert "all workers (4) let the run save and end" in said


@pytest.mark.parametrize(
  ("answer", "heard"),
  [
    ("running running omitted omitted", 2),
    ("omitted omitted omitted omitted", 0),
    ("running fail running running", 3),
    ("fail", 0),
    ("ssh: connect to host 10.0.0.2 port 22: Connection timed out", 0),
  ],
)
def test_a_stop_tells_how_many_workers_have_heard_it(
  gcloud, capfd, answer, heard
):
  """Even where gcloud succeeds with the slices that it could prepare."""
  assert asked(gcloud, "stop", [2, 2], stop=[answer]) == 1
  said = capfd.readouterr().err
  assert f"{heard} of 4 workers have answered: run" in said
  assert "launch.cloud_tpu stop again" in said
  assert "let the run save" not in said


def test_a_stop_comes_before_the_workers_are_counted(gcloud, capfd):
  play = {"stop": ["running running"], "endpoints": ["fail"]}
  assert asked(gcloud, "stop", [2], **play) == 1
  assert "stop" in map(action_of, gcloud.words("gcloud"))
  said = capfd.readouterr().err
  assert "2 workers have answered, of a number that cannot be read" in said


def test_logs_show_what_the_first_worker_says(gcloud, capfd):
  log = "launch: status is running on t1v-0.\nstep 3\n  loss 2.1 'x' \\ %s"
  assert asked(gcloud, "logs", [2, 2], logs=[log]) == 0
  assert log in capfd.readouterr().out


@pytest.mark.parametrize("answer", ["omitted", "fail", ""])
def test_logs_of_a_worker_that_says_nothing_are_told(gcloud, capfd, answer):
  assert asked(gcloud, "logs", [2, 2], logs=[answer]) == 1
  said = capfd.readouterr().err
  assert "0 of 1 workers have answered: run launch.cloud_tpu logs" in said


@pytest.mark.parametrize(
  ("accelerator", "runtime"),
  [
    ("v5litepod-16", "v2-alpha-tpuv5-lite"),
    ("v5p-128", "v2-alpha-tpuv5"),
    ("v6e-256", "v2-alpha-tpuv6e"),
    ("v3-512", "tpu-ubuntu2204-base"),
  ],
)
def test_the_runtime_follows_the_accelerator(accelerator, runtime):
  assert cloud_tpu.runtime_version(accelerator) == runtime


def test_what_is_missing_is_named():
  with pytest.raises(UserError, match="--accelerator_type=TYPE"):
    cloud_tpu.runtime_version(None)
  with pytest.raises(UserError, match="no known generation"):
    cloud_tpu.runtime_version("a100-8")
  with pytest.raises(UserError, match="goes with the TPU"):
    plan_of(dataclasses.replace(TAKEN, workdir="runs/first"))


# The train module of the commit that workers install: notes how it was
# started, and ends as it is told.
TRAIN = """
import json, os, pathlib, signal, sys, time
def leave(*unused):
  os._exit(42)
signal.signal(signal.SIGTERM, leave)
place = pathlib.Path(os.environ["PLACE"])
with open(place / "trained.jsonl", "a") as file:
  trained = {
    "words": sys.argv[1:],
    "cwd": os.getcwd(),
    "commit": os.environ.get("VIT_JAX_COMMIT"),
  }
  file.write(json.dumps(trained) + "\\n")
print("training")
codes = (place / "codes").read_text().split()
(place / "codes").write_text(" ".join(codes[1:]))
if codes[0] == "wait":
  time.sleep(600)
sys.exit(int(codes[0]))
"""
# Stands in for uv: what it makes is an environment with this Python.
UV = """
if words[:3] == ["-m", "uv", "venv"]:
  python = pathlib.Path(words[-1]) / "bin" / "python"
  python.parent.mkdir(parents=True)
  python.symlink_to(sys.executable)
"""


class Worker:
  """A worker's home directory, with what the watch copies into it."""

  def __init__(self, place: pathlib.Path, script: str):
    self.place = place
    self.folder = place / "home" / PLACE.folder
    self.folder.mkdir(parents=True)
    self.programs = Programs(place / "programs", "python3", "gcloud")
    self.programs.behave("python3", UV)
    (self.folder / "worker.sh").write_text(script)
    commit = place / "commit"
    shutil.copytree(
      experiment.REPO / "launch",
      commit / "launch",
      ignore=shutil.ignore_patterns("__pycache__"),
    )
    (commit / "vit_jax").mkdir()
    (commit / "vit_jax" / "train.py").write_text(TRAIN)
    (commit / "requirements.txt").write_text("flax==1\njax==0.10.2\n")
    with tarfile.open(self.folder / "commit.tar.gz", "w:gz") as archive:
      for path in commit.iterdir():
        archive.add(path, path.name)
    self.ends_with("0")

  def ends_with(self, codes: str) -> None:
    """The ends of the next starts of train."""
    (self.place / "codes").write_text(codes)

  def open(self, action: str) -> subprocess.Popen:
    """As sshd runs the watch's command: in the home directory."""
    return subprocess.Popen(
      ["bash", f"{PLACE.folder}/worker.sh", action],
      cwd=self.place / "home",
      env={**self.programs.environment, "PLACE": str(self.place)},
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
    )

  def run(self, action: str) -> subprocess.CompletedProcess:
    """Runs an action to its end."""
    with self.open(action) as process:
      output, errors = process.communicate(timeout=300)
    return subprocess.CompletedProcess(
      process.args, process.returncode, output, errors
    )

  def begin(self) -> subprocess.CompletedProcess:
    """As the watch does; what the first action that failed came to."""
    done = self.run("install")
    return done if done.returncode else self.run("start")

  def status(self) -> str:
    sentence = self.run("status").stdout
    end = f" on {socket.gethostname()}.\n"
    assert sentence.startswith("launch: status is "), sentence
    assert sentence.endswith(end), sentence
    return sentence.removeprefix("launch: status is ").removesuffix(end)

  def wait_for(self, status: str) -> None:
    deadline = time.monotonic() + 300
    while self.status() != status:
      assert time.monotonic() < deadline, (self.status(), self.log())
      time.sleep(0.05)

  def log(self) -> str:
    return (self.folder / "train.log").read_text()

  def trained(self) -> list[dict]:
    path = self.place / "trained.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]

  def wait_for_training(self) -> None:
    while not self.trained():
      time.sleep(0.02)

  def kill(self) -> None:
    """Ends what it started, whatever state it is in."""
    pid = self.folder / "pid"
    if pid.exists() and self.status() == "running":
      os.kill(int(pid.read_text()), signal.SIGTERM)
      while self.status() == "running":
        time.sleep(0.02)


@pytest.fixture
def worker_of(tmp_path):
  workers = []

  def make(taken=TAKEN, **changes):
    _, script = scripts(plan_of(taken, **changes))
    workers.append(Worker(tmp_path, script))
    return workers[-1]

  yield make
  for worker in workers:
    worker.kill()


def test_a_worker_installs_the_commit_and_trains(worker_of):
  worker = worker_of()
  assert worker.status() == "gone"
  assert worker.begin().returncode == 0
  worker.wait_for("0")
  (trained,) = worker.trained()
  assert trained["words"] == [
    "--config=configs/quickstart.py:smoke",
    "--config.seed=3",
    "--workdir=gs://bucket/first",
  ]
  assert trained["cwd"] == str(worker.folder / REVISION)
  assert trained["commit"] == REVISION
  installs = [w[3:] for w in worker.programs.words("python3") if "uv" in w]
  # gcsfs for the workdir in a bucket.
  assert any({"jax[tpu]==0.10.2", "gcsfs"} <= set(words) for words in installs)
  assert "training" in worker.run("logs").stdout
  assert "launch: status is 0 on " in worker.run("logs").stdout
  assert "training" in worker.log()


def test_a_worker_installs_the_trackers_of_the_run(worker_of):
  """Also where the commit was installed before, for a run without."""
  worker = worker_of()
  assert worker.begin().returncode == 0
  worker.wait_for("0")
  tracked = dataclasses.replace(TAKEN, trackers=("wandb", "mlflow"))
  _, script = scripts(plan_of(tracked))
  (worker.folder / "worker.sh").write_text(script)
  for starts in (2, 3):
    worker.ends_with("0")
    assert worker.begin().returncode == 0
    worker.wait_for("0")
    assert len(worker.trained()) == starts
  installs = [w for w in worker.programs.words("python3") if "gcsfs" in w]
  assert [{"wandb", "mlflow"} <= set(words) for words in installs] == [
    *(False, True)
  ]


def test_a_worker_says_that_it_has_started(worker_of):
  """Else the watch would not know that gcloud has left out another."""
  worker = worker_of()
  sentence = f"launch: status is started on {socket.gethostname()}.\n"
  worker.ends_with("wait 0")
  assert worker.begin().stdout == sentence
  worker.wait_for_training()
  assert worker.begin().stdout == sentence


def test_any_words_reach_train_as_they_are(worker_of):
  taken = dataclasses.replace(
    TAKEN, overrides=ODD, workdir="gs://bucket/a b's $HOME"
  )
  worker = worker_of(taken)
  assert worker.begin().returncode == 0
  worker.wait_for("0")
  (trained,) = worker.trained()
  assert trained["words"][1:] == [*ODD, "--workdir=gs://bucket/a b's $HOME"]


def test_a_second_start_installs_nothing_and_disturbs_nothing(worker_of):
  worker = worker_of()
  worker.ends_with("wait 0")
  worker.begin()
  worker.wait_for_training()
  installs = len(worker.programs.calls("python3"))
  assert worker.begin().returncode == 0
  assert worker.status() == "running"
  assert len(worker.programs.calls("python3")) == installs
  assert len(worker.trained()) == 1


def test_another_experiment_of_the_name_is_refused(worker_of):
  worker = worker_of()
  worker.ends_with("wait")
  worker.begin()
  worker.wait_for_training()
  script = worker.folder / "worker.sh"
  script.write_text(script.read_text().replace("seed=3", "seed=4"))
  refused = worker.begin()
  assert refused.returncode == 1
  assert "another experiment of this name is running" in refused.stderr
  assert worker.status() == "running"


def test_it_restarts_on_the_worker_what_can_be_restarted(worker_of):
  worker = worker_of()
  worker.ends_with("42 134 1")
  worker.begin()
  worker.wait_for("1")
  assert len(worker.trained()) == 3
  assert "restart 2 of 3" in worker.log()


def test_stopping_saves_and_ends_it_until_the_next_start(worker_of):
  worker = worker_of()
  worker.ends_with("wait 0")
  worker.begin()
  worker.wait_for_training()
  stopped = worker.run("stop")
  assert stopped.returncode == 0
  assert "launch: status is " in stopped.stdout
  worker.wait_for("stopped")
  assert (worker.folder / "exit_code").read_text() == "42\n"
  assert worker.begin().returncode == 0
  worker.wait_for("0")


def test_the_number_of_a_process_that_is_gone_is_not_trusted(worker_of):
  worker = worker_of()
  (worker.folder / "pid").write_text(f"{os.getpid()}\n")
  assert worker.status() == "gone"


def test_an_installation_that_failed_is_made_again(worker_of):
  worker = worker_of()
  worker.programs.behave("python3", "sys.exit(1)")
  assert worker.begin().returncode == 1
  assert worker.trained() == []
  worker.programs.behave("python3", UV)
  assert worker.begin().returncode == 0
  worker.wait_for("0")


def test_an_installation_that_is_asked_for_again_is_waited_for(worker_of):
  worker = worker_of()
  worker.programs.behave("python3", f"import time; time.sleep(0.5)\n{UV}")
  first, second = worker.open("install"), worker.open("install")
  said = [process.communicate(timeout=300) for process in (first, second)]
  assert [first.returncode, second.returncode] == [0, 0], said
  venvs = [w for w in worker.programs.words("python3") if "venv" in w]
  assert len(venvs) == 1


# Hangs once in a step, as on a network that is dead, and hears no SIGTERM.
HANG = (
  """
if words[:3] == {step} and not (place / "hung").exists():
  import signal, time
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
  (place / "hung").touch()
  time.sleep(1000)
"""
  + UV
)


@pytest.mark.parametrize(
  "step", [["-m", "pip", "install"], ["-m", "uv", "pip"]], ids=str
)
def test_an_installation_that_hangs_is_ended_for_the_next(worker_of, step):
  worker = worker_of(install_seconds=15)  # The second must end in them.
  worker.programs.behave("python3", HANG.replace("{step}", repr(step)))
  first = worker.open("install")
  while not (worker.programs.place / "hung").exists():
    assert first.poll() is None
    time.sleep(0.02)
  second = worker.open("install")
  assert "was ended after 15 seconds" in first.communicate(timeout=300)[1]
  assert second.communicate(timeout=300)[1] == ""
  assert [first.returncode, second.returncode] == [137, 0]
  assert worker.run("start").returncode == 0
  worker.wait_for("0")


def test_a_setup_that_hangs_is_ended_with_a_sentence(worker_of):
  worker = worker_of(install_seconds=6, setup="sleep 1000; true")
  ended = worker.run("install")
  assert ended.returncode == 137
  assert "--setup hangs, or give it longer by --install_seconds" in ended.stderr


def test_an_installation_that_cannot_be_ended_is_not_waited_for(worker_of):
  """As a process is that waits for a disk; what it has unpacked is not run."""
  worker = worker_of(install_seconds=1)
  (worker.folder / REVISION).mkdir()
  with open(worker.folder / "install.lock", "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    refused = worker.run("install")
  assert refused.returncode == 1
  assert "has not ended in 11 seconds" in refused.stderr
  assert "delete the TPU and launch again" in refused.stderr
  assert worker.programs.calls("python3") == []
  refused = worker.run("start")
  assert refused.returncode == 1
  assert f"{REVISION} is not installed" in refused.stderr
  assert worker.status() == "gone"


def test_a_stop_during_the_installation_is_heeded(worker_of):
  worker = worker_of()
  worker.run("install")
  worker.run("stop")
  assert worker.run("start").returncode == 0
  assert worker.status() == "stopped"
  assert worker.trained() == []
  worker.begin()
  worker.wait_for("0")


def test_what_a_setup_leaves_running_keeps_no_other_installation(worker_of):
  setup = "sleep 1000 > /dev/null 2>&1 & echo $! >> ../../left"
  worker = worker_of(setup=setup)
  assert worker.run("install").returncode == 0
  assert worker.run("install").returncode == 0
  for pid in (worker.place / "left").read_text().split():
    os.kill(int(pid), signal.SIGKILL)


def test_setup_comes_before_the_run(worker_of):
  setup = 'echo "it\'s $((1 + 1))" > ready; ! test -e ../../trained.jsonl'
  worker = worker_of(setup=setup)
  assert worker.begin().returncode == 0
  worker.wait_for("0")
  assert (worker.folder / "ready").read_text() == "it's 2\n"


def test_a_setup_that_fails_starts_nothing(worker_of):
  worker = worker_of(setup="exit 3")
  assert worker.begin().returncode == 3
  assert worker.trained() == []
  assert worker.status() == "gone"


def test_logs_are_copied_beside_the_run(worker_of):
  worker = worker_of()
  worker.ends_with("wait")
  worker.begin()
  worker.wait_for_training()
  deadline = time.monotonic() + 300
  while not worker.programs.calls("gcloud"):
    assert time.monotonic() < deadline
    time.sleep(0.02)
  words = worker.programs.words("gcloud")[0]
  assert words[:4] == ["storage", "cp", "--quiet", "train.log"]
  assert words[4].startswith("gs://bucket/first/logs/")
