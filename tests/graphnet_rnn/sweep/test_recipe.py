"""Recipes: what they say, the configurations that follow, and what is refused."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.sweep import Between, Halving, Recipe, Values
from graphnet_rnn.sweep.ranges import range_of
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
    assert recipe.settings["dropout"] == Between(0.0, 0.5, when={"layers": (2, 3)})
    assert recipe.settings["clip_norm"] == 5
    assert recipe.halving == Halving(2, 2)
    assert recipe.halving.rungs(recipe.epochs) == [2, 4, 8, 9]
    assert Halving(1, 3).rungs(9) == [1, 3, 9]
    assert Halving(9, 3).rungs(9) == [9]


def test_what_is_drawn_follows_from_its_number_alone(read: Any) -> None:
    few, more = read(TOML), read(TOML.replace("trials = 5", "trials = 300"))
    drawn = list(more.configurations())
    assert list(few.configurations()) == drawn[:5]
    assert all(("dropout" in each) == (each["layers"] > 1) for each in drawn)
    assert {each["layers"] for each in drawn} == {1, 2, 3}
    units, rates = (np.array([each[name] for each in drawn]) for name in ("units", "rate"))
    assert units.min() >= 16
    assert units.max() <= 256
    assert abs(np.mean(np.log(units)) - (math.log(16) + math.log(257)) / 2) < 0.2
    assert (rates >= 1e-4).all()
    assert (rates <= 1e-2).all()
    assert abs(np.mean(np.log10(rates)) + 3) < 0.15
    assert list(read(TOML.replace("trials = 5", "trials = 5\nseed = 1")).configurations()) != drawn[:5]


def test_optimizers_and_schedules_are_words(read: Any) -> None:
    recipe = read("""
data = "book.txt"
[settings]
optimizer = { values = ["adam", "adamw(weight_decay=0.1)"] }
schedule = { values = ["Cosine(20)", "Warmup(5).then(Cosine(20))"] }
average = 0.99
epochs = 3
""")
    commands = [recipe.command(each, 0, "there") for each in recipe.configurations()]
    assert len(commands) == 4
    assert {
        "--optimizer=adamw(weight_decay=0.1)",
        "--schedule=Warmup(5).then(Cosine(20))",
        "--average=0.99",
    } < set(commands[-1])


def test_a_grid(read: Any) -> None:
    recipe = read("""
