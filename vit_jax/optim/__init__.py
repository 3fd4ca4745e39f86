"""Learning-rate schedules, optimizers and parameter averaging."""
