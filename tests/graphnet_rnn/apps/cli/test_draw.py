"""Pictures, pages and charts from the command line: `draw`, `evaluate`, and the demo."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import matplotlib
import pytest

import graphnet_rnn as rnn
import viz
from graphnet.system import files
from graphnet_rnn.apps.cli import demo, draw, main
from graphnet_rnn.apps.cli.draw import SHOWN
from graphnet_rnn.data import Vocabulary, standard_library_text

BITS = {"event": "epoch", "epoch": 1, "train_bits": 3.0, "valid_bits": 3.1}
STEP = {"event": "step", "step": 1, "before": 2.0, "after": 1.0, "ratio": 0.9, "damping": 0.1}


def written(folder: str, *rows: dict[str, Any]) -> None:
    Path(folder).mkdir(exist_ok=True)
    Path(folder, "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def run_of(folder: str, valid: float) -> None:
    norms = {"weight_norms": {"layer0.W_xh": 1.0, "output.W_ho": 2.0}}
    first = {"event": "initial", "epoch": 0, **norms, "sample": "zq"}
    written(folder, first, {**BITS, "valid_bits": valid, **norms, "sample": "to be"})


def drawn(*arguments: str) -> str:
    """The text of the picture that `draw` makes."""
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert main(["draw", *arguments, "--out", "drawn.svg"]) == 0
    return Path("drawn.svg").read_text(encoding="utf-8")


@pytest.mark.slow
def test_draw_shows_cells_and_models(here: Path) -> None:
    rnn.save(rnn.Network([rnn.Elman(2)], 3, 3), "model.safetensors")
    for shown in SHOWN:
        for what in ("Elman(units=2)", "model.safetensors"):
            out = {"explorer": "page.html", "dump": "folder"}.get(shown, "picture.svg")
            words = ["draw", what, "--show", shown, "--out", out, "--theme", "dark"]
            one_step = what != "model.safetensors" and shown in ("graph", "explorer")
            words += [] if one_step else ["--time", "2"]
            assert main(words) == 0, words
            if shown == "dump":
                assert (here / out / "instructions.txt").stat().st_size > 0
            else:
                assert "#15181d" in (here / out).read_text(encoding="utf-8") or shown == "explorer", words
    for ending in ("svg", "png", "pdf", "dot", "html", "tex"):
        for _ in range(2):  # one of before is replaced
            assert main(["draw", "Dense", "--out", f"cell.{ending}"]) == 0


def test_pictures_of_many_steps_give_a_warning(here: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(draw, "MANY_STEPS", 3)
    for time, said in (("3", ""), ("4", "4 time steps take long to draw")):
        assert main(["draw", "Elman", "--show", "values", "--out", "values.svg", "--time", time]) == 0
        err = capsys.readouterr().err
        assert said in err
        assert bool(err) == bool(said)


def test_chart_of_a_run_follows_its_rows_or_the_options(here: Path, capsys: Any) -> None:
    for row, holds in ((BITS, [True, False]), (STEP, [False, True])):
        written("one", row)
        text = drawn("one/history.jsonl")
        assert [words in text for words in ("bits per character", "HF step")] == holds
    assert capsys.readouterr().out == "wrote drawn.svg (drawn by matplotlib)\n" * 2
    run_of("run", 3.1)
    for kind, words in (("curve", "bits per character"), ("weights", "W_xh"), (None, "best 3.100")):
        assert words in drawn("run", *(["--chart", kind] if kind else []))
    rnn.save(rnn.Network([rnn.GRU(3)], 2, 2), "model.safetensors")
    assert "W_xz" in drawn("model.safetensors", "--chart", "weights")


@pytest.mark.slow
def test_second_order_training_draws_a_flight_recorder(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = "--cell Elman --units 4 --time 10 --batch 5 --sample 0 --gradient-batches 4 --steps 2 --out run"
    assert main(["train", "text.txt", *small.split(), "--optimizer", "hf(cg_steps=3)"]) == 0
    assert "run/curve.png and run/flight.png" in capsys.readouterr().out
    assert (here / "run" / "flight.png").read_bytes().startswith(b"\x89PNG")
    assert main(["draw", "run/history.jsonl", "--out", "again.png"]) == 0
    assert (here / "again.png").read_bytes() == (here / "run" / "flight.png").read_bytes()


def test_runs_are_compared_by_their_names(here: Path) -> None:
    run_of("gru", 3.1)
    run_of("lstm", 2.9)
    (here / "lstm" / "history.jsonl").rename(here / "third.jsonl")
    text = drawn("gru/history.jsonl", "third.jsonl")
    assert all(f">{words}<" in text for words in ("gru 3.100", "third 2.900", "validation"))
    drawn("gru", "./gru")  # the names are then the paths


def test_samples_are_printed_or_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_of("run", 3.1)
    assert main(["draw", "run", "--chart", "samples"]) == 0
    out = capsys.readouterr().out
    assert "before training" in out
    assert "validation 3.100 bits/char" in out
    assert main(["draw", "run", "--chart", "samples", "--out", "samples.html"]) == 0
    assert "to be" in (here / "samples.html").read_text(encoding="utf-8")


TEXT = "a cat sat on a mat.\n" * 40


@pytest.fixture
def reader(here: Path) -> Path:
    """A model beside a text."""
    (here / "text.txt").write_text(TEXT, encoding="utf-8")
    net = rnn.Network([rnn.GRU(5)], len(set(TEXT)), len(set(TEXT)))
    net.vocabulary = Vocabulary.of(TEXT)
    rnn.save(net, "model.safetensors")
    return here


def evaluate(*arguments: str) -> None:
    assert main(["evaluate", "model.safetensors", "text.txt", *arguments]) == 0


def test_an_excerpt_from_a_cold_and_a_warm_start(reader: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate("--colour", "--at", "40", "--length", "20", "--context", "30")
    out = capsys.readouterr().out
    net = rnn.load("model.safetensors")
    cold, warm = rnn.read(net, TEXT[40:60]), rnn.read(net, TEXT[40:60], TEXT[10:40])
    first, shown = out.split("\n\n", 1)
    assert "with at least 30 of context" in first
    assert shown == f"{viz.reading({'cold start': cold, 'warm start, after 30 characters': warm})}\n"
    evaluate("--colour", "--at", "0")
    assert "warm start" not in capsys.readouterr().out


def test_pages_and_charts_of_costs(reader: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate("--save", "page.html", "--theme", "colour-blind")
    assert "\x1b" not in capsys.readouterr().out
    page = (reader / "page.html").read_text(encoding="utf-8")
    for words in ("text.txt as read by a network", "warm start, after 50 characters", "orange low"):
        assert words in page
    assert page.count('title="p = ') == 2 * 600 - 1  # the first of a cold start is not predicted
    for end, chart in ((".html", ".svg"), (".svg", ".png"), (".ansi", ".pdf"), (".txt", ".svg")):
        for _ in range(2):  # what it wrote before is replaced
            evaluate("--save", f"page{end}", "--costs", f"costs{chart}", "--length", "20")
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        evaluate("--costs", "costs.svg", "--split")
    words = re.findall(r">([^<>\n]+)</text>", Path("costs.svg").read_text(encoding="utf-8"))
    assert {"training", "validation", "test", "bits per character"} <= set(words)


def test_number_of_lanes_is_limited_by_the_text(reader: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Memory and time grow with the number of lanes."""
    Path("text.txt").write_text(TEXT[:60], encoding="utf-8")
    for lanes in ("50", "99999999"):
        evaluate("--context", "10", "--lanes", lanes, "--costs", f"{lanes}.svg")
    one, other = (line.split("wrote")[0] for line in capsys.readouterr().out.split("matplotlib)\n")[:2])
    assert one == other
    assert Path("50.svg").read_bytes() == Path("99999999.svg").read_bytes()


