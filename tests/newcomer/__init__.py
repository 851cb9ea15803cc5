"""Tests of every command in README, guides and help, in environments made only by these commands."""
