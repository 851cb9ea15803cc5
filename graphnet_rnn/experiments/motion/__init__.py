"""Motion capture, a frame ahead."""
