"""Tests of single back ends."""
