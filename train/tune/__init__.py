"""Tuning: the loader's settings by prediction and a few short trials, on this machine and data."""
