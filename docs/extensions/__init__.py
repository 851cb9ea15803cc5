"""Sphinx extensions of the documentation site.

formulas       W_xh and h^l in text are set with indices; LaTeX becomes MathML, so that no page loads a script
names          the public names of the packages, and where each is documented
links          links to them, wherever they stand in code
public         the directive that documents them
docstrings     docstrings as they are written here (formula, parameters, Raises, Source) in reStructuredText
guides         the guides' Python blocks run and show what they show; tutorials are taken from tutorials/
architectures  the rows of docs/architectures.md as sections with their pictures
"""
