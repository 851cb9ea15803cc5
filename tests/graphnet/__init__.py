"""Tests of the engine: laws over tables, wording of errors, and facts about single parts."""
