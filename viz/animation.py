"""Animation: videos side by side as a page with a slider, as a GIF or as an MP4."""

from __future__ import annotations

import base64
import io
import os
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphnet.settings import shown
from graphnet.system.text import filled, in_brief, json_for_script
from viz.charts.video import Videos, videos_of
from viz.errors import DrawingError, count_of, named_file
from viz.files import write_file

#: Approximate height of a video in a GIF, in pixels; margin; height of its name.
HEIGHT, MARGIN, NAME = 160, 8, 16
PAPER, INK = 255, 40


class Moving(ABC):
    """Base class of pictures that move: an HTML page, a GIF or an MP4."""

    @property
    @abstractmethod
    def html(self) -> str:
        """HTML page in one file, with play, pause (space), single steps (arrows) and a slider."""

    @abstractmethod
    def _frames(self) -> tuple[list[Any], float]:
        """Images of Pillow, and the seconds of each."""

    @property
    def gif(self) -> bytes:
        """GIF that repeats; frame times are rounded to hundredths of a second."""
        frames, seconds = self._frames()
        stream = io.BytesIO()
        duration = 10 * max(2, round(100 * seconds))
        frames[0].save(stream, "GIF", save_all=True, append_images=frames[1:], loop=0, duration=duration)
        return stream.getvalue()

    @property
    def mp4(self) -> bytes:
        """Video, H.264, made by the program ffmpeg. Raises DrawingError if it is not installed, or fails."""
        program = shutil.which("ffmpeg")
        if program is None:
            raise DrawingError(
                "a .mp4 needs the program ffmpeg, which is not installed; save a .gif instead."
            )
        frames, seconds = self._frames()
        (width, height), rate = frames[0].size, 1 / seconds
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "video.mp4"
            done = subprocess.run(
                [
                    program, "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}",
                    "-r", f"{rate:g}", "-i", "-", "-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2:color=white",
                    "-r", f"{max(30, rate):g}", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart",
                    str(file),
                ],
                input=b"".join(frame.convert("RGB").tobytes() for frame in frames), capture_output=True, check=False,
            )  # fmt: skip
            if done.returncode:
                said = done.stderr.decode(errors="replace")
                raise DrawingError(f"ffmpeg fails ({in_brief(said, 200)}); save a .gif instead.")
            return file.read_bytes()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a .html, .gif or .mp4 file. Raises DrawingError for another suffix, or if the file cannot be
        written.
        """
        file = named_file("path", path)
        ending = file.suffix.lower()
        if ending not in (".html", ".htm", ".gif", ".mp4"):
            raise DrawingError(f"path {str(path)!r}: an animation must end in .html, .gif or .mp4.")
        write_file(
            file, self.mp4 if ending == ".mp4" else self.gif if ending == ".gif" else self.html.encode()
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        data = base64.b64encode(self.gif).decode()
        page = f'<img alt="{escape(repr(self))}" src="data:image/gif;base64,{data}">'
        return {"text/plain": repr(self), "text/html": page}


def pillow() -> tuple[Any, Any, Any]:
    """Image, ImageDraw and ImageFont of Pillow; DrawingError if it is not installed."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise DrawingError(
            "a .gif or .mp4 needs Pillow, which is not installed: pip install pillow"
        ) from error
    return Image, ImageDraw, ImageFont


@dataclass(frozen=True, repr=False)
class Animation(Moving):
    """Videos that play side by side.

    `.save("balls.html")` writes it, or a `.gif` or `.mp4`; a notebook shows it.
    videos: name -> array (time, height, width), 0 black and 1 white. frames_per_second: speed. title: title of the
    page. path, in `save`: file that ends in .html, .gif or .mp4.

    >>> page = viz.Animation({"ball": np.eye(3)[:, None] * np.ones((3, 2, 1))}, frames_per_second=6, title="Ball")
    >>> page
    <Animation of 1 videos, 3 frames of 2 x 3 pixels>
    """

    videos: Videos
    frames_per_second: int
    title: str

    def __repr__(self) -> str:
        time, height, width = next(iter(self.videos.values())).shape
        return f"<Animation of {len(self.videos)} videos, {time} frames of {height} x {width} pixels>"

    @property
    def html(self) -> str:
        time, height, width = next(iter(self.videos.values())).shape
        pixels = {name: base64.b64encode(_grey(v).tobytes()).decode() for name, v in self.videos.items()}
        data = {
            "time": time, "height": height, "width": width, "rate": self.frames_per_second,
            "videos": [{"name": name, "pixels": text} for name, text in pixels.items()],
        }  # fmt: skip
        template = resources.files("viz").joinpath("assets", "animation.html").read_text(encoding="utf-8")
        return filled(template, {"title": escape(self.title), "data": json_for_script(data)})

    def _frames(self) -> tuple[list[Any], float]:
        Image, ImageDraw, _ = pillow()
        time, height, width = next(iter(self.videos.values())).shape
        by = max(1, HEIGHT // height)
        high, wide = height * by, width * by
        size = (len(self.videos) * (wide + MARGIN) + MARGIN, high + NAME + 2 * MARGIN)
        paper = Image.new("L", size, PAPER)
        for n, name in enumerate(self.videos):
            ImageDraw.Draw(paper).text((MARGIN + n * (wide + MARGIN), MARGIN // 2), name, fill=INK)
        frames = []
        for t in range(time):
            frame = paper.copy()
            for n, video in enumerate(self.videos.values()):
                image = Image.fromarray(_grey(video[t])).resize((wide, high), Image.Resampling.NEAREST)
                frame.paste(image, (MARGIN + n * (wide + MARGIN), MARGIN + NAME))
            frames.append(frame)
        return frames, 1 / self.frames_per_second


def animation(videos: Any, frames_per_second: int = 12, title: str = "Videos") -> Animation:
    """Videos side by side, as an HTML page, a GIF or an MP4.

    videos: array (time, pixels) of square frames, row by row, or (time, height, width), 0 black and 1 white; or several
    of one shape by name: {"truth": v[:, 0], "predicted": s[:, 0]}. Values outside [0, 1] are clipped.
    frames_per_second: speed; 12 by default. title: title of the page.
    Raises DrawingError for arrays that do not fit.

    >>> viz.animation({"truth": np.zeros((4, 25)), "predicted": np.ones((4, 25))})
    <Animation of 2 videos, 4 frames of 5 x 5 pixels>
    """
    if not isinstance(title, str):
        raise DrawingError(f"animation: title must be a str, not {shown(title)}.")
    rate = count_of("animation: frames_per_second", frames_per_second)
    return Animation(videos_of("animation", videos), rate, title)


def _grey(video: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    found: npt.NDArray[np.uint8] = np.rint(255 * np.clip(video, 0, 1)).astype(np.uint8)
    return found