data = "book.txt"
[settings]
cell = { values = ["GRU", "Elman"] }
layers = { values = [1, 2] }
skip = { values = [true, false], when = { layers = 2 } }
epochs = 3
""")
    found = [tuple(each.values()) for each in recipe.configurations()]
    assert found == [
        ("GRU", 1, 3), ("GRU", 2, True, 3), ("GRU", 2, False, 3),
        ("Elman", 1, 3), ("Elman", 2, True, 3), ("Elman", 2, False, 3),
    ]  # fmt: skip
    command = recipe.command(list(recipe.configurations())[1], 7, "there")
    assert command[0] == "train"
    assert {"--skip", "--seed=7", "--out=there", "--cell=GRU", "--layers=2", "--epochs=3", "--quiet"} < set(
        command
    )
    assert "--skip" not in recipe.command(list(recipe.configurations())[2], 7, "there")


#: Of a recipe, and of its settings: what it cannot say, and what is answered.
WRONG = [
    ("speed = 3", "'speed' is not what a recipe says"),
    ("settings = 3", "settings must be a table"),
    ("method = 'best'", "method must be 'grid' or 'random'"),
    ("method = 'random'\ntrials = 0", "trials must be"),
    ("trials = 3", "trials are of method = 'random'"),
    ("name = [[1]]", "name must be words on one line"),
    ("name = true", "name must be words on one line"),
    ('name = "\\u001b[31m"', "name must be words on one line"),
    ("seconds = 9", "options of train stand under [settings]"),
    ("clip-norm = 3", "options of train stand under [settings]"),
    ("seed-s = 3", "did you mean seeds?"),
    ("folds = 2\n[settings]\nvalid = 'b'", "folds say what to validate on"),
    ("halving = 3", "halving has first, factor and brackets"),
    ("[halving]\nspeed = 0", "halving has first, factor and brackets"),
    ("[halving]\nfirst = 0", "halving: first must be"),
    ("[halving]\nfirst = -1.5", "halving: first must be a number above 0, not -1.5"),
    ("[halving]\nbrackets = 3", "halving: brackets must be"),
]
WRONG_SETTINGS = [
    ("seed = 3", "seed is no setting: the sweep sees to it"),
    ("units = [3, 4]", "units must be a word, a number, true or false, or a range"),
    ("units = { between = [3, 4] }", "units must be a value, or one of"),
    ("units = { values = [] }", "units: values must be words, numbers"),
    ("units = { values = [[1]] }", "units: values must be words, numbers"),
    ("rate = { log = [0, 1] }", "rate: a range of logarithms must begin above 0"),
    ("rate = { log = [1] }", "rate: a range has two ends, not 1"),
    ("rate = { uniform = [2, 1] }", "rate: a range must go from a number to a larger"),
    ("rate = { uniform = [0, inf] }", "rate: a range must go from a number to a larger"),
    ("units = { whole = [1.5, 3] }", "units: a range of whole numbers"),
    ("rate = { uniform = [0, 1] }", "a grid goes through values, and rate has none"),
    ("units = { values = [1], when = { layers = 2 } }", "units is a setting when layers"),
    ("units = { values = [1], when = 3 }", "units: when must be"),
    ("units = { values = [1, 2], when = { units = 2 } }", "units, which depends on units"),
    (
        "units = { values = [1, 2], when = { batch = 1 } }\nbatch = { values = [1, 2], when = { units = 2 } }",
        "units, which depends on batch, which depends on units",
    ),
    (
        "layers = { values = [1, 2] }\nunits = { values = [1], when = { layers = 7 } }",
        "units is a setting when layers is 7, which it never is",
    ),
]


def test_what_no_recipe_says(read: Any) -> None:
    rows = [("[settings]\nepochs = 1", "data = 'FILE' is missing"), ("data = ''", "data must name a file")]
    rows += [(f"data = 'a'\n{text}", words) for text, words in WRONG]
    rows += [(f"data = 'a'\n[settings]\n{text}", words) for text, words in WRONG_SETTINGS]
    for text, words in rows:
        with case(text), pytest.raises(UsageError, match=re.escape(words)):
            read(text)


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


def test_brackets_are_those_of_hyperband() -> None:
    for unit in ("epochs", "steps", "core_seconds"):
        for (most, factor), table in TABLES.items():
            with case(unit, most, factor):
                scale = 0.5 if unit == "core_seconds" else 1
                count = sum(bracket[0][0] for bracket in table)
                settings = {"rate": Between(1e-4, 1.0, log=True), unit: most * scale}
                halving = Halving(scale, factor, brackets=True)
                recipe = Recipe("a", settings, "random", trials=count, halving=halving)
                found = []
                for numbers, begin in recipe.brackets:
                    alive, rungs = len(numbers), []
                    for spent in recipe.rungs[begin:]:
                        rungs.append((alive, spent / scale))
                        alive = halving.kept(alive)
                    found.append(rungs)
                assert found == table
                assert [n for numbers, _ in recipe.brackets for n in numbers] == list(range(count))
                more = Recipe("a", settings, "random", trials=2 * count + 3, halving=halving)
                assert more.brackets[: len(table)] == recipe.brackets  # who is there stays where it is
                assert [len(numbers) for numbers, _ in more.brackets[len(table) :]] == [
                    *halving.sizes(most * scale),
                    3,
                ]
                assert more.brackets[-1].begin == 0
                effort = sum(
                    n * (spent - (rungs[i - 1][1] if i else 0))
                    for rungs in table
                    for i, (n, spent) in enumerate(rungs)
                )
                assert recipe.effort == (effort if unit == "epochs" else None)
                assert Recipe.of(recipe.mapping(), Path()).halving == halving


def test_rungs_of_steps_are_whole() -> None:
    with pytest.raises(UsageError, match=r"halving: first, in steps, must be a whole number"):
        _ = Recipe("a", {"steps": 9}, halving=Halving(1.5)).budget
    with pytest.raises(UsageError, match=r"halving: first, 9, must be below core_seconds, 9"):
        _ = Recipe("a", {"core_seconds": 9}, halving=Halving(9)).budget


def test_what_is_no_toml(read: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"recipe\.toml is no TOML"):
        read("data = ")
    with pytest.raises(DataError, match="there is no file"):
        Recipe.read(tmp_path / "nothing.toml")


def test_a_setting_that_no_command_has(read: Any) -> None:
    recipe = Recipe("a", {"unit": 3, "epochs": 1})
    with pytest.raises(
        UsageError, match=r"train has no setting unit; it has epochs, units. Did you mean units"
    ):
        recipe.require_known(["units", "epochs"])
    with pytest.raises(UsageError, match="say epochs, a number, under"):
        _ = Recipe("a", {}).epochs
    with pytest.raises(UsageError, match="more than 100,000 configurations"):
        list(
            Recipe(
                "a", {"units": Values(tuple(range(400))), "time": Values(tuple(range(400)))}
            ).configurations()
        )


def test_ranges_come_back_as_a_recipe_writes_them() -> None:
    for each in (
        Values(("a", 1, True)), Between(0.0, 1.0), Between(1e-3, 1.0, log=True), Between(1, 9, whole=True),
        Between(1, 9, log=True, whole=True), Values((1,), {"layers": (2, 3)}),
    ):  # fmt: skip
        assert range_of("x", each.description()) == each


def test_what_depends_on_a_setting_that_is_none_is_none() -> None:
    settings = {
        "dropout": Values((0.1,), {"layers": (2,)}), "layers": Values((1, 2), {"cell": ("GRU",)}),
        "cell": Values(("LSTM", "GRU")), "epochs": 1,
    }  # fmt: skip
    assert list(Recipe("a", settings).configurations()) == [
        {"cell": "LSTM", "epochs": 1},
        {"layers": 1, "cell": "GRU", "epochs": 1},
        {"dropout": 0.1, "layers": 2, "cell": "GRU", "epochs": 1},
    ]


def test_a_recipe_that_starts_from_a_model(read: Any, tmp_path: Path) -> None:
    """The file lies beside the recipe; a run that goes on has its own weights, and needs it no more."""
    found = read('data = "book.txt"\n[settings]\nstart = "model.safetensors"\nrate = 0.1\nepochs = 2\n')
    start = str((tmp_path / "model.safetensors").resolve())
    assert f"--start={start}" in found.command(dict(found.settings), 0, "run")
    assert not any("--start" in word for word in found.resuming("run", 2))
    assert (
        found.with_files(lambda name: f"kept/{Path(name).name}").settings["start"] == "kept/model.safetensors"
    )
