"""What a newcomer does: every command that README, guides and help show, in environments made by those commands alone.

commands  finds them
choices   which are run otherwise, or not at all, each with its reason, and what stands in for a reader's files
__main__  makes the environments, and runs them
"""
