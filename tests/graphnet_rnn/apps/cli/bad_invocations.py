"""Invalid commands, and the error of each.

A row has a pattern of the error, and one or several additions to a valid command (`GOOD`). In the pattern,
{option} is the first option of the addition, and {value} its value. In an addition, <x*9> means nine x.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import save

import graphnet_rnn as rnn
from graphnet_rnn.apps.cli import TEXTS, all_commands, main, make_parser
from graphnet_rnn.data import Vocabulary
from graphnet_rnn.formats.model_file import FORMAT, KEY, ModelFile, describe_model, model_tensors

TEXT = "a cat sat on a mat, and a rat sat on the cat. " * 30

#: Valid arguments of each command.
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
#: For each command: pattern of the error, and additions (a line that begins with the command is complete).
ROWS: dict[str, list[tuple[str, ...]]] = {
    "demo": [
        ("{option} must be a number of seconds >= 0, not {value}", "--seconds -1", "--seconds inf"),
        ("exists, and was not created by the demo", "--out ."),
    ],
    "train": [
        ("there is no file none.txt", "train none.txt --out new", "train none.txt --resume run"),
        ("folder is a folder; name a file in it", "train folder --out new"),
        ("empty is empty", "train empty --out new"),
        ("fewer than one batch needs", "train short.txt --out new", "--time 99999999", "--batch 99999999"),
        ("pipe is an empty pipe", "train pipe --out new"),
        ("zero cannot be read: it is a device", "train zero --out new"),
        ("data must not be empty; give a value", "train '' --out new"),
        ("File name too long", "train <x*5000> --out new", "--out <y*300>"),
        ("unrecognized arguments: valid.txt", "train text.txt valid.txt"),
        (r"unrecognized arguments: --epocs 3 \(did you mean --epochs\?\)", "train text.txt --epocs 3"),
        (r"short.txt has 5 character\(s\), but the first --time", "--valid short.txt --time 50"),
        ("are not in the vocabulary of the model: 'φ'", "--valid greek.txt"),
        ("{option} and --test need a training text", "train --valid valid.txt --out new"),
        ("{option} FILE needs --valid FILE as well", "--test valid.txt"),
        ("{option} needs --valid FILE", "--unknown zz"),
        ("greek.txt is not ascii text .byte 0xcf at offset 0", "--encoding ascii --valid greek.txt"),
        ("{option} must be one character of the vocabulary, not 'zz'", "--unknown zz --valid greek.txt"),
        ("cells.py is a file; choose a cell: cells.py:Own or cells.py:Fails", "--cell cells.py"),
        ("cells.py has no cell 'None'; its cells: Own, Fails", "--cell cells.py:None"),
        (r"exits.py cannot be imported: SystemExit: 3 \(exits.py:1\)", "--cell exits.py:Cell"),
        (r"raises.py cannot be imported: Odd: two lines \(raises.py:4\)", "--cell raises.py:Cell"),
        ("there is no file zero.py of Python code", "--cell zero.py:Cell"),
        ("./cells cannot be imported", "--cell ./cells:Own"),
        ("no.such.module cannot be imported: ModuleNotFoundError", "--cell no.such.module:Cell"),
        ("cannot be read.*; write it as in Python", "--cell 'RHN(depth=)'", "--cell 'RHN()(3)'",
            "--optimizer 'adam(rate=0.1'", f"--optimizer 'hf(window=3, {'{0:' * 300}1{'}' * 300})'"),
        (r"depth = 1,000,000,000 makes about [\d,]+ nodes, which would take", "--cell 'RHN(depth=1000000000)'"),
        ("argument 'x'; its settings: RHN.units=128, depth=7", "--cell 'RHN(x=1)'"),
        ("--units 5 and .* both set the number", "--cell 'RHN(units=4)' --units 5", "--cell 'GRU(64)' --units 5",
            "--cell 'Residual(GRU(3))' --units 5", "--cell 'cells.py:Own(3)' --units 5"),
        (r"Mine has no setting units; leave out --units, .*: Mine\(depth=3\)", "--cell cells.py:Mine --units 5"),
        (r"10 \*\* 9 is not a setting", "--cell 'RHN(units=10**9)'"),
        ("weights .* would take .* of memory", "train text.txt --cell 'LSTM(units=2147483647)' --out new"),
        ("sets depth twice", "--cell 'RHN(depth=2, depth=3)'"),
        ("cannot be read|there is no cell", "--cell '<(*3000>'"),
        ("{option} must be a whole number >= 1, not {value}", "--units 0", "--layers 0", "--time 0",
            "--batch 0", "--stride 0", "--gradient-batches 0", "--log-every 0", "train numbers.npz --buckets 0",
            "train numbers.npz --pieces 0", "--epochs 0", "--steps 0"),
        ("{option} 100000000 makes about 100,000,000 nodes, which would take", "--layers 100000000"),
        ("{option} must be at most", "--units <9*25>", "--layers <9*25>", "--epochs <9*25>", "--seed <9*25>",
            "--curvature-batches 9 --optimizer hf --gradient-batches 2"),
        ("{option}, the share that is zeroed, must be in", "--dropout 1", "--dropout -0.1", "--recurrent-dropout 1.5"),
        ("there is no optimizer 'adamm'.*Did you mean adam", "--optimizer adamm"),
        ("write settings of optimizers by name", "--optimizer 'adam(0.1)'", "--optimizer 'riemannian(ruop, kfac)'",
            "--optimizer 'riemannian(ruop, metric=kfac)'"),
        ("rate must be a number", "--optimizer 'adam(rate=1<0*400>)'"),
        ("ruop is not a setting", "--optimizer 'adam(ruop)'"),
        ("foo is not a setting; .*, or one of ruop, rbpm, .*frequency$", "--optimizer 'riemannian(foo)'"),
        ("kfac has no settings; write kfac alone", "--optimizer 'riemannian(kfac(damping=1))'"),
        ("there is no metric or schedule 'Nothing'", "--optimizer 'riemannian(Nothing(1))'"),
        ("both set rate; leave out one", "--optimizer 'adam(rate=0.1)' --rate 0.2"),
        ("{option} must be a finite number > 0, not {value}", "--rate 0", "--rate inf"),
        ("{option} does not apply to --optimizer lbfgs", "--rate 0.1 --optimizer lbfgs"),
        ("{option} multiplies the learning rate, but --optimizer lbfgs", "--schedule 'Warmup(500)' --optimizer lbfgs"),
        (r"{option} must be in \[0, 1\], not {value}", "--average 1.5"),
        ("there is no schedule 'warmup'.*Did you mean Warmup", "--schedule 'warmup(500)'"),
        ("cannot be read: .*; write it as in Python: 'Warmup", "--schedule 'Warmup(500) then Cosine(9)'"),
        ("'0.5' is not a schedule; an example: 'Warmup", "--schedule 0.5"),
        ("Warmup is not a setting; a setting is a number.*or a schedule", "--schedule Warmup"),
        ("Warmup: too many positional arguments; its settings: Warmup", "--schedule 'Warmup(5, 6, 7)'"),
        ("is not a setting", "--schedule 'Warmup(5).until(9)'",
            "--schedule '(1, 2) * Warmup(5)'"),
        ("{option} must be > 0, or 0 for no limit, not {value}", "--clip-norm -1", "--clip-values -1"),
        ("{option} does not apply to --optimizer hf", "--clip-norm 1 --optimizer hf"),
        ("applies only to first-order optimizers", "--clip-values 1 --optimizer hf"),
        (r"{option} must be at most time \(5\)", "--stride 9"),
        ("{option} applies only to segments with carried states",
            "--stride 2 --gradient-batches 2", "--shares 2 --gradient-batches 2"),
        ("{option} applies only to independent sequences", "--curvature-batches 2", "--unscored 2"),
        ("{option} needs --fold", "--gap 3", "train numbers.npz --gap 1"),
        ("patience must be a whole number >= 1, not {value}", "--patience 0"),
        ("{option} does not apply with --no-early-stopping", "--patience 3 --no-early-stopping"),
        ("{option} must be K/N, such as 1/5", "--fold 6/5"),
        ("{option} must divide the batch", "--shares 3"),
        ("{option} names 'layer7.*', which no parameter matches; the parameters are layer0.", "--frozen layer7.*"),
        ("is not a valid file of arrays", "train text.npz", "train objects.npz"),
        ("must have a row of column names, then rows of values", "train empty.csv"),
        ("name the target columns; the columns are who, a, b", "train table.csv"),
        ("has no column '{value}'", "train table.csv --target c", "train table.csv --weights d --target b",
            "train table.csv --inputs c --target b"),
        ("has no column 'z'", "train table.csv --target b --categories z",
            "train table.csv --target b --time-column z"),
        ("calendar must be of hour, weekday, day, month, not 'moon'",
            "train table.csv --target b --time-column a --calendar moon"),
        ("row 1 of the column 'who' is 'ann', but must be %Y",
            "train table.csv --target b --time-column who --date-format %Y"),
        ("horizon must be a whole number >= 1, not 0", "train table.csv --target b --horizon 0"),
        ("metrics must be functions of the model, or names of metrics of Arrays", "train numbers.npz --metrics z"),
        ("--inputs must be different names", "train table.csv --target b --inputs a,"),
        ("cases with one target", "train table.csv --target b --case who --pool last --pieces 1",
            "train numbers.npz --target labels --pieces 2"),
        ("date_format must have codes of strptime, e.g. %d", "train table.csv --target b --date-format dd.mm.yyyy"),
        ("loss squared: the target 'who' holds classes", "train table.csv --loss squared --target who"),
        ("loss sigmoid: the target 'who' holds classes", "train table.csv --loss sigmoid --target who"),
        ("a table has only one: use arrays", "train table.csv --target who --loss ctc"),
        ("horizon does not apply to independent rows", "train table.csv --target b --horizon 2 --independent-rows"),
        ("--lengths applies only to arrays", "train table.csv --target b --case who --lengths a"),
        ("{option} must be whole numbers", "train numbers.npz --lengths x"),
        ("has no array '{value}'", "train numbers.npz --lengths z", "train numbers.npz --inputs a",
            "train numbers.npz --target t"),
        ("argument {option}: invalid choice: '{value}'", "train numbers.npz --pool first",
            "train numbers.npz --loss cubed"),
        ("targets must be", "train numbers.npz --pool last", "train numbers.npz --loss softmax",
            "train numbers.npz --target padding --loss softmax"),
        ("inputs must be symbols", "train numbers.npz --inputs padding"),
        ("targets have no values", "train narrow.npz"),
        ("{option} does not apply to a text", "train text.txt --pool last", "train text.txt --buckets 3"),
        ("two columns have the same name", "train twice.csv --target a"),
        ("'b' is among the inputs and among the targets", "train table.csv --target b --inputs a,b"),
        ("{option} must be", "train numbers.npz --weights x"),
        ("--case applies only to tables", "train numbers.npz --case w"),
        ("gap applies to blocks of time", "train numbers.npz --fold 1/2 --gap 1"),
        ("{option} does not apply", "train numbers.npz --time 3", "train numbers.npz --unknown x",
            "train task:addition(20) --stride 3", "train task:addition(20) --valid text.txt"),
        ("there is no problem task:nothing", "train task:nothing(3)"),
        ("write task:addition", "train task:addition"),
        ("argument {option}: invalid float value: '{value}'", "--goal nan"),
        ("--log-every cannot change on --resume, unlike .* --steps", "train --resume run --log-every 3"),
        ("{option} must be sqrt, or a number of bytes, not {value}", "--memory lots", "--memory 0"),
        ("{option} must be a whole number >= 0, not {value}", "--sample -1"),
        ("{option} must be at most 100,000 characters", "--sample 99999999"),
        ("run already contains a run", "--out run"),
        ("cannot be created: ", "--out text.txt", "--out text.txt/deep/x", "--out loop"),
        ("none cannot be resumed. There is no checkpoint in it", "train --resume none"),
        ("damaged cannot be resumed. .* is not a graphnet model", "train --resume damaged"),
        ("--seed, --skip cannot change on --resume", "train --resume run --seed 0 --skip"),
        ("--optimizer cannot change", "train --resume run --optimizer adam"),  # also one that is the default
        ("--start cannot change", "train --resume run --start model.safetensors"),
        ("cannot be continued", "train valid.txt --resume run"),
        (", so leave out --layers, --units", "train text.txt --start model.safetensors --units 5 --layers 2"),
        (", so leave out {option}", "train text.txt --cell 'cells.py:Typo(4)' --start model.safetensors",
            "train text.txt --pool last --start model.safetensors"),
        ("{option} must be a finite number >= 0, not {value}", "--checkpoint-seconds -1"),
    ],
    "sample": [
        ("there is no file none.safetensors", "sample none.safetensors"),
        ("is not a graphnet model", "sample text.txt", "sample empty"),
        (r"there is no file a\\x1b\]0;owned\\x07", "sample 'a\x1b]0;owned\x07'"),
        ("zero is a device; name a file", "sample zero"),
        ("is damaged or cut short", "sample cut.safetensors"),
        ("flipped.safetensors is damaged: its content does not match", "sample flipped.safetensors"),
        (f"is of format {FORMAT + 1}, newer than this program reads .{FORMAT}", "sample newer.safetensors"),
        ("must have a vocabulary, but it was not trained on text", "sample vectors.safetensors"),
        ("the following arguments are required: model", "sample", "sample --"),
        ("own.safetensors .*Own", "sample own.safetensors"),
        ("nan.safetensors: 1 of .* of the weight output.b_o are nan or infinite", "sample nan.safetensors"),
        ("{option} must be a whole number >= 1, not {value}", "--length 0"),
        ("{option} must be >= 0 .* not {value}", "--temperature -1"),
        ("--argmax is temperature 0, which contradicts --temperature", "--temperature 0.5 --argmax"),
        ("are not in the vocabulary of the model: 'Z' 'b'", "--warm-up Zebra"),
        (r"are not in the vocabulary of the model: '\\udcff'", "--warm-up a\udcff"),
        ("{option} needs --warm-up", "--unknown a"),
    ],
    "evaluate": [
        ("the following arguments are required: data", "evaluate model.safetensors"),
        ("has no vocabulary: it was trained on sequences, not on text", "evaluate numbers.safetensors text.txt"),
        ("{option} applies only to texts", "evaluate numbers.safetensors numbers.npz --context 3"),
        ("{option} applies only to forecasts of numbers", "evaluate numbers.safetensors numbers.npz --season 3"),
        ("{option} does not apply to a text", "--target y", "--season 3"),
        ("a context of 50 leaves none to score", "evaluate model.safetensors short.txt"),
        ("are not in the vocabulary of the model: 'φ'", "evaluate model.safetensors greek.txt"),
        ("{option} must be a whole number >= 0, not {value}", "--context -1", "--at -1 --colour"),
        ("time must be a whole number >= 1, not {value}", "--dynamic-time 0 --dynamic 0.1"),
        ("{option} must be a whole number >= 1, not {value}", "--lanes 0",
            "--length 0 --colour"),
        ("in one lane; leave --lanes 3 out", "--lanes 3 --dynamic 0.1"),
        ("{option} must be .*0, not {value}", "--dynamic 0", "--dynamic inf"),
        ("leave --dynamic out", "--dynamic 0.1 --colour"),
        ("{option} needs --dynamic", "--dynamic-time 5", "--dynamic-decay 0.1"),
        ("unrolling over 99,999,999 steps makes about .* would take", "--dynamic-time 99999999 --dynamic 0.1"),
        (r"decay must be in \[0, 1\), not {value}", "--dynamic-decay 1 --dynamic 0.1"),
        ("{option} {value} would overwrite the data; name another", "--save text.txt", "--save ./hard.txt"),
        ("this file already exists and is not a .txt file of this program", "--save valid.txt"),
        ("{option} and --costs are the same file", "--save new.svg --costs ./new.svg"),
        ("{option} needs --colour or --save", "--at 5", "--length 5", "--theme dark"),
        ("there is no excerpt at 99,999,999; give a smaller --at", "--at 99999999 --colour"),
        ("{option} needs --costs", "--split"),
    ],
    "draw": [
        ("depends on validation costs", "draw 'OnPlateau()' --out new.svg"),
        ("{option} applies to cells and models, not to schedules", "draw 'Cosine(5)' --theme dark --out new.svg"),
        ("{option} does not apply to a cell with --show graph", "--time 5"),
        ("{option} new.dot: the name of a chart must end in", "draw '2 * Warmup(5)' --out new.dot"),
        ("the following arguments are required: what", "draw"),
        ("what must not be empty", "draw ''"),
        ("folder is a folder without a run", "draw folder"),
        ("text.txt is not a cell; give the name of a cell", "draw text.txt"),
        ("this folder already exists and contains no explain.txt", "--show dump --out run"),
        ("history 'none.jsonl' cannot be read", "draw none.jsonl"),
        ("history 'zero.jsonl' cannot be read: it is a device", "draw zero.jsonl"),
        ("line 1, is not JSON", "draw text.jsonl"),
        ("history holds nothing to draw", "draw empty.jsonl"),
        ("only runs can be compared in one chart; 'LSTM' is neither", "draw run LSTM"),
        ("./x/y is not a cell, and there is no such file", "draw './x/y'"),
        ("{option} curve needs a run", "--chart curve"),
        ("this is a (folder|device|pipe); name a file", "--out folder.svg", "--out full.svg", "--out pipe.svg"),
        ("this is a folder; name a file", "--out new.svg/"),
        ("must end in one of .svg, .png, .pdf", "draw run --out new.html", "draw run run --out new.html"),
        ("must end in .html", "--show explorer"),
        ("must be a folder", "--show dump"),
        ("{option} applies to cells", "draw run --show mirror", "draw run --style full", "draw run --theme dark",
            "draw run --time 4"),
        ("{option} must be a whole number >= 1, not {value}", "--time 0 --show inside"),
        ("unrolling over 99,999,999 steps makes about .* would take", "--time 99999999 --show inside"),
    ],
    "check": [
        ("the following arguments are required: cell", "check"),
        (r"Stateless needs a method step\(self, x, h\)", "check cells.py:Stateless"),
        (r"Cuts: gradient = finite difference fails.*in layer0\.(W|b)_[\s\S]*cells\.py:\d+", "check cells.py:Cuts"),
        (r"MatMul: axis k is 4 in input 1 but 1 in[\s\S]*in Shape\.step at cells\.py:\d+", "check cells.py:Shape"),
        (r"Fails cannot be created: Odd: in __init__ \(\S*cells.py:\d+\)", "check \"cells.py:Fails('odd')\""),
        ("Fails cannot be created: SystemExit: 3", "check \"cells.py:Fails('exits')\""),
        (r"AttributeError in Typo\.step at cells\.py:\d+: .*no attribute 'afine'", "check cells.py:Typo"),
        ("missing a required argument: 'units'; its settings: Settings.units, ", "check cells.py:Settings"),
        (r"State\('h'\) at wide.py:4: the width must be .*, not 0.5", "check wide.py:C"),
    ],
    "cells": [
        ("cells must not be empty", "cells ''"),
        (r"RuntimeError: no such thing \(\S*cells.py:\d+\); --debug", "cells cells.py:Hides"),
        (r"RuntimeError: not shown \(\S*cells.py:\d+\); --debug", "cells cells.py:Unshown"),
        ("weights .* would take .* of memory", "cells 'LSTM(units=2147483647)'", "cells 'EchoState(units=1000000)'"),
        ("there is no cell 'GRUU'.* Did you mean GRU?", "cells 'Residual(GRUU(3))'"),
        ("there is no cell 'Unshow'.* Did you mean Unshown?", "cells 'cells.py:Hides(Unshow(3))'"),
        ("there is no cell 'open'", "cells \"Residual(open('text.txt'))\""),
        ("is not a setting", "cells 'LSTM(units=<1+*500>1)'", "cells 'Dense(units=(lambda: 3)())'"),
        (r"relu is not a setting; a setting is a number, a 'word' in quotes", "cells 'Dense(activation=relu)'"),
        ("write settings one by one", "cells 'GRU(**{})'"),
        ("a random graph of 10,000,000,000 edges would take", "cells 'GNN(units=1000000000)'"),
        ("nan is not a setting.*or a cell with parentheses$", "cells 'EchoState(leak=nan)'"),
    ],
    "export": [
        ("the following arguments are required: model", "export"),
        ("the following arguments are required: --to, --out", "export model.safetensors"),
        ("nan.safetensors: 1 of the .* are nan or infinite", "export nan.safetensors --to onnx --out new.onnx"),
        ("RHN", "export rhn.safetensors --to torch --out new.safetensors"),
        ("would overwrite the model; name another file", "--out model.safetensors"),
        ("a file for torch must end in .safetensors", "--out new.onnx"),
        ("this file already exists and is a graphnet model", "--out run/model.safetensors"),
        ("prefix must be a module's name with a dot after it, as 'rnn.', or '', not 'rnn'",
            "export lstm.safetensors --to torch --out new.safetensors --prefix rnn"),
        ("must differ; both are 'rnn.'",
            "export lstm.safetensors --to torch --out new.safetensors --output-prefix rnn."),
        ("text.txt is a file, not a folder; name a folder, or a file that ends in .c", "--to c --out text.txt"),
        ("--lengths does not apply to --to {value}", "--to c --out new --lengths"),
        ("{option} does not apply to --to torch", "--time 5", "--batch 5", "--initial zero"),
        ("{option} does not apply to --to onnx", "--prefix rnn. --to onnx", "--output-prefix o. --to onnx"),
    ],
    "control": [
        ("invalid choice: 'reach'", "control reach --out new"),
        ("{option} must be a whole number >= 1, not {value}", "--units 0", "--movements -1", "--epochs 0",
            "--steps 0"),
        ("weights .* would take .* of memory", "--units 99999999"),
        ("{option} applies only to first-order optimizers", "--clip-values 1"),
        ("CenterOut has the same movements in every batch", "--gradient-batches 2"),
        ("{option} does not apply to postural", "control postural --movements 5 --out new"),
        ("{option} applies only to ddn", "--plant-noise 0.1"),
        ("{option} must be|memory must be", "--memory lots"),
        ("{option} must be a finite number >= 0, not {value}", "control ddn --plant-noise -1 --out new",
            "--checkpoint-seconds -1"),
        ("steps must be a whole number >= 1, not {value}", "--epoch-steps 0"),
    ],
    "tasks": [
        ("{option} must be a whole number >= 10, not {value}", "--length 3"),
        ("sequences of .* steps would take .* of memory", "--length 99999999", "--batch 99999999",
            "--gradient-batches 99999999", "--test 99999999"),
        ("{option} is only for --optimizer hf", "--no-structural --optimizer adam"),
        ("both set structural", "--no-structural --optimizer 'hf(structural=1)'"),
        ("{option} must be a whole number >= 1, not {value}", "--units 0", "--batch 0", "--gradient-batches 0",
            "--test 0"),
        ("weights .* would take .* of memory", "--units 99999999"),
        ("{option}.* must be at least 1", "--steps 0", "--test-every 0"),
    ],
    "complete": [
        ("the network must have a vocabulary", "complete vectors.safetensors"),
        ("{option} must be a whole number >= 1, not {value}", "--length 0"),
        ("{option} must be a finite number > {value}", "--temperature 0"),
        (r"the pattern '\(a' is invalid at character 3: a \( is not closed", "--pattern (a"),
        ("are not in the vocabulary of the model: '{value}'", "--ending φ", "--start φ", "--ending φ --unknown a"),
        ("{option} applies to --method beam, not to exact", "--width 5"),
        ("--seed applies to --method exact or weighted, not to {value}", "--method beam --seed 1"),
        ("a beam of width 64 cannot find 99 texts", "--method beam --count 99"),
        ("stop must be one character of the model's vocabulary", "--stop-line"),
        ("4 texts need at least as many attempts", "--attempts 3 --count 4"),
    ],
    "timelag": [
        ("{option} must be a whole number >= 1", "--steps 0", "--runs 0", "--smooth 0"),
        ("are not in the vocabulary of the model: '{value}'", "--open φ", "--warm-up φ", "--control φ"),
        ("name a model, or a text to write", "timelag"),
        ("the network must have a vocabulary", "timelag vectors.safetensors"),
        (r"are not in the vocabulary of the model: '\['", "timelag model.safetensors"),
        ("a model is named twice", "timelag model.safetensors model.safetensors --open a --control b --brackets am"),
        ("{option} must be two (different )?characters", "--brackets abc", "--brackets aa"),
        ("{option} needs --figure", "--ideal 2"),
        ("{option} needs --write-text", "--characters 5"),
        ("only writes a text; leave", "--write-text new.txt"),
        ("this file already exists", "timelag --write-text text.txt"),
        ("characters must be a whole number >= 1", "timelag --write-text new.txt --characters 0"),
    ],
    "debag": [
        ("the network must have a vocabulary", "debag vectors.safetensors text.txt"),
        ("exists and is not a .jsonl file of this program", "--out run/history.jsonl"),
        ("has .* passages of 7, not 99,999", "--bags 99999"),
        ("{option} must be at most 9, not {value}", "--words 10"),
        ("{option} must be a whole number >= 1", "--context 0", "--beam 0"),
        ("{option} needs --split or --ngrams FILE", "--order 3"),
        ("leave out one", "--split --ngrams text.txt"),
        ("order must be at most", "--ngrams text.txt --order 99"),
        ("would overwrite the model", "--out model.safetensors"),
    ],
    "write": [
        ("cut.safetensors", "write cut.safetensors --html"),
        ("the network must have a vocabulary", "write vectors.safetensors --html"),
        ("there is no folder none for new.txt", "write none/new.txt --html",
            "write model.safetensors none/new.txt --html"),
        ("is not a text in UTF-8", "write model.safetensors binary --html"),
        ("is not a terminal", "write model.safetensors"),
        ("{option} must be >= 0", "--temperature -1"),
        ("rate must be > 0, not {value}", "--learn 0"),
        ("{option} and --theme apply only to the terminal; on the page of --html", "--colour"),
        ("{option} needs --colour", "--theme dark"),
    ],
    "predict": [
        ("the following arguments are required: --out", "predict numbers.safetensors numbers.npz"),
        ("arguments: --weights w", "predict numbers.safetensors numbers.npz --out new.npz --weights w"),
        ("--target does not apply to predictions", "predict numbers.safetensors numbers.npz --out new.npz --target y"),
        ("a file of sequences must end in .npz, .csv", "predict numbers.safetensors text.txt --out new.npz"),
        ("the name of predictions must end in one of .npz, .csv", "predict numbers.safetensors numbers.npz --out ."),
        ("is a model of text; use the command sample", "predict model.safetensors text.txt --out new.npz"),
        ("the cells of numbers.safetensors are", "predict numbers.safetensors numbers.npz --out new.npz --cell RHN"),
        ("would overwrite the data", "predict numbers.safetensors numbers.npz --out numbers.npz"),
        ("exists and is not a .npz file of this program", "predict numbers.safetensors table.csv --out numbers.npz"),
        (r"the model reads 2 inputs, but table.csv has \d+ \(who = ann,",
            "predict numbers.safetensors table.csv --out new.csv"),
        ("the model reads 2 inputs, but those of wide.npz are 3 numbers wide",
            "predict numbers.safetensors wide.npz --out new.csv"),
        ("--chart shows forecasts of numbers in tables",
            "predict numbers.safetensors table.csv --inputs a,b --out new.csv --chart c.svg"),
    ],
    "sweep": [
        ("there is no file none", "sweep none.toml"),
        ("there is no sweep in folder", "sweep folder"),
        ("folder is the folder of a sweep, and --out names another", "sweep folder --out new"),
        ("folder is the folder of a sweep, which has its data", "sweep folder --data text.txt"),
        ("joblib cannot use", "--parallel nothing"),
        (r"{option}|loky\(", "--parallel loky("),
        ("name the setting", "--parallel loky(3)"),
        ("text.txt is not valid TOML", "sweep text.txt"),
        ("train has no setting unit; it has .* Did you mean units", "sweep odd.toml"),
        ("exists and is not a sweep", "--out folder/../run"),
        ("{option} must be a whole number >= 1, not {value}", "--workers 0"),
        ("already exists and is not a .md", "--report notes.md"),
        ("{option} needs --figure", "--against units", "--by units", "--panels units"),
        ("there is no sweep in new to report", "sweep recipe.toml --out new --only-report"),
    ],
}  # fmt: skip
#: Arguments without a valid command.
NONE = [
    ("the following arguments are required: command", ""),
    ("invalid choice: 'dance'", "dance"),
    (r"invalid choice: 'trian' .* \(did you mean train\?\); see graphnet-rnn --help", "trian text.txt"),
    ("invalid choice: '5'", "--units 5"),
    ("ignored explicit argument '5'", "--version=5"),
]
#: Cases of options that several commands have.
SHARED = {
    "--seed": [("seed must be a whole number >= 0", "-1")],
    "--cell": [("there is no cell 'LSTN'|--cell is only for model files", "LSTN")],
    "--threads": [("threads must be a whole number >= 1, not 0", "0")],
    "--encoding": [("must be one that Python has, e.g. 'utf-8' or 'latin-1', not 'klingon'", "klingon")],
    "--core-seconds": [("core_seconds must be", "0")],
    "--l2": [("l2 must be a finite number >= 0, not -1", "-1")],
}


class Bad(NamedTuple):
    """A command line, the option that it tests, and a pattern of the error."""

    arguments: list[str]
    about: str
    says: str


def bad(line: str, says: str, good: str = "") -> Bad:
    """Makes a case from a row. Its first option is the one that the error must name, with its value."""
    words = shlex.split(re.sub(r"<(.+?)\*(\d+)>", lambda found: found[1] * int(found[2]), line))
    first = next((i for i, word in enumerate(words) if word.startswith("--")), len(words))
    about, value = [*words[first:], "", ""][:2]
    name = re.escape(about.lstrip("-")).replace(r"\-", "[-_]")
    says = says.replace("{option}", f"(--)?{name}").replace("{value}", re.escape(value))
    return Bad([*shlex.split(good), *words], about, says)


def rows(command: str) -> list[Bad]:
    """All rows of a command; for "", those without a command."""
    if not command:
        return [bad(line, says) for says, line in NONE]
    found = []
    for says, *lines in ROWS[command]:
        for line in lines:
            alone = line.split(maxsplit=1)[0] == command
            found.append(bad(line, says, "" if alone else GOOD[command]))
    return [*found, *of_every_option(command)]


def options_of(command: str) -> list[argparse.Action]:
    """Options of the command, without --help and --debug."""
    (commands,) = (a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    known = commands.choices[command]._actions
    return [each for each in known if each.option_strings and each.dest not in ("help", "debug")]


def of_every_option(command: str) -> Iterator[Bad]:
    """Cases that are invalid for any meaning: no value, an empty one, one of another type."""
    good = shlex.split(GOOD[command])
    for action in options_of(command):
        name = action.option_strings[0]
        wrong = {value: says for says, value in SHARED.get(name, ())}
        if action.nargs == 0:
            wrong["yes"] = f"argument {name}: ignored explicit argument 'yes'"
        else:
            yield Bad([*good, name], name, f"argument {name}: expected one argument")
        if action.type is int:
            for value in ("many", "1.5", ""):
                wrong[value] = f"argument {name}: invalid int value: '{value}'"
        elif action.type is float:
            for value in ("nan", "1,5"):
                wrong[value] = f"argument {name}: invalid float value: '{value}'"
        elif action.choices:
            wrong[""] = f"argument {name}: invalid choice: ''"
        elif action.nargs is None and action.metavar not in TEXTS:
            if action.metavar == "FOLDER":
                wrong["text.txt/x"] = (
                    "(can|could )not be (created|made|resumed|written)|Not a directory|is no folder"
                )
            if action.metavar == "FILE":
                places = [
                    "x.xyz",
                    *(f"none/x{ending}" for ending in (".svg", ".html", ".csv", ".jsonl", ".md")),
                ]
                wrong |= dict.fromkeys(places, rf"there is no (file|folder)|must end in|suffix must|{name} ")
            wrong[""] = f"{name} must not be empty; give a value, or leave it out"
        for value, says in wrong.items():
            yield Bad([*good, f"{name}={value}"], name, says)


# -- the folder --------------------------------------------------------------------------------------

CELLS = '''
import graphnet as gn
import graphnet_rnn as rnn


class Odd(BaseException):
    pass

class Own(rnn.Cell):
    """h' = tanh(x W_xh + h W_hh + b_h)"""
    states = (rnn.State("h"),)
    def step(self, x, h):
        return gn.tanh(self.affine("h", x=x, h=h))

