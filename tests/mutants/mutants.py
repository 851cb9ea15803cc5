"""Mutants: small mistakes in the code, each with the tests that should detect it.

old: text that is in the file exactly once; new: what takes its place. tests: arguments for pytest, files and folders
rather than the names of tests, which change more often.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """name: begins with its area."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


#: The laws over all ops.
LAWS = "tests/graphnet/ops/test_every_op.py"
HESSIAN_FREE = (
    "tests/graphnet_rnn/optimizers/test_hessian_free_rules.py",
    "tests/graphnet_rnn/optimizers/test_hessian_free.py",
)

# fmt: off
MUTANTS = [
    # -- graphnet/graph -------------------------------------------------------------------------------------------
    Mutant(
        "graph_unsigned_beside_float32", "graphnet/graph/dtypes.py",
        'any(d.kind in "iu" for d in dtypes)', 'any(d.kind in "i" for d in dtypes)',
        ("tests/graphnet/graph/test_errors.py", "tests/graphnet/ops/test_functions.py"),
    ),
    Mutant(
        "graph_nan_as_unsigned", "graphnet/graph/dtypes.py",
        "return int(info.min or info.max)", "return int(info.min)",
        ("tests/graphnet/ops/test_functions.py", "tests/graphnet/backends/test_edges.py"),
    ),
    Mutant(
        "graph_overflow_of_a_parameter", "graphnet/graph/dtypes.py",
        'np.errstate(over="raise")', 'np.errstate(over="ignore")',
        ("tests/graphnet/graph/test_errors.py",),
    ),
    Mutant(
        "graph_input_twice", "graphnet/graph/graph.py",
        "if len(listed) != len(self.inputs):", "if len(listed) > len(self.inputs):",
        ("tests/graphnet/graph/test_errors.py",),
    ),
    Mutant(
        "graph_source_serial", "graphnet/graph/node.py",
        "copy.serial if own_place else self.source_serial", "copy.serial if own_place else copy.serial",
        ("tests/viz/test_stages.py", "tests/viz/test_notes.py"),
    ),
    # -- graphnet/ops ---------------------------------------------------------------------------------------------
    Mutant(
        "ops_slope_of_erf", "graphnet/ops/elementwise/functions.py",
        "2 / math.sqrt(math.pi) * exp(-x * x)", "1 / math.sqrt(math.pi) * exp(-x * x)",
        (LAWS,),
    ),
    Mutant(
        "ops_ties_of_max", "graphnet/ops/reduce.py",
        "return winners / spread(Sum(self.axes)(winners), x, self.axes)", "return winners",
        ("tests/graphnet/graph/test_engine.py", "-k", "not deep"),
    ),
    Mutant(
        "ops_rest_of_chunks", "graphnet/ops/broadcast.py",
        "axis=axis) if rest.size else whole", "axis=axis) if rest.size > CHUNK else whole",
        ("tests/graphnet/backends/test_numerics.py", "tests/graphnet/backends/test_numerics.py"),
    ),
    Mutant(
        "ops_infinite_row_of_logsumexp", "graphnet/ops/reduce.py",
        "top = np.where(np.isfinite(top), top, 0)", "top = np.where(np.isnan(top), 0, top)",
        ("tests/graphnet/backends/test_edges.py", "tests/graphnet/graph/test_engine.py", "-k", "not deep"),
    ),
    Mutant(
        "ops_last_index_out_of_range", "graphnet/ops/index.py",
        "index.min() < 0 or index.max() >= size", "index.min() < 0 or index.max() > size",
        ("tests/graphnet/graph/test_errors.py",),
    ),
    Mutant(
        "ops_weights_of_distributions", "graphnet/ops/loss.py",
        "        return Sum((z.ndim - 1,))(t)\n\n    def _partials", "        return None\n\n    def _partials",
        ("tests/graphnet/ops/test_loss_curvature.py",),
    ),
    Mutant(
        "ops_ellipsis_of_einsum", "graphnet/ops/einsum.py",
        "ellipsis[broadcast - count :]", "ellipsis[:count]",
        ("tests/graphnet/ops/test_functions.py",),
    ),
    Mutant(
        "ops_rows_of_a_join", "graphnet/ops/shape.py",
        "if last >= edges[i + 1]:", "if last > edges[i + 1]:",
        ("tests/graphnet/testing/test_random_graphs.py", LAWS, "-k", "slice or concat"),
    ),
    # -- graphnet/derivatives, graphnet/operators -----------------------------------------------------------------
    Mutant(
        "derivatives_damping_replaces", "graphnet/derivatives/curvature.py",
        "cotangents[a] = cotangents[a] + penalty if a in cotangents else penalty", "cotangents[a] = penalty",
        ("tests/graphnet_rnn/optimizers/test_hessian_free.py", "-k", "damping"),
    ),
    Mutant(
        "derivatives_past_the_leaves", "graphnet/derivatives/gradient.py",
        "if not node.inputs or node in leaves:", "if not node.inputs:",
        ("tests/graphnet/ops/test_surrogate.py", "tests/graphnet/graph/test_engine.py", "-k", "not deep"),
    ),
    Mutant(
        "derivatives_way_through_stopped", "graphnet/derivatives/curvature.py",
        "not is_float(node.dtype) or node.op.stops_gradient", "not is_float(node.dtype)",
        ("tests/graphnet/ops/test_ops_of_users.py",),
    ),
    Mutant(
        "derivatives_cases_of_an_axis", "graphnet/derivatives/per_example.py",
        "shape[axis] % (batch * (stride // tail)) == 0", "shape[axis] % batch == 0",
        ("tests/graphnet/derivatives",),
    ),
    Mutant(
        "operators_held_parameter", "graphnet/operators/linear_operator.py",
        "(n, n.value.copy()) for n in order", "(n, n.value) for n in order",
        ("tests/graphnet/operators",),
    ),
    Mutant(
        "operators_error_of_trace", "graphnet/operators/estimates.py",
        "values.std(ddof=1) / np.sqrt(len(values))", "values.std() / np.sqrt(len(values))",
        ("tests/graphnet/operators",),
    ),
    # -- graphnet/passes ------------------------------------------------------------------------------------------
    Mutant(
        "passes_batch_of_other_rows", "graphnet/passes/batch.py",
        "isinstance(x.op, BroadcastTo) and x.inputs[0] is row for x", "isinstance(x.op, BroadcastTo) for x",
        ("tests/graphnet/passes/test_products.py", "tests/graphnet/passes/test_every_pass.py"),
    ),
    Mutant(
        "passes_fuse_what_varies", "graphnet/passes/fuse.py",
        "links // LONGEST_CHAIN) << 1 | (node in varying)", "links // LONGEST_CHAIN) << 1",
        ("tests/graphnet/backends/test_again.py",),
    ),
    Mutant(
        "passes_fuse_over_other_axes", "graphnet/passes/fuse.py",
        "if axes and axes == (over or axes):", "if axes:",
        ("tests/graphnet/passes/test_reductions.py",),
    ),
    Mutant(
        "passes_pads_that_touch", "graphnet/passes/pads.py",
        "ends[0][0] <= piece.start", "ends[0][0] < piece.start",
        ("tests/graphnet/passes/test_every_pass.py",),
    ),
    Mutant(
        "passes_rows_that_vary", "graphnet/passes/products.py",
        "by_right[node.inputs[1], node in varying]", "by_right[node.inputs[1], True]",
        ("tests/graphnet/backends/test_again.py", "tests/graphnet/passes/test_products.py"),
    ),
    Mutant(
        "passes_plus_zero", "graphnet/passes/simplify.py",
        "return number == 0 and bool(np.signbit(number))", "return number == 0",
        ("tests/graphnet/testing/test_random_graphs.py", "tests/graphnet/passes", "-k", "zero or simplify"),
    ),
    Mutant(
        "passes_part_of_one_hot", "graphnet/passes/simplify.py",
        " if x.op.is_one_hot and stop == x.shape[-1]:", " if x.op.is_one_hot:",
        ("tests/graphnet/passes", "tests/graphnet/testing/test_random_graphs.py", "-k", "symbol or code or rule"),
    ),
    Mutant(
        "passes_scatter_that_varies", "graphnet/passes/reductions.py",
        "index.ndim == 1 and not stays and node", "index.ndim == 1 and node",
        ("tests/graphnet/passes/test_every_pass.py",),
    ),
    # -- graphnet/plan --------------------------------------------------------------------------------------------
    Mutant(
        "plan_taken_twice", "graphnet/plan/arena.py",
        "retaken[life.epoch[0], life.buffer.offset] += 1", "retaken[life.epoch[0], life.buffer.offset] += 0",
        ("tests/graphnet/backends/test_threads.py",),
    ),
    Mutant(
        "plan_kept_for_again", "graphnet/plan/arena.py",
        "first[buffer] < fixed <= last[buffer]", "first[buffer] < fixed < last[buffer]",
        ("tests/graphnet/backends/test_again.py",),
    ),
    Mutant(
        "plan_sums_of_chunks", "graphnet/plan/chunks.py",
        'return FLOAT64 if reduction.how == "sum" and dtype.kind == "f" else dtype', "return dtype",
        ("tests/graphnet/backends/test_numerics.py", "tests/graphnet/backends/test_numerics.py"),
    ),
    Mutant(
        "plan_update_of_a_transpose", "graphnet/plan/updates.py",
        "(r.offset, r.shape, r.strides) != (w.offset, w.shape, w.strides)",
        "(r.offset, r.shape) != (w.offset, w.shape)",
        ("tests/graphnet/plan",),
    ),
    Mutant(
        "plan_join_with_a_gap", "graphnet/plan/placement.py",
        "if view.offset != first.offset + rows * first.strides[0]:",
        "if view.offset < first.offset + rows * first.strides[0]:",
        ("tests/graphnet/backends/test_loops.py",),
    ),
    # -- graphnet/backends ----------------------------------------------------------------------------------------
    Mutant(
        "numba_barrier_of_other_rows", "graphnet/backends/numba/cores/barriers.py",
        'if same and (who == "one core" or pitch == region.pitch):', "if same:",
        ("tests/graphnet/backends/test_races.py",),
    ),
    Mutant(
        "numba_columns_not_cleared", "graphnet/backends/numba/code/scatter.py",
        "code.loop(zero, size, 1, [], clear)", "code.loop(zero, columns, 1, [], clear)",
        ("tests/graphnet/backends/test_loops.py",),
    ),
    Mutant(
        "numba_infinite_sum", "graphnet/backends/numba/code/reduction.py",
        'self.select(self.compare("ord", rest, rest), self.add(total, rest), total)', "self.add(total, rest)",
        ("tests/graphnet/backends/test_numerics.py", "tests/graphnet/backends/test_edges.py"),
    ),
    Mutant(
        "numba_what_rounding_took", "graphnet/backends/numba/code/reduction.py",
        "return self.add(self.subtract(a, of_a), self.subtract(b, of_b))", "return self.subtract(b, of_b)",
        ("tests/graphnet/backends/test_numerics.py", "tests/graphnet/backends/test_numerics.py"),
    ),
    Mutant(
        "numba_log_of_tiny_numbers", "graphnet/backends/numba/code/mathematics.py",
        "-(mantissa + 2.0)", "-(mantissa + 1.0)",
        ("tests/graphnet/backends/test_numerics.py",),
    ),
    Mutant(
        "numba_blocks_of_a_product", "graphnet/backends/numba/product_jobs.py",
        "panel, width, i > 0))", "panel, width, i > 1))",
        ("tests/graphnet/backends/test_matmul.py",),
    ),
    Mutant(
        "numba_bounds_of_a_kernel", "graphnet/backends/numba/code/rowwise.py",
        "flags.boundscheck = True", "flags.boundscheck = False",
        ("tests/graphnet/ops/test_rowwise.py",),
    ),
    Mutant(
        "numba_pace_of_the_mean", "graphnet/backends/numba/cores/pace.py",
        "median(tried) < enough * median(used) and lost < 0", "median(tried) < enough * median(used) or lost < 0",
        ("tests/graphnet/backends/test_threads.py",),
    ),
    Mutant(
        "compiled_call_within_a_call", "graphnet/backends/compiled/turns.py",
        "        self._under_way = True", "        self._under_way = False",
        ("tests/graphnet/backends/test_threads.py",),
    ),
    Mutant(
        "compiled_check_of_reductions", "graphnet/backends/compiled/schedule.py",
        "looked_at = instruction.writes if instruction.reductions else []", "looked_at = []",
        ("tests/graphnet/backends/test_check_option.py",),
    ),
    Mutant(
        "cuda_chunk_of_a_place", "graphnet/backends/cuda/scatters.py",
        "s = ((p + 1) * {chunks} - 1) // {places}", "s = p * {chunks} // {places}",
        ("tests/graphnet/backends/cuda/test_kernels.py",),
    ),
    Mutant(
        "cuda_index_below_zero", "graphnet/backends/cuda/loops.py",
        'f"if {index} < 0 or {index} >= depth{k}"', 'f"if {index} >= depth{k}"',
        ("tests/graphnet/backends/cuda/test_program.py",),
    ),
    Mutant(
        "cuda_borrowed_from_the_middle", "graphnet/backends/cuda/exchange.py",
        "(tensor.data or 0) + tensor.byte_offset", "(tensor.data or 0)",
        ("tests/graphnet/backends/cuda/test_program.py",),
    ),
    Mutant(
        "cuda_terms_of_the_next_part", "graphnet/backends/cuda/products.py",
        "< {self.size} and k + {d} < end", "< {self.size} and k + {d} < inner",
        ("tests/graphnet/backends/cuda/test_kernels.py",),
    ),
    Mutant(
        "c_sign_of_a_remainder", "graphnet/standalone_c/mathematics.py",
        "return (rest < {zero}) != (y < {zero}) ? rest + y : rest;", "return rest < {zero} ? rest + y : rest;",
        ("tests/graphnet/standalone_c",),
    ),
    Mutant(
        "numpy_results_of_others", "graphnet/backends/numpy.py",
        "or value.base is not None or id(value) in taken", "or id(value) in taken",
        ("tests/graphnet/graph/test_engine.py", "-k", "not deep"),
    ),
    Mutant(
        "numpy_first_that_is_not_finite", "graphnet/backends/numpy.py",
        "if all(finite[position[source]] for source in node.inputs):",
        "if any(finite[position[source]] for source in node.inputs):",
        ("tests/graphnet/backends/test_check_option.py",),
    ),
    # -- graphnet/call, graphnet/system, graphnet/settings, graphnet/testing, graphnet/onnx -----------------------
    Mutant(
        "call_integers_that_wrap", "graphnet/call/arguments.py",
        "kept = converted == value if whole else np.isinf(converted) == np.isinf(value)",
        "kept = np.isinf(converted) == np.isinf(value)",
        ("tests/graphnet/call/test_arguments.py", "tests/graphnet/graph/test_errors.py"),
    ),
    Mutant(
        "call_damage_of_a_stored_function", "graphnet/call/stored.py",
        "    if hashlib.sha256(content[start:]).digest() != content[len(MAGIC) : start]:", "    if False:",
        ("tests/graphnet/call/test_stored.py",),
    ),
    Mutant(
        "call_updates_of_parameters", "graphnet/call/running.py",
        "copies = {i: given[i].copy() for i in within}", "copies = {i: given[i] for i in within}",
        ("tests/graphnet/plan/test_updates.py",),
    ),
    Mutant(
        "call_again_after_a_failure", "graphnet/call/running.py",
        "self._last, self._failed = None, True  # invalid if", "self._failed = True  # invalid if",
        ("tests/graphnet/backends/test_again.py",),
    ),
    Mutant(
        "system_no_fsync", "graphnet/system/files.py",
        "                file.flush()\n                os.fsync(file.fileno())\n", "                file.flush()\n",
        ("tests/graphnet/system/test_files.py", "tests/graphnet_rnn/formats/test_model_file.py"),
    ),
    Mutant(
        "system_lock_of_a_removed_file", "graphnet/system/files.py",
        "            if _is_at(descriptor, lock):\n                return descriptor", "            return descriptor",
        ("tests/graphnet/system/test_files.py",),
    ),
    Mutant(
        "system_line_torn_by_a_power_cut", "graphnet/system/json_lines.py",
        'line.startswith((b"{", b"\\0"))', 'line.startswith((b"{",))',
        ("tests/graphnet/system/test_json_lines.py",),
    ),
    Mutant(
        "system_tail_forgets_its_row", "graphnet/system/json_lines.py",
        "self._last = lines[-1] if lines else self._last", 'self._last = lines[-1] if lines else b""',
        ("tests/graphnet/system/test_json_lines.py",),
    ),
    Mutant(
        "system_most_memory", "graphnet/system/memory.py",
        "return min(found, default=None)", "return max(found, default=None)",
        ("tests/graphnet/system/test_memory.py",),
    ),
    Mutant(
        "settings_nan_as_a_limit", "graphnet/settings.py",
        "if not is_number(value) or not value > 0:\n", "if not is_number(value) or value <= 0:\n",
        ("tests/graphnet_rnn/optimizers/test_every_optimizer.py",),
    ),
    Mutant(
        "testing_nan_where_none_is_right", "graphnet/testing/laws.py",
        "same |= np.isnan(found) & np.isnan(expected)", "same |= np.isnan(found)",
        ("tests/graphnet/testing/test_mutants.py",),
    ),
    Mutant(
        "onnx_pads_that_depend_on_cases", "graphnet/onnx/arrays.py",
        "Size(a.per_case - b.per_case, a.plus - b.plus)", "Size(a.per_case - b.per_case, a.plus + b.plus)",
        ("tests/graphnet/onnx", "tests/graphnet_rnn/formats/test_onnx.py"),
    ),
    # -- graphnet_rnn/cell, graphnet_rnn/cells --------------------------------------------------------------------
    Mutant(
        "cell_glorot_of_one_side", "graphnet_rnn/cell/initializers.py",
        "math.sqrt(6 / max(1, fan_in + fan_out))", "math.sqrt(6 / max(1, 2 * fan_in))",
        ("tests/graphnet_rnn/cell/test_initial_weights.py", "tests/graphnet_rnn/network/test_network.py"),
    ),
    Mutant(
        "cell_seed_of_a_weight", "graphnet_rnn/cell/weights.py",
        "np.random.default_rng([self.seed, key])", "np.random.default_rng([key])",
        ("tests/graphnet_rnn/cell/test_initial_weights.py", "tests/graphnet_rnn/network/test_network.py"),
    ),
    Mutant(
        "cell_spectral_radius", "graphnet_rnn/cell/initializers.py",
        "largest = float(np.abs(np.linalg.eigvals(w)).max())", "largest = float(np.linalg.eigvals(w).real.max())",
        ("tests/graphnet_rnn/cell/test_initial_weights.py",),
    ),
    Mutant(
        "cells_forget_bias", "graphnet_rnn/cells/lstm.py",
        'self.affine("f", x=x, h=h, bias=spread(0.0, 2.0))', 'self.affine("f", x=x, h=h)',
        ("tests/graphnet_rnn/cell/test_initial_weights.py", "tests/graphnet_rnn/cells/test_oracles.py"),
    ),
    Mutant(
        "cells_both_ways_in_both_ways", "graphnet_rnn/cells/combine.py",
        "states[count:], not backward, inside", "states[count:], True, inside",
        ("tests/graphnet_rnn/cells/test_oracles.py", "tests/graphnet_rnn/cells/test_architectures.py"),
    ),
    # -- graphnet_rnn/network -------------------------------------------------------------------------------------
    Mutant(
        "network_cases_shorter_than_unscored", "graphnet_rnn/network/unroll.py",
        "gn.sum(gn.maximum(ends.node - unscored, 0))", "gn.sum(ends.node - unscored)",
        ("tests/graphnet_rnn/network/test_lengths.py", "-k", "mean or outputs or first"),
    ),
    Mutant(
        "network_label_that_repeats", "graphnet_rnn/network/ctc/loss.py",
        "skips = gn.where(may_skip, padded[:, :-2], _IMPOSSIBLE)", "skips = padded[:, :-2]",
        ("tests/graphnet_rnn/network/test_ctc.py",),
    ),
    Mutant(
        "network_beam_of_repeats", "graphnet_rnn/network/ctc/decoding.py",
        "longer[i, last] = by_blank[i] + p[last]", "longer[i, last] = total[i] + p[last]",
        ("tests/graphnet_rnn/network/test_ctc.py",),
    ),
    Mutant(
        "network_lengths_in_pieces", "graphnet_rnn/network/running.py",
        "np.clip(ends - start, 0, length)", "np.clip(ends, 0, length)",
        ("tests/graphnet_rnn/network/test_lengths.py", "-k", "pieces or run"),
    ),
    # -- graphnet_rnn/optimizers, graphnet_rnn/riemannian ---------------------------------------------------------
    Mutant(
        "optimizers_decay_after_the_step", "graphnet_rnn/optimizers/first_order.py",
        "after - scaled * decay * theta", "after - scaled * decay * after",
        ("tests/graphnet_rnn/optimizers/test_every_optimizer.py",),
    ),
    Mutant(
        "optimizers_oldest_pair", "graphnet_rnn/optimizers/lbfgs.py",
        "range(max(0, pairs - self.memory), pairs)", "range(max(0, pairs - self.memory + 1), pairs)",
        ("tests/graphnet_rnn/optimizers/test_line_search_methods.py",),
    ),
    Mutant(
        "optimizers_interval_that_shrinks", "graphnet_rnn/optimizers/line_search.py",
        "length >= SHRINKS * self._lengths[0]", "length >= SHRINKS * self._lengths[1]",
        ("tests/graphnet_rnn/optimizers/test_hessian_free_rules.py",),
    ),
    Mutant(
        "optimizers_stalled_too_soon", "graphnet_rnn/optimizers/conjugate_gradient.py",
        "and i > k\n", "and i >= k\n",
        HESSIAN_FREE,
    ),
    Mutant(
        "optimizers_damping_of_no_ratio", "graphnet_rnn/optimizers/hessian_free.py",
        "return FACTOR if not ratio >= BAD else", "return FACTOR if ratio < BAD else",
        HESSIAN_FREE,
    ),
    Mutant(
        "optimizers_warm_start_of_a_bad_step", "graphnet_rnn/optimizers/hessian_free.py",
        "found.direction if scale else 0.0", "found.direction",
        HESSIAN_FREE,
    ),
    Mutant(
        "optimizers_plateau_below_zero", "graphnet_rnn/optimizers/schedules.py",
        "self.tolerance * abs(best) if", "self.tolerance * best if",
        ("tests/graphnet_rnn/optimizers/test_schedules.py",),
    ),
    Mutant(
        "optimizers_product_after_a_draw", "graphnet_rnn/optimizers/objective.py",
        "            self.random.redraw()\n            self.forget()", "            self.random.redraw()",
        ("tests/graphnet_rnn/optimizers/test_every_optimizer.py", "tests/graphnet_rnn/optimizers/test_batched.py"),
    ),
    Mutant(
        "riemannian_share_of_damping", "graphnet_rnn/riemannian/kronecker.py",
        "math.sqrt(traces[0] / traces[1])", "math.sqrt(traces[1] / traces[0])",
        ("tests/graphnet_rnn/riemannian/test_moduli.py",),
    ),
    Mutant(
        "riemannian_edges_of_one_unit", "graphnet_rnn/riemannian/blocks.py",
        "np.add.at(total.T, incoming.ends[1], values.T)", "total.T[incoming.ends[1]] += values.T",
        ("tests/graphnet_rnn/riemannian/test_metrics.py",),
    ),
    # -- graphnet_rnn/models --------------------------------------------------------------------------------------
    Mutant(
        "models_way_back_of_viterbi", "graphnet_rnn/models/hmm.py",
        "came_from[t] = ways.argmax(axis=1)", "came_from[t] = ways.argmax(axis=2)",
        ("tests/graphnet_rnn/models/test_hmm.py",),
    ),
    Mutant(
        "models_smoothing_without_edges", "graphnet_rnn/models/hmm.py",
        "smoothing * (self._possible if node is self._A else 1)", "smoothing",
        ("tests/graphnet_rnn/models/test_hmm.py",),
    ),
    Mutant(
        "models_first_reconstruction", "graphnet_rnn/models/energy/annealing.py",
        "if step == 0:", "if step == steps - 1:",
        ("tests/graphnet_rnn/models/test_energy.py",),
    ),
    Mutant(
        "models_variance_for_deviation", "graphnet_rnn/models/energy/units.py",
        "mean.dtype.type(self.sigma) * noise", "mean.dtype.type(self.sigma**2) * noise",
        ("tests/graphnet_rnn/models/test_energy.py",),
    ),
    # -- graphnet_rnn/data ----------------------------------------------------------------------------------------
    Mutant(
        "data_target_after_the_last", "graphnet_rnn/data/batches.py",
        "lane = (len(symbols) - 1) // batch", "lane = len(symbols) // batch",
        ("tests/graphnet_rnn/data/test_text.py",),
    ),
    Mutant(
        "data_gap_in_pieces", "graphnet_rnn/data/sequences.py",
        "far = -(-gap // self.time)", "far = gap // self.time",
        ("tests/graphnet_rnn/data",),
    ),
    Mutant(
        "data_order_of_cases", "graphnet_rnn/data/table.py",
        "groups = [groups[i] for i in np.argsort(first)]", "groups = list(groups)",
        ("tests/graphnet_rnn/apps/cli/test_sequences.py",),
    ),
    Mutant(
        "data_note_without_velocity", "graphnet_rnn/data/music.py",
        'message.type == "note_on" and message.velocity:', 'message.type == "note_on":',
        ("tests/graphnet_rnn/data/test_midi.py",),
    ),
    Mutant(
        "data_half_a_character_at_the_end", "graphnet_rnn/data/characters.py",
        "lines.decode(raw, final=not raw)", "lines.decode(raw, final=False)",
        ("tests/graphnet_rnn/data",),
    ),
    # -- graphnet_rnn/training ------------------------------------------------------------------------------------
    Mutant(
        "training_average_of_the_first_steps", "graphnet_rnn/training/trainer.py",
        "min(keep, 1 - 1 / step)", "keep",
        ("tests/graphnet_rnn/training/test_training_options.py",) * 2,
    ),
    Mutant(
        "training_stop_at_nan", "graphnet_rnn/training/settings.py",
        "return not costs[-1] <= before * (kept", "return costs[-1] > before * (kept",
        ("tests/graphnet_rnn/optimizers/test_every_optimizer.py",),
    ),
    Mutant(
        "training_history_behind_a_checkpoint", "graphnet_rnn/training/folder.py",
        "            sync(folder.history)", "            pass",
        ("tests/graphnet_rnn/training/test_training.py", "-k", "power or sync or disk"),
    ),
    Mutant(
        "training_masks_of_a_resumed_run", "graphnet_rnn/training/text.py",
        '        self._random.state = numbers["random"]', "        pass",
        ("tests/graphnet_rnn/training/test_training.py", "-k", "interrupted"),
    ),
    Mutant(
        "training_first_piece_weighs_more", "graphnet_rnn/training/text.py",
        "return 1.0 if step else self.time / self._batches.stride", "return 1.0",
        ("tests/graphnet_rnn/training/test_text_problems.py",),
    ),
    Mutant(
        "training_cases_of_no_weight", "graphnet_rnn/training/cases.py",
        "    if missing:\n", "    if missing > size:\n",
        ("tests/graphnet_rnn/training/test_arrays.py",),
    ),
    # -- graphnet_rnn/files, graphnet_rnn/formats -----------------------------------------------------------------
    Mutant(
        "files_enumerations_are_numbers", "graphnet_rnn/files/json_values.py",
        "type(value) in (bool, int, float, str)", "isinstance(value, (bool, int, float, str))",
        ("tests/graphnet_rnn/files/test_json_values.py",),
    ),
    Mutant(
        "files_more_than_tensors", "graphnet_rnn/files/tensor_file.py",
        "if end != size:", "if end > size:",
        ("tests/graphnet_rnn/formats/test_odd_files.py",),
    ),
    Mutant(
        "formats_weights_for_torch_are_views", "graphnet_rnn/formats/torch_weights.py",
        '.value.T.copy(order="C")', ".value.T",
        ("tests/graphnet_rnn/formats/test_exchange.py",),
    ),
    # -- graphnet_rnn/apps, graphnet_rnn/parallel ---------------------------------------------------------------------
    Mutant(
        "sweep_end_of_a_whole_range", "graphnet_rnn/apps/sweep/ranges.py",
        "(self.low, self.high + 1) if self.whole", "(self.low, self.high) if self.whole",
        ("tests/graphnet_rnn/apps/sweep/test_recipe.py",),
    ),
    Mutant(
        "sweep_error_of_the_mean", "graphnet_rnn/apps/sweep/results.py",
        "spread / (len(values) - 1) / len(values)", "spread / len(values) / len(values)",
        ("tests/graphnet_rnn/apps/sweep/test_sweep.py", "-k", "tables or runs_that_train_makes or the_command"),
    ),
    Mutant(
        "parallel_flags_of_the_first", "graphnet_rnn/parallel/mpi.py",
        "return int(np.bitwise_or.reduce(found))", "return int(found[0])",
        ("tests/graphnet_rnn/parallel/test_mpi.py", "-k", "agreement"),
    ),
    Mutant(
        "parallel_parts_of_a_rank", "graphnet_rnn/parallel/ranks.py",
        "if first <= low and high <= end:", "if first <= low and high < end:",
        ("tests/graphnet_rnn/parallel/test_training.py",),
    ),
    Mutant(
        "cli_clip_norm_of_zero", "graphnet_rnn/apps/cli/specs.py",
        "    return value or None", "    return value",
        ("tests/graphnet_rnn/apps/cli/test_train.py",),
    ),
    Mutant(
        "cli_output_over_an_input", "graphnet_rnn/apps/cli/outputs.py",
        "return os.path.samefile(one, other)  # by", "return one == other  # by",
        ("tests/graphnet_rnn/apps/cli/test_bad_invocations.py",),
    ),
    Mutant(
        "cli_token_of_a_page", "graphnet_rnn/apps/cli/loopback.py",
        '            or not known\n', "",
        ("tests/graphnet_rnn/apps/cli/test_pages.py", "-k", "token"),
    ),
    # -- graphnet_rnn/apps/writer, graphnet_rnn/text, graphnet_rnn/experiments, graphnet_rnn/online --------------------
    Mutant(
        "writer_lesson_at_the_end", "graphnet_rnn/apps/writer/draft.py",
        "self._lessons[-1].end > length:", "self._lessons[-1].end >= length:",
        ("tests/graphnet_rnn/apps/writer/test_draft.py",),
    ),
    Mutant(
        "writer_ends_of_lines", "graphnet_rnn/apps/writer/document.py",
        '"\\r\\n" in text and "\\n" not in text.replace("\\r\\n", "")', '"\\r\\n" in text',
        ("tests/graphnet_rnn/apps/writer/test_draft.py",),
    ),
    Mutant(
        "text_last_character_twice", "graphnet_rnn/text/evaluation.py",
        "(step >= lead - 1) & (step < steps) & (position < last)", "(step >= lead - 1) & (step < steps)",
        ("tests/graphnet_rnn/text/test_evaluation.py",),
    ),
    Mutant(
        "text_no_attempt_is_rejected", "graphnet_rnn/text/search.py",
        "generator.random() * node.bound", "generator.random() * cumulative[-1]",
        ("tests/graphnet_rnn/text/test_completion.py",),
    ),
    Mutant(
        "text_error_over_runs", "graphnet_rnn/experiments/brackets/lag.py",
        "var(axis=1, ddof=1)", "var(axis=1)",
        ("tests/graphnet_rnn/text/test_completion.py",),
    ),
    Mutant(
        "tasks_last_place_of_a_symbol", "graphnet_rnn/experiments/dependencies/problems.py",
        "generator.integers(first, last + 1, count) - 1", "generator.integers(first, last, count) - 1",
        ("tests/graphnet_rnn/experiments/test_tasks.py",),
    ),
    Mutant(
        "online_influence_of_a_learned_state", "graphnet_rnn/online/rtrl.py",
        "columns[node]] = np.eye(node.size)", "columns[node]] = 0",
        ("tests/graphnet_rnn/online/test_online.py",),
    ),
    Mutant(
        "online_first_that_is_scored", "graphnet_rnn/online/dynamic.py",
        "counts = (position >= lead - 1)", "counts = (position >= lead)",
        ("tests/graphnet_rnn/online/test_online.py",),
    ),
    # -- viz ------------------------------------------------------------------------------------------------------
    Mutant(
        "viz_mean_near_the_ends", "viz/charts/curves.py",
        "(2 * reach + 1))", "(2 * half + 1))",
        ("tests/viz/charts/test_curves.py",),
    ),
    Mutant(
        "viz_first_points_of_a_curve", "viz/charts/braille.py",
        "curve[len(curve) // 50 :, 1]", "curve[:, 1]",
        ("tests/viz/charts/test_braille.py",),
    ),
    Mutant(
        "viz_zero_on_a_logarithmic_axis", "viz/charts/history.py",
        "return is_number(value) and value > 0", "return is_number(value) and value >= 0",
        ("tests/viz/charts/test_second_order.py", "tests/viz/charts/test_settings.py"),
    ),
    Mutant(
        "viz_guess_that_is_too_wide", "viz/text.py",
        'cell.guess if cells(cell.guess) <= room else "…"', "cell.guess",
        ("tests/viz/test_text.py",),
    ),
    Mutant(
        "viz_character_as_markup", "viz/text.py",
        'return f"<span {shown}>{escape(cell.character)}</span>"', 'return f"<span {shown}>{cell.character}</span>"',
        ("tests/viz/test_text.py",),
    ),
    Mutant(
        "viz_wide_characters_in_a_line", "viz/terminal.py",
        "column += run.places", "column += len(run.text)",
        ("tests/viz/test_text.py", "tests/viz/test_pages.py"),
    ),
    Mutant(
        "viz_sum_that_is_no_mean", "viz/drawing/fold.py",
        "return x if abs(share * x.size / total.size - 1) < 1e-6 else None", "return x",
        ("tests/viz/drawing/test_dot.py", "tests/viz/drawing/test_render.py"),
    ),
    Mutant(
        "viz_weight_after_a_bias", "viz/drawing/fold.py",
        "< _MOST_LABELS and not _has_bias(operand):", "< _MOST_LABELS:",
        ("tests/viz/drawing/test_dot.py", "tests/viz/drawing/test_render.py"),
    ),
    Mutant(
        "viz_last_steps_of_many", "viz/drawing/merge.py",
        "return steps // 2, (steps - 1) // 2", "return steps // 2, steps // 2",
        ("tests/viz/drawing/test_merge.py",),
    ),
    Mutant(
        "viz_first_of_equal_nodes", "viz/matching.py",
        "left.popleft()", "left.pop()",
        ("tests/viz/test_stages.py", "tests/viz/test_notes.py"),
    ),
]
# fmt: on
