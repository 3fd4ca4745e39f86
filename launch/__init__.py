"""Takes an experiment from this machine to where it runs.

  python -m launch.local      several processes on this machine
  python -m launch.slurm      a SLURM cluster with GPUs
  python -m launch.gke        TPUs or GPUs of a Kubernetes cluster
  python -m launch.cloud_tpu  Cloud TPU VMs, from one to several pods

Each takes the --config, --config.KEY=VALUE and --workdir of vit_jax.train and
additional flags; --dry_run prints every file and command and does nothing. Run
them from a clone: this package is not installed, because a launch runs a commit
of the clone.
"""