class Fails(Own):
    def __init__(self, how):
        raise {"odd": Odd("in __init__"), "exits": SystemExit(3)}[how]

class Settings(Own):
    def __init__(self, units, *, speed):
        super().__init__(units)
        self.speed = speed

class Mine(Own):
    def __init__(self, depth=3):
        super().__init__(5)

class Typo(Own):
    def step(self, x, h):
        return gn.tanh(self.afine("h", x=x, h=h))

class Shape(Own):
    def step(self, x, h):
        return x @ h

class Cut(gn.Elementwise):
    kernel = "x"
    def forward(self, x):
        return x
    def partials(self, y, x):
        return [0 * x]

class Cuts(Own):
    def step(self, x, h):
        return gn.tanh(Cut()(self.affine("h", x=x, h=h)))

class Stateless(rnn.Cell):
    states = (rnn.State("h"),)

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
    "wide.py": "import graphnet_rnn as rnn\n\nclass C(rnn.Cell):\n    states = (rnn.State('h', 0.5),)\n",
    "binary": bytes(range(1, 256)) * 10,
    "text.jsonl": TEXT + "\n",
    "notes.md": "# Notes\n",
    "recipe.toml": "data = 'text.txt'\n[settings]\nunits = 4\nepochs = 1\n",
    "odd.toml": "data = 'text.txt'\n[settings]\nunit = 4\nepochs = 1\n",
    "table.csv": "who,a,b\nann,1,2\nann,2,3\nbob,3,5\nbob,4,9\n",
    "twice.csv": "a,a\n1,2\n",
    **dict.fromkeys(("empty", "empty.jsonl", "empty.csv"), b""),
    **{f"text{ending}": TEXT for ending in ("", ".safetensors", ".npz")},
}


