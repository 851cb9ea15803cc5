"""Files: read and written whole, with a sentence on what is wrong.

whole        reading, atomic writing, locks, rows
tensor_file  safetensors, whose header is held against the file
json_values  settings as JSON holds them, and back as they were
"""
