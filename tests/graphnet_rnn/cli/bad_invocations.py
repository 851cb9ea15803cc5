"""Commands that cannot be meant or cannot be done, and the sentence that answers each.

A row is a pattern of the answer, and what is added to a command that would work (`GOOD`), once or several times; the
first option of that is {option} in the pattern, and what follows it is {value}; <x*9> is nine x. The folder in which
the rows run is made by `make_place`:

    text.txt, valid.txt, short.txt     texts          model.safetensors    of text.txt
    run/                               a short run    cells.py             cells of a user, most of them broken
    picture.png, binary, empty, nul    other files    folder/              holds nothing
    loop, pipe, zero, full             a link to itself, a named pipe, links to devices

Besides these rows, `of_every_option` makes some for each option of a parser: no value, an empty one, a wrong type.
"""

from __future__ import annotations

import argparse
import os
import re
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
#: For each command: what the answer must hold, and what is added (a line that begins with the command stands alone).
ROWS: dict[str, list[tuple[str, ...]]] = {
    "demo": [
        ("{option} must be a number of seconds >= 0, not {value}", "--seconds -1", "--seconds inf"),
        (r"{option} text.txt: \S+/text.txt is no folder", "--out text.txt"),
        ("text.txt is no folder", "--out text.txt/x"),
        ("/dev/null is no folder", "--out /dev/null/x"),
        ("exists and was not made by the demo", "--out ."),
        ("is no folder", "--out loop"),
        ("unrecognized arguments: --units {value}", "--units 5"),
        ("unrecognized arguments: text.txt", "text.txt"),
    ],
    "train": [
        ("there is no file none.txt", "train none.txt --out new"),
        ("folder is a folder; name a file in it", "train folder --out new"),
        ("empty is empty", "train empty --out new"),
        ("is a binary file", "train nul --out new"),
        ("is not utf-8 text|is a binary file", "train binary --out new", "train picture.png --out new",
            "train model.safetensors --out new"),
        ("the text has 4 characters, fewer than one batch needs", "train short.txt --out new"),
        ("loop cannot be read: Too many levels of symbolic links", "train loop --out new"),
        ("pipe is a pipe that nothing was written to", "train pipe --out new"),
        ("zero cannot be read: it is a device", "train zero --out new"),
        ("data is empty; say what it is", "train '' --out new"),
        ("File name too long", "train <x*5000> --out new", "--out <y*300>"),
        ("there is no file no such file☃.txt", "train 'no such file☃.txt' --out new"),
        ("cannot be read: Not a directory", "train text.txt/x --out new"),
        ("unrecognized arguments: valid.txt", "train text.txt valid.txt"),
        ("there is no file {value}", "--valid none.txt"),
        (r"short.txt has 5 character\(s\), and none is scored", "--valid short.txt --time 50"),
        ("has not seen in training: 'φ'", "--valid greek.txt"),
        ("{option} and --test go with a training text", "train --valid valid.txt --out new"),
        ("{option} FILE needs --valid FILE as well", "--test valid.txt"),
        ("{option} says how --valid and --test are read", "--unknown zz"),
        ("{option}='zz' must itself be one character that the model knows", "--unknown zz --valid greek.txt"),
        ("{option}='' must itself be one character", "--unknown '' --valid greek.txt"),
        ("'hex' is not an encoding", "--encoding hex"),
        ("is not utf-16 text", "train short.txt --encoding utf-16 --out new"),
        ("greek.txt is not ascii text .byte 0xcf at offset 0", "--encoding ascii --valid greek.txt"),
        ("cells.py is a file; say which cell", "--cell cells.py"),
        ("cells.py has no cell 'None'", "--cell cells.py:None"),
        (r"exits.py ends the program when it is imported \(exits.py:1\)", "--cell exits.py:Cell"),
        ("there is no file none.py", "--cell none.py:Cell"),
        (r"raises.py cannot be imported: Odd: two lines \(raises.py:4\)", "--cell raises.py:Cell"),
        ("broken.py cannot be imported: SyntaxError", "--cell broken.py:Cell"),
        ("recursive.py cannot be imported: RecursionError", "--cell recursive.py:Cell"),
        ("asks.py cannot be imported: (EOF|OS)Error", "--cell asks.py:Cell"),
        ("zero.py is a device; name a file of Python code", "--cell zero.py:Cell"),
        ("loop.py is a link that leads in a circle; name a file of Python code", "--cell loop.py:Cell"),
        ("'./cells' is neither a file of Python code, whose name ends in .py, nor the name of", "--cell ./cells:Own"),
        ("no.such.module cannot be imported: ModuleNotFoundError", "--cell no.such.module:Cell"),
        ("cannot be read; write settings as in Python", "--cell 'RHN(depth=)'", "--optimizer 'adam(rate=0.1'"),
        ("RHN: depth must be a whole number >= 1, not 0", "--cell 'RHN(depth=0)' --units 4"),
        (r"depth = 1,000,000,000 makes about [\d,]+ nodes, which would take", "--cell 'RHN(depth=1000000000)'"),
        ("both say how many units|a random graph of .* edges would", "--cell 'GLNN(units=1000000000)' --epochs 1"),
        ("RHN: got an unexpected keyword argument 'x'; its settings", "--cell 'RHN(x=1)'"),
        ("both say how many units", "--cell 'RHN(units=4)'"),
        (r"10 \*\* 9 is no setting.*Write the number itself$", "--cell 'RHN(units=10**9)'"),
        ("weights .* would take .* of memory", "train text.txt --cell 'LSTM(units=2147483647)' --out new",
            "--units 99999999"),
        ("says depth twice; leave out one", "--cell 'RHN(depth=2, depth=3)'"),
        (r"missing.py has no cell 'Cell': ValueError: odd \(missing.py:2\)", "--cell missing.py:Cell"),
        ("Residual is no setting|is no setting", "--cell 'Residual(Residual)'"),
        ("cannot be read|there is no cell", "--cell '<(*3000>'"),
        ("{option} must be a whole number >= 1, not {value}", "--units 0", "--units -5", "--layers 0", "--time 0",
            "--batch 0", "--stride 0", "--gradient-batches 0", "--log-every 0", "train numbers.npz --buckets 0",
            "train numbers.npz --pieces 0", "--epochs 0", "--steps 0"),
        ("{option} must be at most 2147483647", "--units <9*25>"),
        ("{option} 100000000 makes about 100,000,000 nodes, which would take", "--layers 100000000"),
        ("{option} must be at most", "--layers <9*25>", "--curvature-batches 9 --optimizer hf --gradient-batches 2",
            "--epochs <9*25>", "--seed <9*25>"),
        (r"{option}, the share that is zeroed, must be in \[0, 1\), not 1.0", "--dropout 1"),
        ("{option}, the share that is zeroed, must be in", "--dropout -0.1", "--recurrent-dropout 1.5"),
        ("invalid choice: '{value}'", "--initial-state random"),
        ("there is no optimizer 'adamm'.*Did you mean adam", "--optimizer adamm"),
        ("rate must be > 0, not -1", "--optimizer 'adam(rate=-1)'"),
        ("write settings of optimizers by name", "--optimizer 'adam(0.1)'"),
        ("says rate twice; leave out one", "--optimizer 'adam(rate=1, rate=2)'"),
        ("says 0 twice; leave out one", "--optimizer 'adam(rate={0: 1, 0: 2})'"),
        ("is larger than any setting", "--optimizer 'adam(rate=1<0*400>)'", "--optimizer 'hf(damping=1<0*400>)'"),
        (r"x\.\.\.x\S* is no setting", "--optimizer 'adam(<x*5000>)'"),
        ("unexpected keyword argument 'speed'", "--optimizer 'adam(speed=1)'"),
        ("both say rate; leave out one", "--optimizer 'adam(rate=0.1)' --rate 0.2",
            "--optimizer 'adam(rate=Warmup(9))' --rate 0.2"),
        ("HessianFree: backtrack must be True or False, not 'no'", '--optimizer \'hf(backtrack="no")\''),
        (r"warm_start must be in \[0, 1\], not \(0.5, 0.5\)", "--optimizer 'hf(warm_start=(0.5, 0.5))'"),
        ("{option} must be a finite number > 0, not {value}", "--rate 0", "--rate inf"),
        ("{option} is not for --optimizer lbfgs", "--rate 0.1 --optimizer lbfgs"),
        ("{option} is a factor on a rate, and --optimizer lbfgs has", "--schedule 'Warmup(500)' --optimizer lbfgs"),
        (r"{option} must be in \[0, 1\], not {value}", "--average 1.5", "--average -1"),
        ("there is no schedule 'warmup'.*Did you mean Warmup", "--schedule 'warmup(500)'"),
        ("cannot be read; write it as in Python: 'Warmup", "--schedule 'Warmup(500) then Cosine(9)'"),
        ("'0.5' is no schedule; one is e.g. 'Warmup", "--schedule 0.5"),
        ("Warmup is no setting; one is a number.*or a schedule, e.g. {value}", "--schedule Warmup"),
        ("Warmup: steps must be a whole number >= 1, not 0", "--schedule 'Warmup(0)'"),
        ("Warmup: too many positional arguments; its settings: Warmup", "--schedule 'Warmup(5, 6, 7)'"),
        ("1 steps are too few to go up and down", "--schedule 'OneCycle(1)'"),
        ("has no last step; say when the next one begins", "--schedule 'OnPlateau(0.5).then(Cosine(9))'"),
        ("then: following must be a Schedule or a number, not 'x'", '--schedule \'Warmup(5).then("x")\''),
        ("is no setting; schedules are multiplied, and have then, by_epoch", "--schedule 'Warmup(5).until(9)'"),
        ("there is no schedule 'len'", "--schedule '2 * len(3)'"),
        ("is no setting; schedules are multiplied", "--schedule '(1, 2) * Warmup(5)'"),
        ("must be of factors >= 0, and not always 0", "--schedule='-1 * Warmup(5)'"),
        ("an optimizer does not know validated costs", "--optimizer 'adam(rate=OnPlateau())'"),
        ("an optimizer does not know epochs", "--optimizer 'adam(rate=Cosine(9).by_epoch())'"),
        ("{option} must be > 0, or 0 for no limit, not {value}", "--clip-norm -1", "--clip-values -1"),
        ("{option} is not for --optimizer hf", "--clip-norm 1 --optimizer hf"),
        ("it is for first-order optimizers", "--clip-values 1 --optimizer hf"),
        ("fewer than one batch needs", "--time 99999999", "--batch 99999999"),
        ("{option} must be at most time, 5, not {value}", "--stride 9"),
        ("{option} is for pieces that carry their states", "--stride 2 --gradient-batches 2"),
        ("fewer than a step needs", "--gradient-batches 99999999"),
        ("{option} is for independent sequences", "--curvature-batches 2", "--unscored 2"),
        ("{option} is about a block that --fold names", "--gap 3", "train numbers.npz --gap 1"),
        ("{option} must be K/N, such as 1/5", "--fold 6/5", "--fold 1/1"),
        ("--gap must be", "--fold 1/2 --gap -1"),
        ("leave none to train", "--fold 1/2 --gap 99999"),
        ("{option} must divide the batch", "--shares 3"),
        ("{option} must be in 0 ... 4, not {value}", "--unscored 5 --gradient-batches 2"),
        ("{option} names 'layer7.*', but no parameter is called so; there are layer0.", "--frozen layer7.*"),
        ("{option} leaves no parameter, so that nothing would be learned", "--frozen *"),
        ("{option} must be a finite number >= 0, not {value}", "--l2 inf"),
        ("there is no file none.npz", "train none.npz"),
        ("text.npz is no file of arrays", "train text.npz"),
        ("objects.npz is no file of arrays", "train objects.npz"),
        ("all must be finite", "train infinite.npz"),
        ("text.mid is no file of MIDI|reading text.mid needs mido", "train text.mid"),
        ("text.parquet is no table of Parquet|reading text.parquet needs pyarrow", "train text.parquet --target b"),
        ("must have a row of names, and rows of numbers", "train empty.csv"),
        ("say which columns are targets; it has who, a, b", "train table.csv"),
        ("has no column 'c'; it has who, a, b", "train table.csv --target c"),
        ("row 1 of the column 'who' is 'ann'", "train table.csv --target b"),
        ("has no column 'c'", "train table.csv --target b --inputs c"),
        ("--inputs must be different names", "train table.csv --target b --inputs a,"),
        ("has no column 'd'", "train table.csv --target b --weights d"),
        ("no case has the 30 rows of a piece", "train numeric.csv --target b --pieces 30"),
        ("a target for a whole case cannot be cut", "train table.csv --target b --case who --pool last --pieces 1"),
        ("an array of lengths is a matter of arrays", "train table.csv --target b --case who --lengths a"),
        ("{option} must be whole numbers", "train numbers.npz --lengths x"),
        ("has no array '{value}'", "train numbers.npz --lengths z", "train numbers.npz --inputs a"),
        ("{option} must be one of last, mean, max, not {value}", "train numbers.npz --pool first"),
        ("targets must be", "train numbers.npz --pool last", "train numbers.npz --loss softmax"),
        ("{option} means nothing to a text", "train text.txt --pool last", "train text.txt --lengths y",
            "train text.txt --buckets 3", "train text.txt --target y", "train text.txt --loss softmax",
            "train text.txt --inputs y", "train text.txt --weights y", "train text.txt --case y",
            "train text.txt --pieces 3"),
        ("row 2 of the column 'b' is ''", "train holes.csv --target b"),
        ("two columns have the same name", "train twice.csv --target a"),
        ("'b' is among the inputs and among the targets", "train holes.csv --target b --inputs a,b"),
        ("has no array 't'; it has labels, s, w, x, y", "train numbers.npz --target t"),
        ("{option} must be", "train numbers.npz --weights x"),
        ("a column of cases is of tables", "train numbers.npz --case w"),
        ("no case has the 9 steps of a piece", "train numbers.npz --pieces 9"),
        ("a target for a whole case cannot be cut into pieces", "train numbers.npz --target labels --pieces 2"),
        ("{option} must be one of softmax, sigmoid, squared, ctc", "train numbers.npz --loss cubed"),
        ("a gap of 1 is beside a block of time", "train numbers.npz --fold 1/2 --gap 1"),
        ("{option} means nothing to the sequences of numbers.npz", "train numbers.npz --time 3"),
        ("{option} means nothing", "train numbers.npz --unknown x", "train task:addition(20) --stride 3"),
        ("there is no problem task:nothing", "train task:nothing(3)"),
        ("write task:addition", "train task:addition"),
        ("addition", "train task:addition(1)"),
        ("{option} means nothing to task:addition", "train task:addition(20) --valid text.txt"),
        ("{option} must be a number|--goal must be a number, not {value}", "--goal nan"),
        ("leave out --log-every", "train --resume run --log-every 3"),
        ("{option}", "--memory 3 --out new/deep"),
        ("{option} must be sqrt, or a number of bytes, not {value}", "--memory lots", "--memory 0"),
        ("{option} must be sqrt, or a number of bytes|expected one argument", "--memory -5"),
        ("{option} must be a whole number >= 0, not {value}", "--sample -1"),
        ("{option} must be at most 100,000 characters", "--sample 99999999"),
        ("run holds a run already", "--out run"),
        ("text.txt is no folder", "--out text.txt", "--out text.txt/deep/x"),
        ("is no folder", "--out loop"),
        ("none cannot be resumed. There is no checkpoint in it", "train --resume none"),
        ("text.txt cannot be resumed", "train --resume text.txt"),
        ("loop cannot be resumed", "train --resume loop"),
        ("{option} is empty", "train --resume ''"),
        (r"two\\nlines cannot be resumed", "train --resume 'two\nlines'"),
        ("holds, so leave out --units", "train text.txt --start model.safetensors --units 5"),
        ("holds, so leave out --cell", "train text.txt --start model.safetensors --cell 'cells.py:Typo(4)'"),
        ("none.safetensors", "train text.txt --start none.safetensors"),
        ("picture.png is not a graphnet model", "train text.txt --start picture.png"),
        ("unknown='xy' must itself be one character", "train valid.txt --start model.safetensors --unknown xy"),
        (r"inputs must be \(time, batch\)", "train numbers.npz --start model.safetensors"),
        ("addition needs a network with inputs=2", "train task:addition(20) --start model.safetensors"),
        ("leave out --seed, --skip", "train --resume run --seed 0 --skip"),
        ("damaged cannot be resumed. .* is not a graphnet model", "train --resume damaged"),
        ("cannot be continued", "train valid.txt --resume run"),
        ("there is no file none.txt here", "train none.txt --resume run"),
        ("{option} must be >= 0, not {value}", "--checkpoint-seconds -1"),
    ],
    "sample": [
        ("there is no file none.safetensors", "sample none.safetensors"),
        ("is not a graphnet model", "sample text.txt"),
        (r"there is no file a\\x1b\]0;owned\\x07", "sample 'a\x1b]0;owned\x07'"),
        ("folder is a folder; name a file in it", "sample folder"),
        ("zero is a device; name a file", "sample zero"),
        ("is damaged or cut short", "sample cut.safetensors"),
        ("has no vocabulary: it was not trained on text", "sample vectors.safetensors"),
        ("the following arguments are required: model", "sample", "sample --"),
        ("own.safetensors .*Own", "sample own.safetensors"),
        ("nan.safetensors: 1 of .* of the weight output.b_o are nan or infinite", "sample nan.safetensors"),
        ("{option} must be at least 1, not {value}", "--length 0"),
        ("{option} must be at most", "--length <9*25>", "--seed <9*25>"),
        ("{option} must be >= 0 .* not {value}", "--temperature -1"),
        ("--argmax is temperature 0, and --temperature says another", "--temperature 0.5 --argmax"),
        ("has not seen in training: 'Z' 'b'", "--warm-up Zebra"),
        (r"has not seen in training: '\\udcff'", "--warm-up a\udcff"),
        ("has not seen in training: 'φ'", "--warm-up <φ*20000>"),
        ("{option} says how --warm-up is read", "--unknown a"),
        ("{option}='zz' must itself be one character", "--unknown zz --warm-up cat"),
        ("{option}='' must itself be one character", "--unknown '' --warm-up cat"),
    ],
    "evaluate": [
        ("the following arguments are required: data", "evaluate model.safetensors"),
        ("has no vocabulary: it was not trained on text, but on sequences", "evaluate numbers.safetensors text.txt"),
        ("{option} is about texts", "evaluate numbers.safetensors numbers.npz --context 3"),
        ("targets must be", "evaluate numbers.safetensors numbers.npz --target s"),
        ("{option} must be", "evaluate numbers.safetensors numbers.npz --inputs y",
            "evaluate numbers.safetensors numbers.npz --weights x"),
        ("{option} must be whole numbers", "evaluate numbers.safetensors numbers.npz --lengths x"),
        ("a column of cases is of tables", "evaluate numbers.safetensors numbers.npz --case x"),
        ("no case has the 9 steps", "evaluate numbers.safetensors numbers.npz --pieces 9"),
        ("{option} means nothing to a text", "--target y"),
        ("has no vocabulary", "evaluate vectors.safetensors text.txt"),
        ("with 50 of context there is nothing to score", "evaluate model.safetensors short.txt"),
        ("has not seen in training: 'φ'", "evaluate model.safetensors greek.txt"),
        ("{option} must be a whole number >= 0, not {value}", "--context -1", "--at -1 --colour"),
        ("there is nothing to score", "--context 99999999"),
        ("{option} must be a whole number >= 1, not {value}", "--lanes 0", "--dynamic-time 0 --dynamic 0.1",
            "--length 0 --colour"),
        ("{option} must be at most", "--lanes <9*25>"),
        ("in one lane; leave --lanes 3 out", "--lanes 3 --dynamic 0.1"),
        ("{option}, the rate, must be a finite number > 0, not {value}", "--dynamic 0", "--dynamic inf"),
        ("leave --dynamic out", "--dynamic 0.1 --colour"),
        ("{option} says how --dynamic works", "--dynamic-time 5", "--dynamic-decay 0.1"),
        ("unrolling over 99,999,999 steps makes about .* would take", "--dynamic-time 99999999 --dynamic 0.1"),
        (r"{option} must be in \[0, 1\), not {value}", "--dynamic-decay 1 --dynamic 0.1"),
        ("{option}='zz' must itself be one character", "--unknown zz"),
        ("{option} new.pdf: the name of a page must end in one of .html, .svg, .txt, .ansi", "--save new.pdf"),
        ("there is no folder", "--save none/new.html", "--costs none/new.svg"),
        ("{option} text.txt would overwrite the data; name another file", "--save text.txt"),
        ("would overwrite the data; name another file", "--save ./hard.txt"),
        ("this file is there already, and is not such a .txt", "--save valid.txt"),
        ("{option} and --costs are the same file", "--save new.svg --costs ./new.svg"),
        ("is there already, and is not such a .svg", "--costs picture.svg"),
        ("{option} says how --colour or --save works", "--at 5", "--length 5", "--theme dark"),
        ("there is no excerpt at 99,999,999; give a smaller --at", "--at 99999999 --colour"),
        ("invalid choice: '{value}'", "--theme purple --colour"),
        ("{option} new.txt: the name of a chart must end in one of", "--costs new.txt"),
        ("{option} says how --costs works", "--split"),
    ],
    "draw": [
        ("Warmup: steps must be a whole number >= 1, not 0", "draw 'Warmup(0)' --out new.svg"),
        ("follows validated costs", "draw 'OnPlateau()' --out new.svg"),
        ("{option} new.dot: the name of a chart must end in", "draw '2 * Warmup(5)' --out new.dot"),
        ("the following arguments are required: what", "draw"),
        ("what is empty", "draw ''"),
        ("folder is a folder, and there is no run in it", "draw folder"),
        ("text.txt is a file, and no cell", "draw text.txt"),
        ("picture.svg: this file is there already, and is not such a .svg", "--out picture.svg"),
        ("is there already, and is not such a .html", "--out page.html"),
        ("is there already, and is not such a .txt", "draw run --chart samples --out text.txt"),
        ("this folder is there already, and has no explain.txt in it", "--show dump --out run"),
        ("history 'none.jsonl' cannot be read", "draw none.jsonl"),
        ("history 'zero.jsonl' cannot be read: it is a device", "draw zero.jsonl"),
        ("line 1, is not JSON", "draw text.jsonl"),
        ("history|nothing to draw|no ", "draw empty.jsonl"),
        ("only runs are drawn together, and 'LSTM' is neither", "draw run LSTM"),
        ("there is no file or folder './x/y' here", "draw './x/y'"),
        ("{option} curve is of a run", "--chart curve"),
        ("there is no folder", "draw run --chart flight --out none/new.svg"),
        ("invalid choice: '{value}'", "draw run --chart pie", "--show everything", "--style baroque",
            "--theme purple"),
        ("suffix must be one of|must end in", "--out new.xyz"),
        ("{option} none/new.svg: there is no folder", "--out none/new.svg"),
        ("this is a folder; name a file", "--out folder.svg"),
        ("this is a device; name a file", "--out full.svg"),
        ("a name that ends in / is that of a folder; leave it out", "--out new.svg/"),
        ("this is a pipe; name a file", "--out pipe.svg"),
        ("pipe is a pipe, and no cell; give a model file", "draw pipe --out new.svg"),
        ("loop is a link that leads in a circle, and no cell", "draw ./loop --out new.svg"),
        ("this is a link that leads in a circle", "--out loop.svg"),
        ("{option} is empty", "--out ''"),
        ("must end in one of", "draw run --out new.html"),
        ("must end in .html", "--show explorer"),
        ("is to be a folder", "--show dump"),
        ("is no folder", "draw LSTM --show dump --out text"),
        ("{option} is of cells and models, and means nothing for runs", "draw run --show mirror"),
        ("{option} is of cells and models", "draw run --style full", "draw run --theme dark", "draw run --time 4"),
        ("{option} says of which cell a model file is made", "--cell GRU"),
        ("{option} must be at least 1, not {value}", "--time 0"),
        ("unrolling over 99,999,999 steps makes about .* would take", "--time 99999999 --show inside"),
        ("{option} must be at most", "--time <9*25> --show inside"),
    ],
    "check": [
        ("the following arguments are required: cell", "check"),
        ("there is no cell 'LSTN'", "check LSTN"),
        ("Stateless", "check cells.py:Stateless"),
        (r"InitRaises cannot be made: Odd: in __init__ \(\S*cells.py:\d+\)", "check cells.py:InitRaises"),
        ("InitExits cannot be made: SystemExit: 3", "check cells.py:InitExits"),
        (r"InitSilent cannot be made: Unprintable \(", "check cells.py:InitSilent"),
        ("AttributeError in Typo.step", "check cells.py:Typo"),
        ("Settings", "check cells.py:Settings"),
    ],
    "cells": [
        ("there is no cell 'LSTN'", "cells LSTN"),
        ("cells is empty", "cells ''"),
        ("Nothing cannot be made: to call it gives NoneType, not Nothing", "cells cells.py:Nothing"),
        ("the settings of Opaque cannot be read: TypeError: unexp", "cells cells.py:Opaque"),
        (r"RuntimeError: no such thing \(\S*cells.py:\d+\); --debug", "cells cells.py:Hides"),
        (r"RuntimeError: not shown \(\S*cells.py:\d+\); --debug", "cells cells.py:Unshown"),
        ("weights .* would take .* of memory", "cells 'LSTM(units=2147483647)'", "cells 'EchoState(units=1000000)'"),
        ("GNN: frequencies must be a list of numbers.*not 'abc'", 'cells "GNN(frequencies=\'abc\')"'),
        ("says units twice; leave out one", "cells 'Residual(LSTM(units=4,units=5))'"),
        ("there is no cell", "cells '<x*5000>'"),
        ("is no setting", "cells 'LSTM(units=<1+*500>1)'", "cells 'GRU(*[1])'"),
        ("GRU: too many positional arguments", "cells 'GRU(1, 2)'"),
        ("write settings one by one", "cells 'GRU(**{})'"),
        ("depth = 1,000,000,000 makes about", "cells 'HyperRHN(depth=1000000000)'"),
        ("a random graph of 10,000,000,000 edges would take", "cells 'GNN(units=1000000000)'"),
        ("nan is no setting.*cell with parentheses$", "cells 'EchoState(leak=nan)'"),
        (r"none is no setting.*\. None may be meant$", "cells 'EchoState(leak=none)'"),
    ],
    "export": [
        ("the following arguments are required: model", "export"),
        ("the following arguments are required: --to, --out", "export model.safetensors"),
        ("nan.safetensors: 1 of the .* are nan or infinite", "export nan.safetensors --to onnx --out new.onnx"),
        ("RHN", "export rhn.safetensors --to torch --out new.safetensors"),
        ("invalid choice: '{value}'", "--to tensorflow", "--initial random"),
        ("would overwrite the model; name another file", "--out model.safetensors"),
        ("a file for torch must end in .safetensors", "--out new.onnx"),
        ("a file for onnx must end in .onnx", "--to onnx --out new.safetensors"),
        ("is there already, and is not such a .onnx", "--to onnx --out text.onnx"),
        ("this file is there already, and is a graphnet model", "--out run/model.safetensors"),
        ("this file is there already, and is not such", "--out text.safetensors"),
        ("prefix must be a module's name with a dot after it, as 'rnn.', or '', not 'rnn'",
            "export lstm.safetensors --to torch --out new.safetensors --prefix rnn"),
        ("prefix must be a module's name", "export lstm.safetensors --to torch --out new.safetensors --prefix=--"),
        ("both 'rnn.'; two modules have two names",
            "export lstm.safetensors --to torch --out new.safetensors --output-prefix rnn."),
        ("output_prefix must be a module's name",
            "export lstm.safetensors --to torch --out new.safetensors --output-prefix out"),
        ("text.txt is a file, and no folder; name another, or a file that ends in .c", "--to c --out text.txt"),
        ("--lengths means nothing with --to {value}", "--to c --out new --lengths"),
        ("{option} means nothing with --to torch", "--time 5", "--batch 5", "--initial zero"),
        ("there is no folder", "--out none/such/x.safetensors"),
        ("{option} means nothing with --to onnx", "--prefix rnn. --to onnx", "--output-prefix o. --to onnx"),
    ],
    "control": [
        ("invalid choice: 'reach'", "control reach --out new"),
        ("there is no optimizer '{value}'", "--optimizer newton"),
        ("{option} is not for --optimizer lbfgs", "--rate 1 --optimizer lbfgs"),
        ("{option} is not for --optimizer hf", "--clip-norm 1"),
        ("{option} would make the gradient another function's", "--clip-values 1"),
        ("{option} must be > 0, or 0 for no limit", "--clip-values -1"),
        ("{option} names 'layer7.*', but no parameter is called so", "--frozen layer7.*"),
        ("{option} must be a whole number >= 1, not {value}", "--units 0", "--movements -1", "--epochs 0",
            "--steps 0"),
        ("weights .* would take .* of memory", "--units 99999999"),
        ("CenterOut has the same movements in every batch", "--gradient-batches 2"),
        ("{option} is not for postural", "control postural --movements 5 --out new"),
        ("{option} is for ddn alone", "--plant-noise 0.1"),
        ("{option} must be a finite number >= 0, not {value}", "control ddn --plant-noise -1 --out new",
            "--checkpoint-seconds -1"),
        ("steps must be a whole number >= 1, not {value}", "--epoch-steps 0"),
        ("{option} must be", "--memory lots"),
        ("invalid choice: '{value}'", "--dtype int8"),
        ("text.txt is no folder", "--out text.txt", "--out text.txt/x"),
        ("there is no folder", "--record none/x.jsonl"),
        ("the name of a record must end in .jsonl", "--record text.txt"),
    ],
    "tasks": [
        ("invalid choice: '{value}'", "--task sorting"),
        ("{option} must be a whole number >= 10, not {value}", "--length 3"),
        ("sequences of .* steps would take .* of memory", "--length 99999999", "--batch 99999999",
            "--gradient-batches 99999999", "--test 99999999"),
        ("{option} must be at most", "--length <9*25>"),
        ("there is no optimizer '{value}'", "--optimizer newton"),
        ("damping must be", "--optimizer 'hf(damping=-1)'"),
        ("{option} is only for --optimizer hf", "--no-structural --optimizer adam"),
        ("says damping twice; leave out one", "--optimizer 'hf(damping=1,damping=2)'"),
        ("both say structural", "--no-structural --optimizer 'hf(structural=1)'"),
        ("{option} must be", "--rate -1 --optimizer adam"),
        ("{option} is not for --optimizer hf", "--clip-norm 1"),
        ("{option} must be > 0, or 0 for no limit, not {value}", "--clip-norm -1 --optimizer adam"),
        ("is a factor on a rate, and --optimizer lbfgs has none", "--schedule 'Warmup(5)' --optimizer lbfgs"),
        ("cannot be read; write it as in Python", "--schedule 'Warmup(5' --optimizer adam"),
        ("{option} must be a whole number >= 1, not {value}", "--units 0", "--batch 0", "--gradient-batches 0",
            "--test 0"),
        ("weights .* would take .* of memory", "--units 99999999"),
        ("{option} and --test-every must be at least 1", "--steps 0"),
        ("--steps and --test-every must be at least 1", "--test-every 0"),
        ("must end in one of .svg, .png, .pdf", "--picture x.txt"),
        ("there is no folder", "--picture none/x.svg"),
        ("is there already, and is not such a .svg", "--picture picture.svg"),
        ("text.txt is no folder", "--out text.txt", "--out text.txt/x"),
    ],
    "complete": [
        ("{option}='zz' must itself be one character", "--unknown zz --start cat"),
        ("this network has no vocabulary", "complete vectors.safetensors"),
        ("{option} must be a whole number >= 1, not {value}", "--length 0"),
        ("{option} must be a finite number > {value}", "--temperature 0"),
        (r"the pattern '\(a' cannot be read at character 3: a \( is not closed", "--pattern (a"),
        ("no text of 5 characters that the model can write matches", "--pattern ab"),
        ("has not seen in training: '{value}'", "--ending φ", "--start φ"),
        ("{option} is of --method beam, not of exact", "--width 5"),
        ("--seed is of --method exact or weighted, not of {value}", "--method beam --seed 1"),
        ("a beam of width 64 finds no 99 texts", "--method beam --count 99"),
        ("stop must be one character that the model knows", "--stop-line"),
        ("4 texts take at least as many attempts", "--attempts 3 --count 4"),
    ],
    "timelag": [
        ("{option} must be a whole number >= 1", "--steps 0", "--runs 0"),
        ("has not seen in training: '{value}'", "--open φ", "--warm-up φ", "--control φ"),
        ("there is no folder", "--figure none/new.svg", "--out none/new.jsonl", "timelag --write-text none/new.txt"),
        ("name a model, or a text to write", "timelag"),
        ("this network has no vocabulary", "timelag vectors.safetensors"),
        (r"has not seen in training: '\['", "timelag model.safetensors"),
        ("a model is named twice", "timelag model.safetensors model.safetensors --open a --control b --brackets am"),
        ("{option} must be a whole number >= 1, not {value}", "--smooth 0"),
        ("{option} must be two characters", "--brackets abc"),
        ("{option} must be two different characters", "--brackets aa"),
        ("{option} is a line of --figure", "--ideal 2"),
        ("{option} is of the text of --write-text", "--characters 5"),
        ("must end in .jsonl", "--out new.txt"),
        ("does nothing else; leave", "--write-text new.txt"),
        ("this file is there already", "timelag --write-text text.txt"),
        ("characters must be a whole number >= 1", "timelag --write-text new.txt --characters 0"),
    ],
    "debag": [
        ("{option}='zz' must itself be one character", "--unknown zz"),
        ("this network has no vocabulary", "debag vectors.safetensors text.txt"),
        ("has .* passages of 7, not 99,999", "--bags 99999"),
        ("{option} must be at most 9, not {value}", "--words 10"),
        ("{option} must be a whole number >= 1", "--context 0", "--beam 0"),
        ("{option} is of n-grams; give --split or --ngrams FILE", "--order 3"),
        ("leave out one", "--split --ngrams text.txt"),
        ("order must be at most", "--ngrams text.txt --order 99"),
        ("there is no file {value}", "--ngrams none.txt"),
        ("there is no file none/new.txt", "--ngrams none/new.txt"),
        ("would overwrite the model", "--out model.safetensors"),
        ("must end in .jsonl", "--out new.txt"),
        ("there is no folder", "--out none/new.jsonl"),
    ],
    "write": [
        ("cut.safetensors", "write cut.safetensors --html"),
        ("this network has no vocabulary", "write vectors.safetensors --html"),
        ("folder is a folder", "write model.safetensors folder --html"),
        ("there is no folder none for new.txt", "write none/new.txt --html",
            "write model.safetensors none/new.txt --html"),
        ("is no text in UTF-8", "write model.safetensors binary --html"),
        ("is no terminal, where one could write", "write model.safetensors"),
        ("unrecognized arguments: b.txt", "write model.safetensors a.txt b.txt"),
        ("{option} must be >= 0", "--temperature -1"),
        ("{option} must be a rate above 0, such as 0.1, not {value}", "--learn 0"),
        ("{option} and --theme are of a terminal; a page has a button", "--colour"),
        ("{option} is of --colour; give that, too", "--theme dark"),
        ("invalid choice: '{value}'", "write model.safetensors --theme pink"),
    ],
    "predict": [
        ("the following arguments are required: --out", "predict numbers.safetensors numbers.npz"),
        ("sequences are in files of .npz, .csv", "predict numbers.safetensors text.txt --out new.npz"),
        ("model.safetensors writes text: see the command sample", "predict model.safetensors text.txt --out new.npz"),
        ("the name of predictions must end in one of", "predict numbers.safetensors numbers.npz --out new.txt"),
        ("there is no folder", "predict numbers.safetensors numbers.npz --out none/x.npz"),
        ("would overwrite the data", "predict numbers.safetensors numbers.npz --out numbers.npz"),
        ("{option} must be different names", "--target a,"),
        ("{option} must be", "--inputs y"),
        ("has no array '{value}'", "--lengths z"),
        ("row 1 of the column 'who'", "predict numbers.safetensors table.csv --out new.csv --weights a"),
        ("a column of cases is of tables", "--case x"),
        ("no case has the 9 steps", "--pieces 9"),
    ],
    "sweep": [
        ("there is no file none.toml", "sweep none.toml"),
        ("there is no sweep in folder", "sweep folder"),
        ("folder is the folder of a sweep, and --out names another", "sweep folder --out new"),
        ("folder is the folder of a sweep, which has its data", "sweep folder --data text.txt"),
        ("there is no file {value}", "--data none.txt", "--data none/x.txt"),
        ("joblib cannot use", "--parallel nothing"),
        (r"{option}|loky\(", "--parallel loky("),
        ("say which setting it is", "--parallel loky(3)"),
        ("text.txt is no TOML", "sweep text.txt"),
        ("train has no setting unit; it has .* Did you mean units", "sweep odd.toml"),
        ("unrecognized arguments: other.toml", "sweep recipe.toml other.toml"),
        ("text.txt is no folder", "--out text.txt/x", "--out text.txt"),
        ("is there already, and holds no sweep", "--out folder/../run"),
        ("{option} must be a whole number >= 1, not {value}", "--workers 0"),
        ("the name of a table must end in one of .md, .tex, .csv", "--report x.doc"),
        ("there is no folder", "--report none/x.md", "--figure none/x.svg", "--html none/x.html"),
        ("is there already, and is not such a .md", "--report notes.md"),
        ("the name of a page must end in .html", "--html x.txt"),
        ("the name of a chart must end in one of .svg, .png, .pdf", "--figure x.txt"),
        ("{option} says how --figure is drawn", "--against units", "--by units", "--panels units"),
        ("must end in one of .md, .tex, .csv", "--html x.html --report x.html"),
        ("there is no sweep in new to tell of", "sweep recipe.toml --out new --only-report"),
    ],
}  # fmt: skip
#: Commands that no command is.
NONE = [
    ("the following arguments are required: command", ""),
    ("invalid choice: 'dance'", "dance"),
    ("invalid choice: 'Train'", "Train text.txt"),
    ("invalid choice: '5'", "--units 5"),
    ("ignored explicit argument '5'", "--version=5"),
]
#: Of an option in whichever command it stands.
SHARED = {
    "--seed": [("seed must be a whole number >= 0", "-1")],
    "--cell": [("there is no cell 'LSTN'|--cell says of which cell a model file is made", "LSTN")],
    "--threads": [("threads must be a whole number >= 1, not 0", "0")],
    "--backend": [("invalid choice: 'cobol'", "cobol")],
    "--encoding": [("'klingon' is not an encoding that Python knows", "klingon")],
    "--core-seconds": [("core_seconds must be", "0")],
    "--l2": [("l2 must be a finite number >= 0, not -1", "-1")],
}


