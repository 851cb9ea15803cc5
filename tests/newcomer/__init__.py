"""What a newcomer does: every command that README, guides and help show, in environments made by those alone."""
