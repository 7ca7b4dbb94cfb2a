"""Pipelines that have one fault each."""
