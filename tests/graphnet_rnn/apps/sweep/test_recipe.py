"""Recipes: parsing, configurations, and invalid recipes."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphnet_rnn.apps.sweep import Between, Halving, Recipe, Values
from graphnet_rnn.errors import DataError, UsageError
from tests.tables import case

TOML = """
data = "book.txt"
method = "random"
trials = 5
seeds = 2
name = "mine"
[settings]
cell = { values = ["GRU", "LSTM"] }
units = { whole = [16, 256], log = true }
rate = { log = [1e-4, 1e-2] }
dropout = { uniform = [0.0, 0.5], when = { layers = [2, 3] } }
layers = { whole = [1, 3] }
clip-norm = 5
epochs = 9
[halving]
first = 2
factor = 2
"""


@pytest.fixture
def read(tmp_path: Path) -> Any:
    (tmp_path / "book.txt").write_text("abc" * 50, encoding="utf-8")

    def read(text: str) -> Recipe:
        (tmp_path / "recipe.toml").write_text(text, encoding="utf-8")
        return Recipe.read(tmp_path / "recipe.toml")

    return read


def test_a_recipe_in_toml(read: Any, tmp_path: Path) -> None:
    recipe = read(TOML)
    assert recipe.data == str(tmp_path / "book.txt")
    assert (recipe.method, recipe.trials, recipe.seeds, recipe.name) == ("random", 5, 2, "mine")
    assert recipe.settings["units"] == Between(16, 256, log=True, whole=True)
    assert Between(np.float64(0.1), np.int64(2)).description() == {"uniform": [0.1, 2]}
    drawn = [Between(-2, 1, whole=True).draw(np.random.default_rng(n)) for n in range(100)]
    assert set(drawn) == {-2, -1, 0, 1}
    assert recipe.settings["dropout"] == Between(0.0, 0.5, when={"layers": (2, 3)})
    assert recipe.settings["clip_norm"] == 5
    assert recipe.halving == Halving(2, 2)
    assert recipe.halving.rungs(recipe.epochs) == [2, 4, 8, 9]
    assert Halving(1, 3).rungs(9) == [1, 3, 9]
    assert Halving(9, 3).rungs(9) == [9]
    assert Recipe.of(recipe.mapping(), tmp_path) == recipe
    tables = read("data = 'a.csv'\n[settings]\ncalendar = ['hour', 'weekday']")
    assert tables.settings["calendar"] == "hour,weekday"


def test_configurations_depend_only_on_their_number(read: Any) -> None:
    few, more = read(TOML), read(TOML.replace("trials = 5", "trials = 300"))
    drawn = list(more.configurations())
    assert list(few.configurations()) == drawn[:5]
    assert all(("dropout" in each) == (each["layers"] > 1) for each in drawn)
    assert {each["layers"] for each in drawn} == {1, 2, 3}
    units, rates = (np.array([each[name] for each in drawn]) for name in ("units", "rate"))
    assert 16 <= units.min() <= units.max() <= 256
    assert abs(np.mean(np.log(units)) - (math.log(16) + math.log(257)) / 2) < 0.2
    assert 1e-4 <= rates.min() <= rates.max() <= 1e-2
    assert abs(np.mean(np.log10(rates)) + 3) < 0.15
    assert list(read(TOML.replace("trials = 5", "trials = 5\nseed = 1")).configurations()) != drawn[:5]


def test_a_grid_and_its_commands(read: Any, tmp_path: Path) -> None:
    recipe = read("""
