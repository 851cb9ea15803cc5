"""Commands that cannot be meant or cannot be done, and the sentence that answers each.

A row is what is added to a command that would work (`GOOD`), and a pattern of the answer. What it is about is the first
option in it, or, where it has none, the file or the cell. The folder in which the rows run is made by `make_place`:

    text.txt, valid.txt, short.txt     texts          model.safetensors    of text.txt
    run/                               a short run    cells.py             cells of a user, most of them broken
    picture.png, binary, empty, nul    other files    folder/              holds nothing
    loop, pipe, zero, full             a link to itself, a named pipe, links to devices

Besides these rows, `of_every_option` makes some for each option of a parser: no value, an empty one, a wrong type.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import graphnet_rnn as rnn
from graphnet_rnn.cli import COMMANDS, TEXTS, main, make_parser
from graphnet_rnn.data import Vocabulary
from graphnet_rnn.formats.model_file import ModelFile, describe_model, model_tensors

TEXT = "a cat sat on a mat, and a rat sat on the cat. " * 30
LARGE, HUGE = "99999999", "9" * 25
TORCH = "export lstm.safetensors --to torch --out new.safetensors"

#: For each command, words with which it would work.
GOOD = {
    "demo": "demo --out new",
    "train": "train text.txt --time 5 --batch 2 --units 4 --epochs 1 --out new",
    "sample": "sample model.safetensors",
    "evaluate": "evaluate model.safetensors text.txt",
    "draw": "draw LSTM --out new.svg",
    "check": "check LSTM",
    "cells": "cells LSTM",
    "export": "export model.safetensors --to torch --out new.safetensors",
    "tasks": "tasks --length 10 --units 4 --batch 10 --test 10 --steps 1",
    "control": "control center-out --units 4 --movements 2 --epochs 1 --out new",
    "write": "write model.safetensors new.txt --html",
    "sweep": "sweep recipe.toml --out new",
    "predict": "predict numbers.safetensors numbers.npz --out new.npz",
    "complete": "complete model.safetensors --length 5",
    "timelag": "timelag model.safetensors --open a --control b --brackets am --steps 5 --runs 2 --smooth 1",
    "debag": "debag model.safetensors text.txt --bags 2 --words 3",
}
#: For each command: what is added (a line that begins with the command stands alone), and what the answer must hold.
ROWS: dict[str, list[tuple[str, str]]] = {
    "demo": [
        ("--seconds -1", "--seconds must be a number of seconds >= 0, not -1"),
        ("--seconds inf", "--seconds must be a number of seconds >= 0, not inf"),
        ("--out text.txt", r"--out text.txt: \S+/text.txt is no folder"),
        ("--out text.txt/x", r"text.txt is no folder"),
        ("--out /dev/null/x", r"/dev/null is no folder"),
        ("--out .", "exists and was not made by the demo"),
        ("--out loop", "is no folder"),
        ("--units 5", "unrecognized arguments: --units 5"),
        ("text.txt", "unrecognized arguments: text.txt"),
    ],
    "train": [
        ("train none.txt --out new", "there is no file none.txt"),
        ("train folder --out new", "folder is a folder; name a file in it"),
        ("train empty --out new", "empty is empty"),
        ("train nul --out new", "is a binary file"),
        ("train binary --out new", "is not utf-8 text|is a binary file"),
        ("train picture.png --out new", "is not utf-8 text|is a binary file"),
        ("train model.safetensors --out new", "is not utf-8 text|is a binary file"),
        ("train short.txt --out new", "the text has 4 characters, fewer than one batch needs"),
        ("train loop --out new", "loop cannot be read: Too many levels of symbolic links"),
        ("train pipe --out new", "pipe is a pipe that nothing was written to"),
        ("train zero --out new", "zero cannot be read: it is a device"),
        ("train /dev/null --out new", "/dev/null cannot be read: it is a device"),
        ("train '' --out new", "data is empty; say what it is"),
        (f"train {'x' * 5000} --out new", "File name too long"),
        ("train 'no such file\N{SNOWMAN}.txt' --out new", "there is no file no such file\N{SNOWMAN}.txt"),
        ("train text.txt/x --out new", "cannot be read: Not a directory"),
        ("train text.txt valid.txt", "unrecognized arguments: valid.txt"),
        ("train sparse.txt --out new", "sparse.txt is a binary file"),
        ("--valid none.txt", "there is no file none.txt"),
        ("--valid short.txt --time 50", r"short.txt has 5 character\(s\), and none is scored"),
        ("--valid greek.txt", "has not seen in training: 'φ'"),
        ("--valid folder", "folder is a folder"),
        ("--valid=--", "there is no file --"),
        ("train --valid valid.txt --out new", "--valid and --test go with a training text"),
        ("--test valid.txt", "--test FILE needs --valid FILE as well"),
        ("--test short.txt --valid valid.txt --time 50", r"short.txt has 5 character\(s\)"),
        ("--test zero --valid valid.txt", "it is a device"),
        ("--unknown zz", "--unknown says how --valid and --test are read"),
        ("--unknown zz --valid greek.txt", "unknown='zz' must itself be one character that the model knows"),
        ("--unknown '' --valid greek.txt", "unknown='' must itself be one character"),
        ("--unknown Q --valid greek.txt", "unknown='Q' must itself be one character that the model knows"),
        ("--encoding klingon", "'klingon' is not an encoding that Python knows"),
        ("--encoding hex", "'hex' is not an encoding"),
        ("train short.txt --encoding utf-16 --out new", "is not utf-16 text"),
        ("--encoding ascii --valid greek.txt", "greek.txt is not ascii text .byte 0xcf at offset 0"),
        ("--encoding undefined", "is not undefined text"),
        ("--cell LSTN", "there is no cell 'LSTN'.*Did you mean LSTM"),
        ("--cell none.py:Cell", "there is no file none.py"),
        ("--cell cells.py", "cells.py is a file; say which cell"),
        ("--cell cells.py:None", "cells.py has no cell 'None'"),
        ("--cell raises.py:Cell", r"raises.py cannot be imported: Odd: two lines \(raises.py:4\)"),
        ("--cell exits.py:Cell", r"exits.py ends the program when it is imported \(exits.py:1\)"),
        ("--cell broken.py:Cell", "broken.py cannot be imported: SyntaxError"),
        ("--cell recursive.py:Cell", "recursive.py cannot be imported: RecursionError"),
        ("--cell asks.py:Cell", "asks.py cannot be imported: (EOF|OS)Error"),
        ("--cell generator.py:Cell", r"generator.py cannot be imported: GeneratorExit \(generator.py:1\)"),
        ("--cell nul.py:Cell", "nul.py cannot be imported: SyntaxError"),
        ("--cell folder.py:Cell", "folder.py is a folder"),
        ("--cell zero.py:Cell", "zero.py is a device; name a file of Python code"),
        ("--cell pipe.py:Cell", "pipe.py is a pipe; name a file of Python code"),
        ("--cell loop.py:Cell", "loop.py is a link that leads in a circle; name a file of Python code"),
        ("--cell ./cells:Own", "'./cells' is neither a file of Python code, whose name ends in .py, nor the name of"),
        ("--cell ..:Own", "'..' is neither a file of Python code"),
        ("--cell no.such.module:Cell", "no.such.module cannot be imported: ModuleNotFoundError"),
        ("--cell 'RHN(depth=)'", "cannot be read; write settings as in Python"),
        ("--cell 'RHN(depth=0)' --units 4", "RHN: depth must be a whole number >= 1, not 0"),
        ("--cell 'RHN(depth=1000000000)'", r"depth = 1,000,000,000 makes about [\d,]+ nodes, which would take"),
        ("--cell 'NARX(order=1000000000)'", "order = 1,000,000,000 makes about"),
        ("--cell 'GLNN(units=1000000000)' --epochs 1", "both say how many units|a random graph of .* edges would"),
        ("--cell 'RHN(x=1)'", "RHN: got an unexpected keyword argument 'x'; its settings"),
        ("--cell 'RHN(units=4)'", "both say how many units"),
        ("--cell 'RHN(units=10**9)'", r"10 \*\* 9 is no setting.*Write the number itself$"),
        ("train text.txt --cell 'LSTM(units=2147483647)' --out new", "weights .* would take .* of memory"),
        ("--cell 'RHN(depth=2, depth=3)'", "says depth twice; leave out one"),
        ("--cell missing.py:Cell", r"missing.py has no cell 'Cell': ValueError: odd \(missing.py:2\)"),
        ("--cell 'Residual(Residual)'", "Residual is no setting|is no setting"),
        (f"--cell '{'(' * 3000}'", "cannot be read|there is no cell"),
        ("--units 0", "units must be a whole number >= 1, not 0"),
        ("--units -5", "units must be a whole number >= 1, not -5"),
        (f"--units {LARGE}", "weights .* would take .* of memory"),
        (f"--units {HUGE}", "units must be at most 2147483647"),
        ("--layers 0", "--layers must be a whole number >= 1, not 0"),
        ("--layers 100000000", "--layers 100000000 makes about 100,000,000 nodes, which would take"),
        (f"--layers {HUGE}", "--layers must be at most"),
        ("--dropout 1", r"dropout, the share that is zeroed, must be in \[0, 1\), not 1.0"),
        ("--dropout -0.1", "dropout, the share that is zeroed, must be in"),
        ("--recurrent-dropout 1.5", "recurrent_dropout, the share that is zeroed, must be in"),
        ("--recurrent-dropout inf", "recurrent_dropout, the share that is zeroed, must be in"),
        ("--initial-state random", "invalid choice: 'random'"),
        ("--optimizer adamm", "there is no optimizer 'adamm'.*Did you mean adam"),
        ("--optimizer 'adam(rate=-1)'", "rate must be > 0, not -1"),
        ("--optimizer 'adam(0.1)'", "write settings of optimizers by name"),
        ("--optimizer 'adam(rate=1, rate=2)'", "says rate twice; leave out one"),
        ("--optimizer 'adam(rate={0: 1, 0: 2})'", "says 0 twice; leave out one"),
        (f"--optimizer 'adam(rate=1{'0' * 400})'", "is larger than any setting"),
        (f"--optimizer 'hf(damping=1{'0' * 400})'", "is larger than any setting"),
        (f"--optimizer 'adam({'x' * 5000})'", r"x\.\.\.x\S* is no setting"),
        ("--optimizer 'adam(speed=1)'", "unexpected keyword argument 'speed'"),
        ("--optimizer 'adam(rate=0.1'", "cannot be read; write settings as in Python"),
        ("--optimizer 'adam(rate=0.1)' --rate 0.2", "both say rate; leave out one"),
        ("--optimizer 'hf(backtrack=\"no\")'", "HessianFree: backtrack must be True or False, not 'no'"),
        ("--optimizer 'hf(backtrack=1)'", "HessianFree: backtrack must be True or False, not 1"),
        ("--optimizer 'hf(warm_start=(0.5, 0.5))'", r"warm_start must be in \[0, 1\], not \(0.5, 0.5\)"),
        ("--optimizer 'hf(preconditioner=True)'", r"preconditioner must be in \[0, 1\], not True"),
        (f"--cell '{'Residual(' * 60}Bidirectional(GRU(4)){')' * 60}'", "both say how many units|Residual"),
        ("--rate 0", "--rate must be a finite number > 0, not 0"),
        ("--rate inf", "--rate must be a finite number > 0, not inf"),
        ("--rate 0.1 --optimizer lbfgs", "--rate is not for --optimizer lbfgs"),
        ("--schedule 'Warmup(500)' --optimizer lbfgs", "--schedule is a factor on a rate, and --optimizer lbfgs has"),
        ("--average 1.5", r"average must be in \[0, 1\], not 1.5"),
        ("--average -1", r"average must be in \[0, 1\], not -1"),
        ("--schedule 'warmup(500)'", "there is no schedule 'warmup'.*Did you mean Warmup"),
        ("--schedule 'Warmup(500) then Cosine(9)'", "cannot be read; write it as in Python: 'Warmup"),
        ("--schedule 'Warmup(500'", "cannot be read; write it as in Python: 'Warmup"),
        ("--schedule 0.5", "'0.5' is no schedule; one is e.g. 'Warmup"),
        ("--schedule Warmup", "Warmup is no setting; one is a number.*or a schedule, e.g. Warmup"),
        ("--schedule 'Warmup(0)'", "Warmup: steps must be a whole number >= 1, not 0"),
        ("--schedule 'Warmup(5, 6, 7)'", "Warmup: too many positional arguments; its settings: Warmup"),
        ("--schedule 'Cosine(9, final=2)'", r"Cosine: final must be in \[0, 1\), not 2"),
        ("--schedule 'OneCycle(1)'", "1 steps are too few to go up and down"),
        ("--schedule 'ExponentialDecay(1.5)'", r"decay must be in \(0, 1\], not 1.5"),
        ("--schedule 'OnPlateau(0.5).then(Cosine(9))'", "has no last step; say when the next one begins"),
        ("--schedule 'Warmup(5).then(\"x\")'", "then: following must be a Schedule or a number, not 'x'"),
        ("--schedule 'Warmup(5).until(9)'", "is no setting; schedules are multiplied, and have then, by_epoch"),
        ("--schedule 'Warmup(5) + Cosine(9)'", "is no setting; one is a number"),
        ("--schedule '2 * len(3)'", "there is no schedule 'len'"),
        ("--schedule '(1, 2) * Warmup(5)'", "is no setting; schedules are multiplied"),
        ("--schedule='-1 * Warmup(5)'", "must be of factors >= 0, and not always 0"),
        ("--optimizer 'adam(rate=OnPlateau())'", "an optimizer does not know validated costs"),
        ("--optimizer 'adam(rate=Cosine(9).by_epoch())'", "an optimizer does not know epochs"),
        ("--optimizer 'adam(rate=Warmup(9))' --rate 0.2", "both say rate; leave out one"),
        ("--clip-norm -1", "--clip-norm must be > 0, or 0 for no limit, not -1"),
        ("--clip-norm 1 --optimizer hf", "--clip-norm is not for --optimizer hf"),
        ("--clip-values -1", "--clip-values must be > 0, or 0 for no limit, not -1"),
        ("--clip-values 1 --optimizer hf", "it is for first-order optimizers"),
        ("--time 0", "time must be a whole number >= 1, not 0"),
        (f"--time {LARGE}", "fewer than one batch needs"),
        ("--batch 0", "batch must be a whole number >= 1, not 0"),
        (f"--batch {LARGE}", "fewer than one batch needs"),
        ("--stride 0", "stride must be a whole number >= 1, not 0"),
        ("--stride 9", "stride must be at most time, 5, not 9"),
        ("--stride 2 --gradient-batches 2", "stride is for pieces that carry their states"),
        ("--gradient-batches 0", "gradient_batches must be a whole number >= 1, not 0"),
        (f"--gradient-batches {LARGE}", "fewer than a step needs"),
        ("--curvature-batches 2", "--curvature-batches is for independent sequences"),
        ("--curvature-batches 9 --optimizer hf --gradient-batches 2", "curvature_batches must be at most"),
        ("--unscored 2", "--unscored is for independent sequences"),
        ("--gap 3", "--gap is about a block that --fold names"),
        ("--fold 6/5", "--fold must be K/N, such as 1/5"),
        ("--fold 1", "--fold must be K/N, such as 1/5"),
        ("--fold 1/1", "--fold must be K/N, such as 1/5"),
        ("--fold 1/2 --gap -1", "--gap must be"),
        ("--fold 1/2 --gap 99999", "leave none to train"),
        ("--shares 3", "shares must divide the batch"),
        ("--unscored 5 --gradient-batches 2", "unscored must be in 0 ... 4, not 5"),
        ("--frozen layer7.*", "frozen names 'layer7.*', but no parameter is called so; there are layer0."),
        ("--frozen *", "frozen leaves no parameter, so that nothing would be learned"),
        ("--l2 -1", "l2 must be a finite number >= 0, not -1"),
        ("--l2 inf", "l2 must be a finite number >= 0, not inf"),
        ("--log-every 0", "log_every must be a whole number >= 1, not 0"),
        ("train none.npz", "there is no file none.npz"),
        ("train text.npz", "text.npz is no file of arrays"),
        ("train objects.npz", "objects.npz is no file of arrays"),
        ("train infinite.npz", "all must be finite"),
        ("train text.mid", "text.mid is no file of MIDI|reading text.mid needs mido"),
        ("train text.parquet --target b", "text.parquet is no table of Parquet|reading text.parquet needs pyarrow"),
        ("train empty.csv", "must have a row of names, and rows of numbers"),
        ("train table.csv", "say which columns are targets; it has who, a, b"),
        ("train table.csv --target c", "has no column 'c'; it has who, a, b"),
        ("train table.csv --target b", "row 1 of the column 'who' is 'ann'"),
        ("train table.csv --target b --inputs c", "has no column 'c'"),
        ("train table.csv --target b --inputs a,", "--inputs must be different names"),
        ("train table.csv --target b --inputs a,a", "--inputs must be different names"),
        ("train table.csv --target b --case d", "has no column 'd'"),
        ("train table.csv --target b --weights d", "has no column 'd'"),
        ("train numeric.csv --target b --pieces 30", "no case has the 30 rows of a piece"),
        ("train table.csv --target b --case who --pool last --pieces 1", "a target for a whole case cannot be cut"),
        ("train table.csv --target b --case who --lengths a", "an array of lengths is a matter of arrays"),
        ("train numbers.npz --lengths x", "lengths must be whole numbers"),
        ("train numbers.npz --lengths z", "has no array 'z'"),
        ("train numbers.npz --buckets 0", "buckets must be a whole number >= 1, not 0"),
        ("train numbers.npz --pool first", "--pool must be one of last, mean, max, not first"),
        ("train numbers.npz --pool last", "targets must be"),
        ("train text.txt --pool last", "--pool means nothing to a text"),
        ("train text.txt --lengths y", "--lengths means nothing to a text"),
        ("train text.txt --buckets 3", "--buckets means nothing to a text"),
        ("train holes.csv --target b", "row 2 of the column 'b' is ''"),
        ("train short.csv --target b", "row 2 has 1 values for 2 columns"),
        ("train twice.csv --target a", "two columns have the same name"),
        ("train holes.csv --target b --inputs a,b", "'b' is among the inputs and among the targets"),
        ("train numbers.npz --target t", "has no array 't'; it has labels, s, w, x, y"),
        ("train numbers.npz --inputs a", "has no array 'a'"),
        ("train numbers.npz --weights x", "weights must be"),
        ("train numbers.npz --case w", "a column of cases is of tables"),
        ("train numbers.npz --pieces 0", "--pieces must be a whole number >= 1, not 0"),
        ("train numbers.npz --pieces 9", "no case has the 9 steps of a piece"),
        ("train numbers.npz --target labels --pieces 2", "a target for a whole case cannot be cut into pieces"),
        ("train numbers.npz --loss cubed", "--loss must be one of softmax, sigmoid, squared, ctc"),
        ("train numbers.npz --loss softmax", "targets must be"),
        ("train numbers.npz --fold 7/7", "at most as many"),
        ("train numbers.npz --fold 1/2 --gap 1", "a gap of 1 is beside a block of time"),
        ("train numbers.npz --gap 1", "--gap is about a block that --fold names"),
        ("train numbers.npz --time 3", "--time means nothing to the sequences of numbers.npz"),
        ("train numbers.npz --unknown x", "--unknown means nothing"),
        ("train text.txt --target y", "--target means nothing to a text"),
        ("train text.txt --loss softmax", "--loss means nothing to a text"),
        ("train text.txt --inputs y", "--inputs means nothing to a text"),
        ("train text.txt --weights y", "--weights means nothing to a text"),
        ("train text.txt --case y", "--case means nothing to a text"),
        ("train text.txt --pieces 3", "--pieces means nothing to a text"),
        ("train task:nothing(3)", "there is no problem task:nothing"),
        ("train task:addition", "write task:addition"),
        ("train task:addition(1)", "addition"),
        ("train task:addition(20) --valid text.txt", "--valid means nothing to task:addition"),
        ("train task:addition(20) --stride 3", "--stride means nothing"),
        ("--goal nan", "goal must be a number|--goal must be a number, not nan"),
        ("--goal low", "invalid float value: 'low'"),
        ("train --resume run --log-every 3", "leave out --log-every"),
        ("--epochs 0", "epochs must be a whole number >= 1, not 0"),
        ("--steps 0", "steps must be a whole number >= 1, not 0"),
        ("--core-seconds 0", "core_seconds must be .*> 0"),
        (f"--epochs {HUGE}", "epochs must be at most"),
        ("--threads 0", "--threads must be a whole number >= 1, not 0"),
        ("--backend cobol", "invalid choice: 'cobol'"),
        ("--memory 3 --out new/deep", "memory"),
        ("--memory lots", "--memory must be sqrt, or a number of bytes, not lots"),
        ("--memory \N{ARABIC-INDIC DIGIT THREE}", "--memory must be sqrt, or a number of bytes"),
        ("--memory 0", "--memory must be sqrt, or a number of bytes, not 0"),
        ("--memory -5", "--memory must be sqrt, or a number of bytes|expected one argument"),
        ("--seed -1", "seed must be a whole number >= 0, not -1"),
        (f"--seed {HUGE}", "seed must be at most"),
        ("--sample -1", "--sample must be a whole number >= 0, not -1"),
        (f"--sample {LARGE}", "--sample must be at most 100,000 characters"),
        ("--out run", "run holds a run already"),
        ("--out text.txt", "text.txt is no folder"),
        ("--out text.txt/deep/x", "text.txt is no folder"),
        ("--out /dev/full", "/dev/full is no folder"),
        ("--out loop", "is no folder"),
        (f"--out {'y' * 300}", "File name too long"),
        ("train --resume none", "none cannot be resumed. There is no checkpoint in it"),
        ("train --resume folder", "folder cannot be resumed. There is no checkpoint in it"),
        ("train --resume text.txt", "text.txt cannot be resumed"),
        ("train --resume loop", "loop cannot be resumed"),
        ("train --resume=--", "-- cannot be resumed"),
        ("train --resume ''", "--resume is empty"),
        ("train --resume 'two\nlines'", r"two\\nlines cannot be resumed"),
        ("train --resume=folder/'two\n'/lines", r"folder/two\\n/lines cannot be resumed"),
        ("train --resume run --units 5", "leave out --units"),
        ("train text.txt --start model.safetensors --units 5", "holds, so leave out --units"),
        ("train text.txt --start model.safetensors --cell GRU", "holds, so leave out --cell"),
        ("train text.txt --start model.safetensors --cell 'cells.py:Typo(4)'", "holds, so leave out --cell"),
        ("train text.txt --start none.safetensors", "none.safetensors"),
        ("train text.txt --start picture.png", "picture.png is not a graphnet model"),
        ("train valid.txt --start model.safetensors --unknown xy", "unknown='xy' must itself be one character"),
        ("train numbers.npz --start model.safetensors", "inputs must be \\(time, batch\\)"),
        ("train task:addition(20) --start model.safetensors", "addition needs a network with inputs=2"),
        ("train --resume run --seed 0 --skip", "leave out --seed, --skip"),
        ("train --resume damaged", r"damaged cannot be resumed. .* is not a graphnet model"),
        ("train valid.txt --resume run", "cannot be continued"),
        ("train none.txt --resume run", "there is no file none.txt here"),
        ("--checkpoint-seconds -1", "--checkpoint-seconds must be >= 0, not -1"),
        ("--checkpoint-seconds nan", "--checkpoint-seconds must be a number, not nan"),
    ],
    "sample": [
        ("sample none.safetensors", "there is no file none.safetensors"),
        ("sample text.txt", "is not a graphnet model"),
        ("sample picture.png", "is not a graphnet model"),
        ("sample binary", "binary (is not a graphnet model|is damaged)"),
        ("sample empty", "empty is not a graphnet model"),
        ("sample 'two\nlines'", r"there is no file two\\nlines"),
        ("sample 'a\x1b]0;owned\x07'", r"there is no file a\\x1b\]0;owned\\x07"),
        ("sample folder", "folder is a folder; name a file in it"),
        ("sample run", "run is a folder; name a file in it"),
        ("sample zero", "zero is a device; name a file"),
        ("sample loop", "Too many levels of symbolic links"),
        ("sample pipe", "pipe is a pipe; name a file"),
        ("sample cut.safetensors", "is damaged or cut short"),
        ("sample flipped.safetensors", "is damaged"),
        ("sample vectors.safetensors", "has no vocabulary: it was not trained on text"),
        ("sample", "the following arguments are required: model"),
        ("sample own.safetensors", r"own.safetensors .*Own"),
        ("sample nan.safetensors", "nan.safetensors: 1 of .* of the weight output.b_o are nan or infinite"),
        ("sample --", "the following arguments are required: model"),
        ("--cell LSTN", "there is no cell 'LSTN'"),
        ("--cell=--", "there is no cell '--'"),
        ("--cell raises.py:Cell", "raises.py cannot be imported: Odd: two lines"),
        ("--length 0", "--length must be at least 1, not 0"),
        (f"--length {HUGE}", "length must be at most"),
        ("--temperature -1", "temperature must be >= 0 .* not -1"),
        ("--temperature 0.5 --argmax", "--argmax is temperature 0, and --temperature says another"),
        ("--warm-up Zebra", "has not seen in training: 'Z' 'b'"),
        ("--warm-up a\udcff", r"has not seen in training: '\\udcff'"),
        (f"--warm-up {'φ' * 20000}", "has not seen in training: 'φ'"),
        ("--unknown a", "--unknown says how --warm-up is read"),
        ("--unknown zz --warm-up cat", "unknown='zz' must itself be one character"),
        ("--unknown '' --warm-up cat", "unknown='' must itself be one character"),
        ("--seed -1", "seed must be a whole number >= 0, not -1"),
        (f"--seed {HUGE}", "seed must be at most"),
    ],
    "evaluate": [
        ("evaluate model.safetensors", "the following arguments are required: data"),
        ("evaluate numbers.safetensors text.txt", "has no vocabulary: it was not trained on text, but on sequences"),
        ("evaluate numbers.safetensors numbers.npz --context 3", "--context is about texts"),
        ("evaluate numbers.safetensors numbers.npz --target s", "targets must be"),
        ("evaluate numbers.safetensors numbers.npz --inputs y", "inputs must be"),
        ("evaluate numbers.safetensors numbers.npz --weights x", "weights must be"),
        ("evaluate numbers.safetensors numbers.npz --lengths x", "lengths must be whole numbers"),
        ("evaluate numbers.safetensors numbers.npz --case x", "a column of cases is of tables"),
        ("evaluate numbers.safetensors numbers.npz --pieces 9", "no case has the 9 steps"),
        ("--target y", "--target means nothing to a text"),
        ("evaluate none.safetensors text.txt", "there is no file none.safetensors"),
        ("evaluate text.txt model.safetensors", "text.txt is not a graphnet model"),
        ("evaluate vectors.safetensors text.txt", "has no vocabulary"),
        ("evaluate nan.safetensors text.txt", "nan.safetensors: 1 of the .* are nan or infinite"),
        ("evaluate model.safetensors none.txt", "there is no file none.txt"),
        ("evaluate model.safetensors picture.png", "is not utf-8 text|is a binary file"),
        ("evaluate model.safetensors zero", "it is a device"),
        ("evaluate model.safetensors short.txt", "with 50 of context there is nothing to score"),
        ("evaluate model.safetensors greek.txt", "has not seen in training: 'φ'"),
        ("--cell none.py:X", "there is no file none.py"),
        ("--context -1", "context must be a whole number >= 0, not -1"),
        (f"--context {LARGE}", "there is nothing to score"),
        ("--lanes 0", "--lanes must be a whole number >= 1, not 0"),
        (f"--lanes {HUGE}", "--lanes must be at most"),
        ("--lanes 3 --dynamic 0.1", "in one lane; leave --lanes 3 out"),
        ("--dynamic 0", "--dynamic, the rate, must be a finite number > 0, not 0"),
        ("--dynamic inf", "--dynamic, the rate, must be a finite number > 0, not inf"),
        ("--dynamic 0.1 --colour", "leave --dynamic out"),
        ("--dynamic-time 5", "--dynamic-time says how --dynamic works"),
        ("--dynamic-time 0 --dynamic 0.1", "--dynamic-time must be a whole number >= 1, not 0"),
        (f"--dynamic-time {LARGE} --dynamic 0.1", "unrolling over 99,999,999 steps makes about .* would take"),
        ("--dynamic-decay 0.1", "--dynamic-decay says how --dynamic works"),
        ("--dynamic-decay 1 --dynamic 0.1", r"--dynamic-decay must be in \[0, 1\), not 1"),
        ("--unknown zz", "unknown='zz' must itself be one character"),
        ("--unknown ''", "unknown='' must itself be one character"),
        ("--encoding klingon", "'klingon' is not an encoding"),
        ("--encoding utf-32", "is not utf-32 text"),
        ("--save new.pdf", "--save new.pdf: the name of a page must end in one of .html, .svg, .txt, .ansi"),
        ("--save none/new.html", "there is no folder"),
        ("--save folder.html", "this is a folder"),
        ("--save full.html", "this is a device"),
        ("--save text.txt", "--save text.txt would overwrite the data; name another file"),
        ("--save ./hard.txt", "would overwrite the data; name another file"),
        ("--save valid.txt", "this file is there already, and is not such a .txt"),
        ("--save new.svg --costs ./new.svg", "--save and --costs are the same file"),
        ("--costs picture.svg", "is there already, and is not such a .svg"),
        ("--at 5", "--at says how --colour or --save works"),
        ("--at -1 --colour", "--at must be a whole number >= 0, not -1"),
        (f"--at {LARGE} --colour", "there is no excerpt at 99,999,999; give a smaller --at"),
        ("--length 5", "--length says how --colour or --save works"),
        ("--length 0 --colour", "--length must be a whole number >= 1, not 0"),
        ("--theme dark", "--theme says how --colour or --save works"),
        ("--theme purple --colour", "invalid choice: 'purple'"),
        ("--costs new.txt", "--costs new.txt: the name of a chart must end in one of"),
        ("--costs none/new.svg", "there is no folder"),
        ("--costs loop.svg", "this is a link that leads in a circle"),
        ("--split", "--split says how --costs works"),
    ],
    "draw": [
        ("draw 'Warmup(0)' --out new.svg", "Warmup: steps must be a whole number >= 1, not 0"),
        ("draw 'OnPlateau()' --out new.svg", "follows validated costs"),
        ("draw '2 * Warmup(5)' --out new.dot", "--out new.dot: the name of a chart must end in"),
        ("draw", "the following arguments are required: what"),
        ("draw LSTN", "there is no cell 'LSTN'"),
        ("draw ''", "what is empty"),
        ("draw none.safetensors", "there is no file none.safetensors"),
        ("draw text.safetensors", "is not a graphnet model"),
        ("draw folder", "folder is a folder, and there is no run in it"),
        ("draw folder.svg --out new.svg", "there is no run in it"),
        ("draw text.txt", "text.txt is a file, and no cell"),
        ("--out picture.svg", "picture.svg: this file is there already, and is not such a .svg"),
        ("--out page.html", "is there already, and is not such a .html"),
        ("draw run --chart samples --out text.txt", "is there already, and is not such a .txt"),
        ("draw run --out picture.svg", "is there already, and is not such a .svg"),
        ("--show dump --out run", "this folder is there already, and has no explain.txt in it"),
        ("draw none.jsonl", "history 'none.jsonl' cannot be read"),
        ("draw zero.jsonl", "history 'zero.jsonl' cannot be read: it is a device"),
        ("draw text.jsonl", "line 1, is not JSON"),
        ("draw picture.jsonl", "cannot be read|is not JSON"),
        ("draw empty.jsonl", "history|nothing to draw|no "),
        ("draw run LSTM", "only runs are drawn together, and 'LSTM' is neither"),
        ("draw run run --chart weights", "--chart weights shows one run, not 2"),
        ("draw 'LSTM(units=0)'", "units must be a whole number >= 1, not 0"),
        ("draw 'LSTM(units=1000000000)'", "weights .* would take .* of memory"),
        ("draw './x/y'", "there is no file or folder './x/y' here"),
        ("--chart curve", "--chart curve is of a run"),
        ("draw run --chart flight --out none/new.svg", "there is no folder"),
        ("draw run --chart pie", "invalid choice: 'pie'"),
        ("--out new.xyz", "suffix must be one of|must end in"),
        ("--out none/new.svg", "--out none/new.svg: there is no folder"),
        ("--out folder.svg", "this is a folder; name a file"),
        ("--out full.svg", "this is a device; name a file"),
        ("--out new.svg/", "a name that ends in / is that of a folder; leave it out"),
        ("--out pipe.svg", "this is a pipe; name a file"),
        ("draw pipe.jsonl --out new.svg", "history 'pipe.jsonl' is a pipe that nothing was written to"),
        ("draw pipe --out new.svg", "pipe is a pipe, and no cell; give a model file"),
        ("draw ./loop --out new.svg", "loop is a link that leads in a circle, and no cell"),
        ("draw pipe.safetensors --out new.svg", "pipe.safetensors is a pipe; name a file"),
        ("--out loop.svg", "this is a link that leads in a circle"),
        ("--out pipe", "this is a pipe|must end in"),
        ("--out ''", "--out is empty"),
        ("draw run --out new.html", "must end in one of"),
        ("draw run --out none/new.svg", "there is no folder"),
        ("--show explorer", "must end in .html"),
        ("--show explorer --out none/x.html", "there is no folder"),
        ("--show dump", "is to be a folder"),
        ("draw LSTM --show dump --out text", "is no folder"),
        ("--show everything", "invalid choice: 'everything'"),
        ("draw run --show mirror", "--show is of cells and models, and means nothing for runs"),
        ("--style baroque", "invalid choice: 'baroque'"),
        ("draw run --style full", "--style is of cells and models"),
        ("--cell GRU", "--cell says of which cell a model file is made"),
        ("draw model.safetensors --cell raises.py:X", "raises.py cannot be imported"),
        ("--theme purple", "invalid choice: 'purple'"),
        ("draw run --theme dark", "--theme is of cells and models"),
        ("--time 0", "--time must be at least 1, not 0"),
        (f"--time {LARGE} --show inside", "unrolling over 99,999,999 steps makes about .* would take"),
        (f"--time {HUGE} --show inside", "time must be at most"),
        ("draw run --time 4", "--time is of cells and models"),
    ],
    "check": [
        ("check", "the following arguments are required: cell"),
        ("check LSTN", "there is no cell 'LSTN'"),
        ("check ''", "cells is empty"),
        ("check none.py:Cell", "there is no file none.py"),
        ("check raises.py:Cell", "raises.py cannot be imported: Odd: two lines"),
        ("check cells.py:Stateless", "Stateless"),
        ("check cells.py:InitRaises", r"InitRaises cannot be made: Odd: in __init__ \(\S*cells.py:\d+\)"),
        ("check cells.py:InitExits", "InitExits cannot be made: SystemExit: 3"),
        ("check cells.py:InitSilent", r"InitSilent cannot be made: Unprintable \("),
        ("check cells.py:Recursive", "RecursionError in Recursive.step"),
        ("check cells.py:Typo", "AttributeError in Typo.step"),
        ("check cells.py:Settings", "Settings"),
        ("check LSTM LSTN", "there is no cell 'LSTN'"),
        ("check 'LSTM(units=0)'", "units must be a whole number >= 1, not 0"),
    ],
    "cells": [
        ("cells LSTN", "there is no cell 'LSTN'"),
        ("cells ''", "cells is empty"),
        ("cells cells.py:Nothing", "Nothing cannot be made: to call it gives NoneType, not Nothing"),
        ("cells cells.py:Opaque", "the settings of Opaque cannot be read: TypeError: unexp"),
        ("cells cells.py:Hides", r"RuntimeError: no such thing \(\S*cells.py:\d+\); --debug"),
        ("cells cells.py:Unshown", r"RuntimeError: not shown \(\S*cells.py:\d+\); --debug"),
        ("cells text.txt", "text.txt is a file, and no cell"),
        ("cells 'LSTM(units=2147483647)'", "weights .* would take .* of memory"),
        ("cells 'TensorRNN(units=2147483647)'", "weights .* would take .* of memory"),
        ("cells \"GNN(frequencies='abc')\"", "GNN: frequencies must be a list of numbers.*not 'abc'"),
        ("cells 'GNN(frequencies=1)'", "GNN: frequencies must be a list of numbers"),
        ("cells 'LSTM(units=4,units=5)'", "says units twice; leave out one"),
        ("cells 'Residual(LSTM(units=4,units=5))'", "says units twice; leave out one"),
        (f"cells '{'x' * 5000}'", "there is no cell"),
        (f"cells 'LSTM(units={'1+' * 500}1)'", "is no setting"),
        ("cells GRU none.py:X", "there is no file none.py"),
        ("cells 'GRU(units=many)'", "many is no setting"),
        ("cells 'GRU(1, 2)'", "GRU: too many positional arguments"),
        ("cells 'GRU(*[1])'", "is no setting"),
        ("cells 'GRU(**{})'", "write settings one by one"),
        ("cells 'HyperRHN(depth=1000000000)'", "depth = 1,000,000,000 makes about"),
        ("cells 'NARX(taps=1000000000)'", "taps = 1,000,000,000 makes about"),
        ("cells 'GNN(units=1000000000)'", "a random graph of 10,000,000,000 edges would take"),
        ("cells 'EchoState(units=1000000)'", "weights .* would take .* of memory"),
        ("cells 'EchoState(leak=nan)'", "nan is no setting.*cell with parentheses$"),
        ("cells 'EchoState(leak=none)'", r"none is no setting.*\. None may be meant$"),
    ],
    "export": [
        ("export", "the following arguments are required: model"),
        ("export model.safetensors", "the following arguments are required: --to, --out"),
        ("export none.safetensors --to torch --out new.safetensors", "there is no file none.safetensors"),
        ("export text.txt --to torch --out new.safetensors", "is not a graphnet model"),
        ("export nan.safetensors --to onnx --out new.onnx", "nan.safetensors: 1 of the .* are nan or infinite"),
        ("export rhn.safetensors --to torch --out new.safetensors", "RHN"),
        ("--to tensorflow", "invalid choice: 'tensorflow'"),
        ("--out model.safetensors", "would overwrite the model; name another file"),
        ("--out hard.safetensors", "would overwrite the model; name another file"),
        ("--out new.onnx", "a file for torch must end in .safetensors"),
        ("--out text.txt", "a file for torch must end in .safetensors"),
        ("--out run/history.jsonl", "a file for torch must end in .safetensors"),
        ("--to onnx --out new.safetensors", "a file for onnx must end in .onnx"),
        ("--to onnx --out text.onnx", "is there already, and is not such a .onnx"),
        ("--out run/model.safetensors", "this file is there already, and is a graphnet model"),
        ("--out text.safetensors", "this file is there already, and is not such"),
        (f"{TORCH} --prefix rnn", "prefix must be a module's name with a dot after it, as 'rnn.', or '', not 'rnn'"),
        (f"{TORCH} --prefix ..", "prefix must be a module's name"),
        (f"{TORCH} --prefix=--", "prefix must be a module's name"),
        (f"{TORCH} --output-prefix rnn.", "both 'rnn.'; two modules have two names"),
        (f"{TORCH} --output-prefix out", "output_prefix must be a module's name"),
        ("--to c --out text.txt", "text.txt is a file, and no folder; name another, or a file that ends in .c"),
        ("--to c --out model.safetensors", "would overwrite the model; name another file"),
        ("--to c --out new --time 0", "time must be a whole number >= 1, not 0"),
        ("--to c --out new --batch -1", "batch must be a whole number >= 1, not -1"),
        ("--to c --out new --lengths", "--lengths means nothing with --to c"),
        ("--to c --out new --prefix x.", "--prefix means nothing with --to c"),
        ("--time 3", "--time means nothing with --to torch"),
        ("--out ./model.safetensors", "would overwrite the model"),
        ("--out none/such/x.safetensors", "there is no folder"),
        ("--out folder.safetensors", "this is a folder"),
        ("--out full.safetensors", "this is a device"),
        ("--out /dev/null", "must end in .safetensors"),
        ("--out loop.safetensors", "this is a link that leads in a circle"),
        ("--cell LSTN", "there is no cell 'LSTN'"),
        ("--prefix rnn. --to onnx", "--prefix means nothing with --to onnx"),
        ("--output-prefix o. --to onnx", "--output-prefix means nothing with --to onnx"),
        ("--time 5", "--time means nothing with --to torch"),
        ("--batch 5", "--batch means nothing with --to torch"),
        ("--initial zero", "--initial means nothing with --to torch"),
        ("--initial random", "invalid choice: 'random'"),
    ],
    "control": [
        ("control reach --out new", "invalid choice: 'reach'"),
        ("--optimizer newton", "there is no optimizer 'newton'"),
        ("--rate 1 --optimizer lbfgs", "--rate is not for --optimizer lbfgs"),
        ("--clip-norm 1", "--clip-norm is not for --optimizer hf"),
        ("--clip-values 1", "clip_values would make the gradient another function's"),
        ("--clip-values -1", "--clip-values must be > 0, or 0 for no limit"),
        ("--frozen layer7.*", "frozen names 'layer7.*', but no parameter is called so"),
        ("--units 0", "units must be a whole number >= 1, not 0"),
        (f"--units {LARGE}", "weights .* would take .* of memory"),
        ("--movements -1", "--movements must be a whole number >= 1, not -1"),
        ("--gradient-batches 2", "CenterOut has the same movements in every batch"),
        ("control postural --movements 5 --out new", "--movements is not for postural"),
        ("--plant-noise 0.1", "--plant-noise is for ddn alone"),
        ("control ddn --plant-noise -1 --out new", "plant_noise must be a finite number >= 0, not -1"),
        ("--epoch-steps 0", "steps must be a whole number >= 1, not 0"),
        ("--epochs 0", "epochs must be a whole number >= 1, not 0"),
        ("--core-seconds 0", "core_seconds must be"),
        ("--seed -1", "seed must be a whole number >= 0, not -1"),
        ("--threads 0", "threads must be a whole number >= 1, not 0"),
        ("--backend cobol", "invalid choice: 'cobol'"),
        ("--memory lots", "memory must be"),
        ("--checkpoint-seconds -1", "checkpoint_seconds must be a finite number >= 0, not -1"),
        ("--steps 0", "steps must be a whole number >= 1, not 0"),
        ("--l2 -1", "l2 must be a finite number >= 0, not -1"),
        ("--dtype int8", "invalid choice: 'int8'"),
        ("--out text.txt", "text.txt is no folder"),
        ("--out text.txt/x", "text.txt is no folder"),
        ("--record none/x.jsonl", "there is no folder"),
        ("--record text.txt", "the name of a record must end in .jsonl"),
    ],
    "tasks": [
        ("--task sorting", "invalid choice: 'sorting'"),
        ("--length 3", "length must be a whole number >= 10, not 3"),
        (f"--length {LARGE}", "sequences of .* steps would take .* of memory"),
        (f"--length {HUGE}", "length must be at most"),
        ("--optimizer newton", "there is no optimizer 'newton'"),
        ("--optimizer 'hf(damping=-1)'", "damping must be"),
        ("--no-structural --optimizer adam", "--no-structural is only for --optimizer hf"),
        ("--optimizer 'hf(damping=1,damping=2)'", "says damping twice; leave out one"),
        ("--no-structural --optimizer 'hf(structural=1)'", "both say structural"),
        ("--rate -1 --optimizer adam", "rate must be"),
        ("--clip-norm 1", "--clip-norm is not for --optimizer hf"),
        ("--clip-norm -1 --optimizer adam", "--clip-norm must be > 0, or 0 for no limit, not -1"),
        ("--schedule 'Warmup(5)' --optimizer lbfgs", "is a factor on a rate, and --optimizer lbfgs has none"),
        ("--schedule 'Warmup(5' --optimizer adam", "cannot be read; write it as in Python"),
        ("--units 0", "units must be a whole number >= 1, not 0"),
        (f"--units {LARGE}", "weights .* would take .* of memory"),
        ("--batch 0", "batch must be a whole number >= 1, not 0"),
        (f"--batch {LARGE}", "sequences of .* steps would take .* of memory"),
        ("--gradient-batches 0", "gradient_batches must be a whole number >= 1, not 0"),
        (f"--gradient-batches {LARGE}", "sequences of .* steps would take .* of memory"),
        ("--steps 0", "--steps and --test-every must be at least 1"),
        ("--test 0", "test must be a whole number >= 1, not 0"),
        (f"--test {LARGE}", "sequences of .* steps would take .* of memory"),
        ("--test-every 0", "--steps and --test-every must be at least 1"),
        ("--backend cobol", "invalid choice: 'cobol'"),
        ("--threads 0", "--threads must be a whole number >= 1, not 0"),
        ("--seed -1", "seed must be a whole number >= 0, not -1"),
        ("--picture x.txt", "must end in one of .svg, .png, .pdf"),
        ("--picture none/x.svg", "there is no folder"),
        ("--picture picture.svg", "is there already, and is not such a .svg"),
        ("--out text.txt", "text.txt is no folder"),
        ("--out text.txt/x", "text.txt is no folder"),
    ],
    "complete": [
        ("--cell LSTN", "there is no cell 'LSTN'"),
        ("--unknown zz --start cat", "unknown='zz' must itself be one character"),
        ("complete none.safetensors", "there is no file none.safetensors"),
        ("complete vectors.safetensors", "this network has no vocabulary"),
        ("--length 0", "length must be a whole number >= 1, not 0"),
        ("--temperature 0", "temperature must be a finite number > 0"),
        ("--pattern (a", r"the pattern '\(a' cannot be read at character 3: a \( is not closed"),
        ("--pattern ab", "no text of 5 characters that the model can write matches"),
        ("--ending φ", "has not seen in training: 'φ'"),
        ("--start φ", "has not seen in training: 'φ'"),
        ("--width 5", "--width is of --method beam, not of exact"),
        ("--method beam --seed 1", "--seed is of --method exact or weighted, not of beam"),
        ("--method beam --count 99", "a beam of width 64 finds no 99 texts"),
        ("--stop-line", "stop must be one character that the model knows"),
        ("--seed -1", "seed must be a whole number >= 0"),
        ("--attempts 3 --count 4", "4 texts take at least as many attempts"),
    ],
    "timelag": [
        ("--cell LSTN", "there is no cell 'LSTN'"),
        ("--steps 0", "steps must be a whole number >= 1"),
        ("--seed -1", "seed must be a whole number >= 0"),
        ("--open φ", "has not seen in training: 'φ'"),
        ("--figure none/new.svg", "there is no folder"),
        ("--out none/new.jsonl", "there is no folder"),
        ("--warm-up φ", "has not seen in training: 'φ'"),
        ("--control φ", "has not seen in training: 'φ'"),
        ("timelag", "name a model, or a text to write"),
        ("timelag none.safetensors", "there is no file none.safetensors"),
        ("timelag vectors.safetensors", "this network has no vocabulary"),
        ("timelag model.safetensors", "has not seen in training: '\\['"),
        ("timelag model.safetensors model.safetensors --open a --control b --brackets am", "a model is named twice"),
        ("--smooth 0", "smooth must be a whole number >= 1, not 0"),
        ("--runs 0", "runs must be a whole number >= 1"),
        ("--brackets abc", "--brackets must be two characters"),
        ("--brackets aa", "brackets must be two different characters"),
        ("--ideal 2", "--ideal is a line of --figure"),
        ("--characters 5", "--characters is of the text of --write-text"),
        ("--figure new.txt", "must end in one of .svg"),
        ("--out new.txt", "must end in .jsonl"),
        ("--write-text new.txt", "does nothing else; leave"),
        ("timelag --write-text text.txt", "this file is there already"),
        ("timelag --write-text none/new.txt", "there is no folder"),
        ("timelag --write-text new.txt --characters 0", "characters must be a whole number >= 1"),
    ],
    "debag": [
        ("--cell LSTN", "there is no cell 'LSTN'"),
        ("--unknown zz", "unknown='zz' must itself be one character"),
        ("--encoding klingon", "'klingon' is not an encoding that Python knows"),
        ("--seed -1", "seed must be a whole number >= 0"),
        ("debag none.safetensors text.txt", "there is no file none.safetensors"),
        ("debag model.safetensors none.txt", "there is no file none.txt"),
        ("debag vectors.safetensors text.txt", "this network has no vocabulary"),
        ("--bags 99999", "has .* passages of 7, not 99,999"),
        ("--words 10", "words must be at most 9, not 10"),
        ("--context 0", "context must be a whole number >= 1"),
        ("--order 3", "--order is of n-grams; give --split or --ngrams FILE"),
        ("--split --ngrams text.txt", "leave out one"),
        ("--ngrams text.txt --order 99", "order must be at most"),
        ("--ngrams none.txt", "there is no file none.txt"),
        ("--ngrams none/new.txt", "there is no file none/new.txt"),
        ("--out model.safetensors", "would overwrite the model"),
        ("--out new.txt", "must end in .jsonl"),
        ("--out none/new.jsonl", "there is no folder"),
        ("--beam 0", "beam must be a whole number >= 1"),
    ],
    "write": [
        ("write none.safetensors --html", "there is no file none.safetensors"),
        ("write text.txt other.txt --html", "is not a graphnet model"),
        ("write cut.safetensors --html", "cut.safetensors"),
        ("write nan.safetensors --html", "are nan or infinite"),
        ("write vectors.safetensors --html", "this network has no vocabulary"),
        ("write folder --html", "folder is a folder"),
        ("write none/new.txt --html", "there is no folder none for new.txt"),
        ("write model.safetensors folder --html", "folder is a folder"),
        ("write model.safetensors binary --html", "is no text in UTF-8"),
        ("write model.safetensors none/new.txt --html", "there is no folder none for new.txt"),
        ("write model.safetensors zero --html", "it is a device"),
        ("write model.safetensors", "is no terminal, where one could write"),
        ("write model.safetensors a.txt b.txt", "unrecognized arguments: b.txt"),
        ("--cell none.py:Cell", "there is no file none.py"),
        ("--temperature -1", "temperature must be >= 0"),
        ("--seed -1", "seed must be a whole number >= 0, not -1"),
        ("--learn 0", "--learn must be a rate above 0, such as 0.1, not 0"),
        ("--learn -1", "--learn must be a rate above 0"),
        ("--colour", "--colour and --theme are of a terminal; a page has a button"),
        ("--theme dark", "--theme is of --colour; give that, too"),
        ("write model.safetensors --theme pink", "invalid choice: 'pink'"),
    ],
    "predict": [
        ("predict numbers.safetensors numbers.npz", "the following arguments are required: --out"),
        ("predict none.safetensors numbers.npz --out new.npz", "there is no file none.safetensors"),
        ("predict numbers.safetensors none.npz --out new.npz", "there is no file none.npz"),
        ("predict numbers.safetensors text.txt --out new.npz", "sequences are in files of .npz, .csv"),
        ("predict model.safetensors text.txt --out new.npz", "model.safetensors writes text: see the command sample"),
        ("predict numbers.safetensors numbers.npz --out new.txt", "the name of predictions must end in one of"),
        ("predict numbers.safetensors numbers.npz --out none/x.npz", "there is no folder"),
        ("predict numbers.safetensors numbers.npz --out numbers.npz", "would overwrite the data"),
        ("--target a,", "--target must be different names"),
        ("--inputs y", "inputs must be"),
        ("--lengths z", "has no array 'z'"),
        ("predict numbers.safetensors table.csv --out new.csv --weights a", "row 1 of the column 'who'"),
        ("--case x", "a column of cases is of tables"),
        ("--pieces 9", "no case has the 9 steps"),
        ("--cell none.py:Own", "none.py"),
    ],
    "sweep": [
        ("sweep none.toml", "there is no file none.toml"),
        ("sweep folder", "there is no sweep in folder"),
        ("sweep folder --out new", "folder is the folder of a sweep, and --out names another"),
        ("sweep folder --data text.txt", "folder is the folder of a sweep, which has its data"),
        ("--data none.txt", "there is no file none.txt"),
        ("--data none/x.txt", "there is no file none/x.txt"),
        ("--parallel nothing", "joblib cannot use"),
        ("--parallel loky(", "--parallel|loky\\("),
        ("--parallel loky(3)", "say which setting it is"),
        ("sweep text.txt", "text.txt is no TOML"),
        ("sweep binary", "is no TOML"),
        ("sweep zero", "it is a device"),
        ("sweep odd.toml", "train has no setting unit; it has .* Did you mean units"),
        ("sweep recipe.toml other.toml", "unrecognized arguments: other.toml"),
        ("--out text.txt/x", "text.txt is no folder"),
        ("--out text.txt", "text.txt is no folder"),
        ("--out folder/../run", "is there already, and holds no sweep"),
        ("--workers 0", "--workers must be a whole number >= 1, not 0"),
        ("--report x.doc", "the name of a table must end in one of .md, .tex, .csv"),
        ("--report none/x.md", "there is no folder"),
        ("--report notes.md", "is there already, and is not such a .md"),
        ("--html x.txt", "the name of a page must end in .html"),
        ("--figure x.txt", "the name of a chart must end in one of .svg, .png, .pdf"),
        ("--figure none/x.svg", "there is no folder"),
        ("--against units", "--against says how --figure is drawn"),
        ("--by units", "--by says how --figure is drawn"),
        ("--panels units", "--panels says how --figure is drawn"),
        ("--html none/x.html", "there is no folder"),
        ("--html x.html --report x.html", "must end in one of .md, .tex, .csv"),
        ("sweep recipe.toml --out new --only-report", "there is no sweep in new to tell of"),
    ],
}  # fmt: skip
#: Commands that no command is.
NONE = [
    ("", "the following arguments are required: command"),
    ("dance", "invalid choice: 'dance'"),
    ("Train text.txt", "invalid choice: 'Train'"),
    ("--units 5", "invalid choice: '5'"),
    ("--version=5", "ignored explicit argument '5'"),
]


class Bad(NamedTuple):
    """A command line, what it is about, and a pattern of the answer."""

    arguments: list[str]
    about: str
    says: str


def rows() -> list[Bad]:
    """All of them."""
    found = [Bad(shlex.split(line), "", says) for line, says in NONE]
    for command, listed in ROWS.items():
        for added, says in listed:
            alone = added.split(maxsplit=1)[0] == command
            words = shlex.split(added)
            about = next((word for word in words if word.startswith("--")), "")
            found.append(Bad(words if alone else [*shlex.split(GOOD[command]), *words], about, says))
        found += of_every_option(command)
    return found


def options_of(command: str) -> list[argparse.Action]:
    """What its parser knows besides --help."""
    (commands,) = (a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return [
        a for a in commands.choices[command]._actions if a.option_strings and a.dest not in ("help", "debug")
    ]


def of_every_option(command: str) -> Iterator[Bad]:
    """Refused for what it is, whatever it means: no value, an empty one, one of another type."""
    for action in options_of(command):
        name = action.option_strings[0]

        def bad(value: str, says: str, name: str = name) -> Bad:
            return Bad([*shlex.split(GOOD[command]), f"{name}={value}"], name, says)

        if action.nargs == 0:
            yield bad("yes", f"argument {name}: ignored explicit argument 'yes'")
            continue
        yield Bad([*shlex.split(GOOD[command]), name], name, f"argument {name}: expected one argument")
        if action.type is int:
            yield bad("many", f"argument {name}: invalid int value: 'many'")
            yield bad("1.5", f"argument {name}: invalid int value: '1.5'")
            for value in ("", "--", "1_0", " 1", "\N{ARABIC-INDIC DIGIT THREE}"):
                yield bad(value, f"argument {name}: invalid int value: '{value}'")
        elif action.type is float:
            yield bad("1,5", f"argument {name}: invalid float value: '1,5'")
            yield bad("nan", f"{name} must be a number, not nan")
            for value in ("--", "1_0", "\N{ARABIC-INDIC DIGIT THREE}"):
                yield bad(value, f"argument {name}: invalid float value: '{value}'")
        elif action.choices:
            yield bad("", f"argument {name}: invalid choice: ''")
            yield bad("--", f"argument {name}: invalid choice: '--'")
        elif action.metavar not in TEXTS:
            yield bad("", f"{name} is empty; say what it is, or leave it out")
            yield bad("a\0b", f"{name} 'a\\\\x00b' has a character 0 in it")


# -- the folder --------------------------------------------------------------------------------------

CELLS = '''
import graphnet as gn
import graphnet_rnn as rnn


class Odd(BaseException):
    pass


class Unprintable(Exception):
    def __str__(self):
        raise ValueError


class Own(rnn.Cell):
    """h' = tanh(x W_xh + h W_hh + b_h)"""

    states = (rnn.State("h"),)

    def step(self, x, h):
        return gn.tanh(self.affine("h", x=x, h=h))


