"""`train doctor`: what keeps the accelerator waiting, with evidence and one command that mends."""
