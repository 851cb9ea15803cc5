"""All cores at work.

barriers      before which jobs the cores meet
team, threads mailboxes, claims, workers
pace          how many threads take part
"""