data = "book.txt"
[settings]
cell = { values = ["GRU", "Elman"] }
layers = { values = [1, 2] }
skip = { values = [true, false], when = { layers = 2 } }
schedule = "Warmup(5).then(Cosine(20))"
start = "model.safetensors"
epochs = 3
""")
    found = list(recipe.configurations())
    chosen = [(each["cell"], each["layers"], each.get("skip")) for each in found]
    assert chosen == [(c, *of) for c in ("GRU", "Elman") for of in ((1, None), (2, True), (2, False))]
    command = recipe.command(found[1], 7, "there")
    start = str((tmp_path / "model.safetensors").resolve())  # it lies beside the recipe
    said = {"--skip", "--seed=7", "--out=there", "--cell=GRU", "--layers=2", "--epochs=3", "--quiet"}
    said |= {"--schedule=Warmup(5).then(Cosine(20))", f"--start={start}"}
    assert command[0] == "train"
    assert said < set(command)
    assert "--skip" not in recipe.command(found[2], 7, "there")
    assert not any("--start" in word for word in recipe.resuming("run", 2))  # it has its own weights
    kept = recipe.with_files(lambda name: f"kept/{Path(name).name}")
    assert kept.settings["start"] == "kept/model.safetensors"


def test_settings_that_depend_on_an_absent_setting_are_absent() -> None:
    settings = {
        "dropout": Values((0.1,), {"layers": (2,)}), "layers": Values((1, 2), {"cell": ("GRU",)}),
        "cell": Values(("LSTM", "GRU")), "epochs": 1,
    }  # fmt: skip
    assert list(Recipe("a", settings).configurations()) == [
        {"cell": "LSTM", "epochs": 1},
        {"layers": 1, "cell": "GRU", "epochs": 1},
        {"dropout": 0.1, "layers": 2, "cell": "GRU", "epochs": 1},
    ]


#: (configurations, budget of each) of the rungs of each bracket, for R = 81, η = 3 (Li et al. 2018, table 1) and for
#: R = 8, η = 2 (the manual of mlr3hyperband).
TABLES = {
    (81, 3): [
        [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)],
        [(34, 3), (11, 9), (3, 27), (1, 81)],
        [(15, 9), (5, 27), (1, 81)],
        [(8, 27), (2, 81)],
        [(5, 81)],
    ],
    (8, 2): [[(8, 1), (4, 2), (2, 4), (1, 8)], [(6, 2), (3, 4), (1, 8)], [(4, 4), (2, 8)], [(4, 8)]],
}


@pytest.mark.parametrize(("unit", "scale"), [("epochs", 1), ("steps", 1), ("core_seconds", 0.5)])
def test_brackets_match_hyperband(unit: str, scale: float) -> None:
    for (most, factor), table in TABLES.items():
        count = sum(bracket[0][0] for bracket in table)
        settings = {"rate": Between(1e-4, 1.0, log=True), unit: most * scale}
        halving = Halving(scale, factor, brackets=True)
        recipe = Recipe("a", settings, "random", trials=count, halving=halving)
        found, effort = [], 0
        for numbers, begin in recipe.brackets:
            alive, done, rungs = len(numbers), 0, []
            for spent in recipe.rungs[begin:]:
                rungs.append((alive, spent / scale))
                effort, done = effort + alive * (spent - done), spent
                alive = halving.kept(alive)
            found.append(rungs)
        with case(most, factor):
            assert found == table
            assert [n for numbers, _ in recipe.brackets for n in numbers] == list(range(count))
            more = Recipe("a", settings, "random", trials=2 * count + 3, halving=halving)
            assert more.brackets[: len(table)] == recipe.brackets  # who is there stays where it is
            added = [len(numbers) for numbers, _ in more.brackets[len(table) :]]
            assert added == [*halving.sizes(most * scale), 3]
            assert more.brackets[-1].begin == 0
            assert recipe.effort == (effort if unit == "epochs" else None)
            assert Recipe.of(recipe.mapping(), Path()).halving == halving


#: Of a recipe of the data 'a', and of one that is made in Python: what it cannot say, and what the answer names.
WRONG = [
    ("", "data = 'FILE' is missing"),
    ("data = ''", "data must name a file"),
    ("speed = 3", "(did you mean seed?); options of train stand under [settings]"),
    ("settings = 3", "settings must be a table"),
    ("[settings]\ncell = ['LSTM', 'GRU']", "cell must be a word, a finite number, true or false, or a range"),
    ("method = 'best'", "method must be 'grid' or 'random'"),
    ("method = 'random'\ntrials = 0", "trials must be"),
    ("seeds = 1000000000", "at most 100,000 runs"),
    ("trials = 3", "trials needs method = 'random'"),
    ('name = "\\u001b[31m"', "name must be one line of text"),
    ("folds = 2\n[settings]\nvalid = 'b'", "folds and the setting valid both set the validation data"),
    ("gap = 5", "gap needs folds"),
    ("[halving]\nspeed = 0", "halving must have only the keys first, factor and brackets"),
    ("[halving]\nfirst = -1.5", "halving: first must be a number above 0, not -1.5"),
    ("[halving]\nbrackets = 3", "halving: brackets must be"),
    ("[settings]\nseed = 3", "seed must not be among the settings: the sweep sets it"),
    ("[settings]\nno_scaling = { values = [true, false] }", "no_scaling must be true or false"),
    ("[settings]\nunits = [3, 4]", "units must be a word, a finite number, true or false, or a range"),
    ("[settings]\nunits = { between = [3, 4] }", "units must be a value, or one of"),
    ("[settings]\nunits = { values = [] }", "units: values must be words, finite numbers"),
    ("[settings]\nrate = { values = [nan, 0.1] }", "rate: values must be words, finite numbers"),
    ("[settings]\nrate = inf", "rate must be a word, a finite number"),
    ("[settings]\nrate = { log = [0, 1] }", "rate: a log range must begin above 0"),
    ("[settings]\nrate = { log = [1] }", "rate: a range must be two numbers, [a, b], not 1"),
    ("[settings]\nrate = { uniform = [2, 1] }", "rate: a range must go from a number to a larger"),
    ("[settings]\nunits = { whole = [1.5, 3] }", "units: the ends of a whole range must be whole numbers"),
    ("[settings]\nrate = { uniform = [0, 1] }", "a grid needs values = [...], but rate has none"),
    ("[settings]\nunits = { values = [1], when = { layers = 2 } }", "when of units must name another setting; layers"),
    ("[settings]\nclip_norm = 1\nclip-norm = 2", "settings has an option twice"),
    ("[settings]\nunits = { values = [1], when = 3 }", "units: when must be"),
    ("[settings]\nunits = { values = [1], when = { batch = 1 } }\nbatch = { values = [1], when = { units = 1 } }",
        "units, which depends on batch, which depends on units"),
    ("[settings]\nlayers = { values = [1, 2] }\nunits = { values = [1], when = { layers = 7 } }",
        "units would never be used: it needs layers to be 7"),
]  # fmt: skip
GRID = {"units": Values(tuple(range(400))), "time": Values(tuple(range(400)))}
WRONG_IN_PYTHON = {
    "halving: first, in steps, must be a whole": lambda: Recipe("a", {"steps": 9}, halving=Halving(1.5)).budget,
    "first, 9, must be below core_seconds, 9":
        lambda: Recipe("a", {"core_seconds": 9}, halving=Halving(9)).budget,
    "give epochs, a number, under": lambda: Recipe("a", {}).epochs,
    "more than 100,000 configurations": lambda: list(Recipe("a", GRID).configurations()),
}  # fmt: skip


def test_invalid_recipes_are_rejected(read: Any, tmp_path: Path) -> None:
    for text, words in WRONG:
        whole = text if not text or text.startswith("data") else f"data = 'a'\n{text}"
        with case(text), pytest.raises(UsageError, match=re.escape(words)):
            read(whole)
    for words, call in WRONG_IN_PYTHON.items():
        with case(words), pytest.raises(UsageError, match=words):
            call()
    with pytest.raises(DataError, match=r"recipe\.toml is not valid TOML: Exceeds the limit"):
        read(f'data = "a.txt"\nrate = {"9" * 5000}\n')
    with pytest.raises(DataError, match=r"recipe\.toml is not valid TOML"):
        read("data = ")
    with pytest.raises(DataError, match="brackets are nested too deeply"):
        read("data = " + 5000 * "[")
    with pytest.raises(DataError, match=r"^there is no file"):
        Recipe.read(tmp_path / "nothing.toml")