class Bad(NamedTuple):
    """A command line, what it is about, and a pattern of the answer."""

    arguments: list[str]
    about: str
    says: str


def bad(line: str, says: str, good: str = "") -> Bad:
    """Of a row: the first option in it is what it is about, by any of its names, with the value that follows it."""
    words = shlex.split(re.sub(r"<(.+?)\*(\d+)>", lambda found: found[1] * int(found[2]), line))
    about, *values = [
        *words[next((i for i, w in enumerate(words) if w.startswith("--")), len(words)) :],
        "",
        "",
    ]
    name = re.escape(about.lstrip("-")).replace(r"\-", "[-_]")
    says = says.replace("{option}", f"(--)?{name}").replace("{value}", re.escape(values[0]))
    return Bad([*shlex.split(good), *words], about, says)


def rows(command: str) -> list[Bad]:
    """All of a command; of none for ""."""
    if not command:
        return [bad(line, says) for says, line in NONE]
    found = []
    for says, *lines in ROWS[command]:
        for line in lines:
            alone = line.split(maxsplit=1)[0] == command
            found.append(bad(line, says, "" if alone else GOOD[command]))
    return [*found, *of_every_option(command)]


def options_of(command: str) -> list[argparse.Action]:
    """What its parser knows besides --help."""
    (commands,) = (a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return [
        a for a in commands.choices[command]._actions if a.option_strings and a.dest not in ("help", "debug")
    ]


def of_every_option(command: str) -> Iterator[Bad]:
    """Refused for what it is, whatever it means: no value, an empty one, one of another type."""
    good = shlex.split(GOOD[command])
    for action in options_of(command):
        name = action.option_strings[0]
        wrong = {value: says for says, value in SHARED.get(name, ())}
        if action.nargs == 0:
            wrong["yes"] = f"argument {name}: ignored explicit argument 'yes'"
        else:
            yield Bad([*good, name], name, f"argument {name}: expected one argument")
        if action.type is int:
            for value in ("many", "1.5", "", "--", "1_0", " 1", "\N{ARABIC-INDIC DIGIT THREE}"):
                wrong[value] = f"argument {name}: invalid int value: '{value}'"
        elif action.type is float:
            wrong["nan"] = f"{name} must be a number, not nan"
            for value in ("1,5", "--", "1_0", "\N{ARABIC-INDIC DIGIT THREE}"):
                wrong[value] = f"argument {name}: invalid float value: '{value}'"
        elif action.choices:
            for value in ("", "--"):
                wrong[value] = f"argument {name}: invalid choice: '{value}'"
        elif action.nargs is None and action.metavar not in TEXTS:
            wrong[""] = f"{name} is empty; say what it is, or leave it out"
            wrong["a\0b"] = f"{name} 'a\\\\x00b' has a character 0 in it"
        for value, says in wrong.items():
            yield Bad([*good, f"{name}={value}"], name, says)


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
    "twice.csv": "a,a\n1,2\n",
    "empty.csv": "",
    "picture.png": b"\x89PNG\r\n\x1a\n" + bytes(100),
}


