"""Deep autoencoders of images (Hinton & Salakhutdinov 2006; Sutskever 2013, 7.3)."""
