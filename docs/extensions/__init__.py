"""What the documentation site adds to Sphinx.

formulas     W_xh and h^l in text are set with indices; LaTeX becomes MathML, so that no page loads a script
public       the public names of the packages: links to them, and the directive `public` that documents them
docstrings   docstrings as they are written here (formula, parameters, Raises, Source) in reStructuredText
guides       the guides' Python blocks run and show what they show; tutorials are taken from tutorials/
gallery      the rows of docs/architectures.md as sections with their pictures
"""
