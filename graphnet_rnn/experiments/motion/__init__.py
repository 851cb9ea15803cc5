"""Prediction of the next frame of motion capture."""
