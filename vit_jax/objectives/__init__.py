"""Objectives: the tasks that are trained, behind one contract."""
