"""All cores at work.

barriers      jobs before which the cores wait for each other
team, threads mailboxes, claims, workers
pace          how many threads take part
"""