@pytest.mark.slow
def test_demo_output_and_files(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """Pictures, samples of all epochs, a falling loss, checked derivatives, files and next commands."""
    monkeypatch.setattr(demo, "standard_library_text", lambda: standard_library_text(30_000))
    monkeypatch.setenv("GRAPHNET_COMMAND", "python3 run.py")
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--seconds", "0.1"]) == 0
    printed = capsys.readouterr().out
    folder = tmp_path / "demo"
    for name in ("cell.svg", "unrolled.svg"):
        assert (folder / name).read_text(encoding="utf-8").count("<svg") == 1
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert printed.count("    | ") > 3
    assert "(time is up)" in printed
    for product in ("gradient", "R-operator", "Gauss-Newton"):
        assert printed.count(product) >= 2
    after = printed[printed.index("Files in demo/") :]
    for name in ("cell.svg", "unrolled.svg", "curve.png", "model.safetensors", "history.jsonl"):
        assert name in after
        assert (folder / name).exists()
    # In the words that can be pasted where nothing is on the PATH.
    assert after.count("\n  python3 run.py ") == 3


def test_demo_rejects_folders_in_use(tmp_path: Path, capsys: Any) -> None:
    """Folders in use by another demo or a training run."""
    (tmp_path / demo.MARKER).touch()
    (tmp_path / "history.jsonl").write_text("{}\n", encoding="utf-8")
    for used, said in (
        (tmp_path / demo.MARKER, "another demo is running"),
        (tmp_path, "another process is training"),
    ):
        with files.locked(used):
            assert main(["demo", "--out", str(tmp_path)]) == 2
        assert said in capsys.readouterr().err
        assert (tmp_path / "history.jsonl").read_text(encoding="utf-8") == "{}\n"


def test_demo_replaces_only_files_of_demos(tmp_path: Path) -> None:
    """Includes killed demos, which leave a lock; files of the user are kept."""
    lock = f".{demo.MARKER}.lock"
    (tmp_path / lock).touch()
    with demo._fresh_folder(tmp_path) as folder:
        for name in ("history.jsonl", "checkpoint-000000012.safetensors", ".cell.svg.0a0a0a0a.part"):
            (folder / name).touch()
    with demo._fresh_folder(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {demo.MARKER, lock}
    for name in ("notes.txt", "my.svg", "pictures/a.svg", "cell.svg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine", encoding="utf-8")
    with demo._fresh_folder(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {
            demo.MARKER,
            lock,
            "notes.txt",
            "my.svg",
            "pictures",
        }