def make_place(place: Path) -> None:
    """Fills the folder in which the rows run; call it from there."""
    for name, content in FILES.items():
        (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for name in ("folder", "folder.svg", "damaged"):
        (place / name).mkdir()
    for name in ("loop", "loop.svg"):
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
    more = {"w": np.ones(6), "labels": np.arange(6) % 2, "s": numbers > 0, "padding": -np.ones((5, 6), int)}
    np.savez(place / "numbers.npz", x=numbers, y=numbers[..., :1], **more)
    np.savez(place / "narrow.npz", x=numbers, y=np.zeros((5, 6, 0)))
    np.savez(place / "wide.npz", x=np.zeros((4, 2, 3)))
    np.savez(place / "objects.npz", x=np.array([{}, 1], object), y=numbers)
    rnn.save(rnn.Network([rnn.Elman(2)], 2, 1, "squared"), place / "numbers.safetensors")
    (place / "hard.txt").hardlink_to(place / "text.txt")
    network.parameters["output.b_o"].value[0] = np.nan  # `save` refuses this, but other programs may write it
    odd = ModelFile(model_tensors(network), describe_model(network))
    (place / "nan.safetensors").write_bytes(odd.to_bytes())
    content = (place / "model.safetensors").read_bytes()
    middle = len(content) * 3 // 4
    flipped = content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]
    newer = save({"w": np.zeros(1)}, {KEY: json.dumps({"format": FORMAT + 1})})
    for name, damaged in {"cut": content[:middle], "flipped": flipped, "newer": newer}.items():
        (place / f"{name}.safetensors").write_bytes(damaged)
    for options in (["--out", "run"], ["--cell", "cells.py:Own", "--out", "own"]):
        assert main([*shlex.split(GOOD["train"]), *options, "--quiet"]) == 0
    (place / "own" / "model.safetensors").rename(place / "own.safetensors")
    (place / "damaged" / "checkpoint-000000001.safetensors").write_bytes(TEXT.encode())
    assert set(GOOD) == set(all_commands()), "add the command to GOOD in bad_invocations.py"