class InitRaises(Own):
    def __init__(self, units=3):
        raise Odd("in __init__")


class InitExits(Own):
    def __init__(self, units=3):
        raise SystemExit(3)


class InitSilent(Own):
    def __init__(self, units=3):
        raise Unprintable


class Settings(Own):
    def __init__(self, units, *, speed):
        super().__init__(units)
        self.speed = speed


class Recursive(Own):
    def step(self, x, h):
        return self.step(x, h)


class Typo(Own):
    def step(self, x, h):
        return gn.tanh(self.afine("h", x=x, h=h))


class Stateless(rnn.Cell):
    states = (rnn.State("h"),)


class Calls(type(rnn.Cell)):
    def __call__(cls, *arguments, **settings):
        return None


class Nothing(Own, metaclass=Calls):
    pass


class Opaque(Own):
    __signature__ = 5


class Hides(Own):
    def __getattr__(self, name):
        raise RuntimeError("no such thing")


class Unshown(Own):
    def __repr__(self):
        raise RuntimeError("not shown")
'''
FILES: dict[str, str | bytes] = {
    "text.txt": TEXT,
    "valid.txt": TEXT[:500],
    "short.txt": "a cat",
    "greek.txt": "φ" * 100,
    "cells.py": CELLS,
    "raises.py": "class Odd(BaseException):\n    pass\n\nraise Odd('two\\nlines')\n",
    "exits.py": "raise SystemExit(3)\n",
    "broken.py": "def (\n",
    "recursive.py": "def f():\n    f()\n\nf()\n",
    "asks.py": "name = input('your name? ')\n",
    "generator.py": "raise GeneratorExit\n",
    "nul.py": b"\0\1",
    "missing.py": "def __getattr__(name):\n    raise ValueError('odd')\n",
    "binary": bytes(range(1, 256)) * 10,
    "nul": b"abc\0def",
    "empty": b"",
    "empty.jsonl": b"",
    "text.jsonl": TEXT + "\n",
    "text.safetensors": TEXT,
    "text": TEXT,
    "picture.svg": TEXT,
    "page.html": TEXT,
    "notes.md": "# Notes\n",
    "recipe.toml": "data = 'text.txt'\n[settings]\nunits = 4\nepochs = 1\n",
    "odd.toml": "data = 'text.txt'\n[settings]\nunit = 4\nepochs = 1\n",
    "text.onnx": TEXT,
    "text.npz": TEXT,
    "text.mid": TEXT,
    "text.parquet": TEXT,
    "table.csv": "who,a,b\nann,1,2\nann,2,3\nbob,3,5\nbob,4,9\n",
    "numeric.csv": "a,b\n1,2\n3,5\n4,9\n",
    "holes.csv": "a,b\n1,2\n2,\n",
    "short.csv": "a,b\n1,2\n2\n",
    "twice.csv": "a,a\n1,2\n",
    "empty.csv": "",
    "picture.png": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "picture.jsonl": b"\x89PNG\r\n\x1a\n" + bytes(100),
}


def make_place(place: Path) -> None:
    """The folder in which the rows run; call it from there."""
    for name, content in FILES.items():
        (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for name in (
        "folder",
        "folder.py",
        "folder.svg",
        "folder.html",
        "folder.safetensors",
        "folder.jsonl",
        "damaged",
    ):
        (place / name).mkdir()
    for name in ("loop", "loop.py", "loop.svg", "loop.safetensors", "loop.jsonl"):
        (place / name).symlink_to(name)
    for name in ("zero", "zero.py", "zero.jsonl"):
        (place / name).symlink_to("/dev/zero")
    for name in ("full", "full.svg", "full.html", "full.safetensors", "full.jsonl"):
        (place / name).symlink_to("/dev/full")
    for name in ("pipe", "pipe.py", "pipe.svg", "pipe.jsonl", "pipe.safetensors"):
        os.mkfifo(place / name)
    with open(place / "sparse.txt", "wb") as file:
        file.truncate(1 << 42)
    symbols = len(set(TEXT))
    for name, cell in (("model", rnn.GRU(4)), ("rhn", rnn.RHN(4, depth=2)), ("lstm", rnn.LSTM(4))):
        network = rnn.Network([cell], inputs=symbols, outputs=symbols)
        network.vocabulary = Vocabulary.of(TEXT)
        rnn.save(network, place / f"{name}.safetensors")
    rnn.save(rnn.Network([rnn.Elman(2)], 2, 2), place / "vectors.safetensors")
    numbers = np.linspace(-1, 1, 60, dtype="f4").reshape(5, 6, 2)
    np.savez(
        place / "numbers.npz",
        x=numbers,
        y=numbers[..., :1],
        w=np.ones(6),
        labels=np.arange(6) % 2,
        s=numbers > 0,
    )
    np.savez(place / "objects.npz", x=np.array([{}, 1], object), y=numbers)
    np.savez(place / "infinite.npz", x=np.full((5, 6, 2), np.inf), y=numbers)
    rnn.save(rnn.Network([rnn.Elman(2)], 2, 1, "squared"), place / "numbers.safetensors")
    for file in ("model.safetensors", "text.txt"):
        (place / file).with_stem("hard").hardlink_to(place / file)
    network.parameters["output.b_o"].value[0] = float(
        "nan"
    )  # which `save` refuses, and other programs do not
    odd = ModelFile(model_tensors(network), describe_model(network))
    (place / "nan.safetensors").write_bytes(odd.to_bytes())
    content = (place / "model.safetensors").read_bytes()
    (place / "cut.safetensors").write_bytes(content[: len(content) // 2])
    (place / "flipped.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 4]))
    assert main([*shlex.split(GOOD["train"]), "--out", "run", "--quiet"]) == 0
    assert main([*shlex.split(GOOD["train"]), "--cell", "cells.py:Own", "--out", "own", "--quiet"]) == 0
    (place / "own" / "model.safetensors").rename(place / "own.safetensors")
    (place / "damaged" / "checkpoint-000000001.safetensors").write_bytes(TEXT.encode())
    assert set(GOOD) == set(COMMANDS)
