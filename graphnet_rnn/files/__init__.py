"""Files: complete reads, atomic writes, and errors that name the problem.

whole        reading, atomic writing, locks, rows
tensor_file  safetensors, with a checked header
json_values  settings to JSON and back
"""