def make_place(place: Path) -> None:
    """The folder in which the rows run; call it from there."""
    for name, content in FILES.items():
        (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for name in ("folder", "folder.svg", "damaged"):
        (place / name).mkdir()
    for name in ("loop", "loop.py", "loop.svg"):
        (place / name).symlink_to(name)
    for name in ("zero", "zero.py", "zero.jsonl"):
        (place / name).symlink_to("/dev/zero")
    (place / "full.svg").symlink_to("/dev/full")
    for name in ("pipe", "pipe.svg"):
        os.mkfifo(place / name)
    symbols = len(set(TEXT))
    for name, cell in (("model", rnn.GRU(4)), ("rhn", rnn.RHN(4, depth=2)), ("lstm", rnn.LSTM(4))):
        network = rnn.Network([cell], inputs=symbols, outputs=symbols)
        network.vocabulary = Vocabulary.of(TEXT)
        rnn.save(network, place / f"{name}.safetensors")
    rnn.save(rnn.Network([rnn.Elman(2)], 2, 2), place / "vectors.safetensors")
    numbers = np.linspace(-1, 1, 60, dtype="f4").reshape(5, 6, 2)
    more = {"w": np.ones(6), "labels": np.arange(6) % 2, "s": numbers > 0}
    np.savez(place / "numbers.npz", x=numbers, y=numbers[..., :1], **more)
    np.savez(place / "objects.npz", x=np.array([{}, 1], object), y=numbers)
    np.savez(place / "infinite.npz", x=np.full((5, 6, 2), np.inf), y=numbers)
    rnn.save(rnn.Network([rnn.Elman(2)], 2, 1, "squared"), place / "numbers.safetensors")
    (place / "hard.txt").hardlink_to(place / "text.txt")
    network.parameters["output.b_o"].value[0] = np.nan  # which `save` refuses, and other programs do not
    odd = ModelFile(model_tensors(network), describe_model(network))
    (place / "nan.safetensors").write_bytes(odd.to_bytes())
    content = (place / "model.safetensors").read_bytes()
    (place / "cut.safetensors").write_bytes(content[: len(content) // 2])
    assert main([*shlex.split(GOOD["train"]), "--out", "run", "--quiet"]) == 0
    assert main([*shlex.split(GOOD["train"]), "--cell", "cells.py:Own", "--out", "own", "--quiet"]) == 0
    (place / "own" / "model.safetensors").rename(place / "own.safetensors")
    (place / "damaged" / "checkpoint-000000001.safetensors").write_bytes(TEXT.encode())
    assert set(GOOD) == set(COMMANDS)
