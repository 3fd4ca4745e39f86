"""Several processes as one: start, rendezvous, liveness, stopping."""
