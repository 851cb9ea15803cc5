"""Tests of individual back ends."""
