"""Tests of the engine: laws, error messages and individual parts."""
