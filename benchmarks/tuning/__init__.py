"""What tune_loads.py is made of: the loads, the measurement, the verdict."""
