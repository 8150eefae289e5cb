"""Bytes of memory that training takes on this machine, by arithmetic. Torch-free.

Checked against measured runs: what is alive is right to a few per cent; what the C library's
allocator holds beside it depends on the order of allocations, and is a rule of thumb.
"""

from __future__ import annotations

from trainer.config import DiLoCo, Method, Model, SparseLoCo, Train
from trainer.sizes import FP32_BYTES, kept_values, parameters

PROGRAM_BYTES = 350_000_000
"""A process that has imported torch (2.13, CPU) and pyarrow, and holds nothing of ours yet."""
TEXT_BYTES = 50_000_000
"""Text and tokens of `python-stdlib`, and what reading any text takes at least."""
HELD_PER_BYTE = {"parquet": 12}
OTHERWISE_HELD = 4
"""Bytes for a byte of a corpus file: its text, its tokens, what learning them takes. Measured 3.4
for text, 4.3 for JSON lines, 14 for a small Parquet file, whose text is compressed."""
PLACE_BYTES, KEPT_BYTES = 4, 16
"""A compressor's tables: an int32 a parameter, two int64 a kept value."""
SELECTION_BYTES = 16
"""Top-k at work on the largest stage: magnitudes, those of one length, a copy, a mask."""
ALLOCATOR = 0.15
"""Share that glibc's allocator keeps beside what lives."""
EVALUATION_SEQUENCES = 16
"""Held-out sequences in one forward pass; more of tiny's logits than that leave the cache."""


def memory_bytes(
    train: Train,
    method: Method,
    replicas: int,
    stages: int,
    processes: int = 1,
    corpus_bytes: int = 0,
) -> dict[str, int]:
    """Bytes by what they hold; their sum is what the machine must have free.

    corpus_bytes: of the files of the text, where it has any.

    Shared by all processes: text; parameters, of each replica, the anchor and the next anchor;
    adam; outer, what the outer method remembers. In every process: program; tables of the codec
    and of top-k; gradients of one replica; work, its activations, or the outer step or a checkpoint
    if that takes more.
    """
    model = train.shape()
    each = FP32_BYTES * sum(parameters(model, stages, method.boundary))
    state = {
        "parameters": (replicas + 2) * each,
        "adam": 2 * replicas * each,
        "outer": _outer_bytes(method, replicas, each),
    }
    work = _work_bytes(train, method, replicas, stages)
    saved = 2 * each  # a replica's moments, copied to be written; by the process that holds the run
    own = {
        "tables": processes * _table_bytes(model, method, stages),
        "gradients": processes * each,
        "work": (processes - 1) * work + max(work, saved),
    }
    return {
        "program": processes * PROGRAM_BYTES,
        "text": TEXT_BYTES + HELD_PER_BYTE.get(train.data.source, OTHERWISE_HELD) * corpus_bytes,
        **state,
        **own,
        "allocator": round(ALLOCATOR * sum(own.values())),
    }


def _outer_bytes(method: Method, replicas: int, each: int) -> int:
    """Error feedback of every slot, or one momentum."""
    if isinstance(method.outer, SparseLoCo):
        return replicas * each
    return each if isinstance(method.outer, DiLoCo) else 0


def _table_bytes(model: Model, method: Method, stages: int) -> int:
    boundary = method.boundary
    total = 0
    if boundary.codec != "none":
        bases = stages - 1 if boundary.codec == "independent" else 1
        values = model.vocab * model.d + bases * model.d * boundary.width(model.d)
        total += FP32_BYTES * values
    if isinstance(method.outer, SparseLoCo):
        total += PLACE_BYTES * sum(parameters(model, stages, boundary))
        total += KEPT_BYTES * sum(kept_values(model, stages, method))
    return total


def _work_bytes(train: Train, method: Method, replicas: int, stages: int) -> int:
    """The most that lives for a while: a training step, an evaluation, or the outer step."""
    model = train.shape()
    step = train.inner.sequences * _activation_bytes(model, method, 1.0)
    sequences = min(EVALUATION_SEQUENCES, train.eval_sequences)
    looked_at = sequences * _activation_bytes(model, method, 0.5 / model.layers)
    counts = parameters(model, stages, method.boundary)
    outer = 3 * FP32_BYTES * max(counts)  # a stage's sum, a summand, its next anchor
    if isinstance(method.outer, SparseLoCo):  # and its new error feedback, beside the old one
        outer += (replicas * FP32_BYTES + SELECTION_BYTES) * max(counts)
    return max(step, looked_at, outer)


def _activation_bytes(model: Model, method: Method, kept: float) -> int:
    """Bytes of one sequence: what autograd keeps of the layers, and three times the logits.

    Per layer and token: 11 d (two norms of three, q, k, v, their mix twice) and 4 ffn; where a
    write is bound to a subspace its k numbers too. kept: share of the layers kept at once; without
    gradients half a layer lives.
    """
    subspace = 0
    if method.boundary.codec != "none":
        subspace = 2 * method.boundary.width(model.d)
    layer = 11 * model.d + 4 * model.ffn + subspace
    token = kept * model.layers * layer + 2 * model.d + 3 * model.vocab
    return round(FP32_BYTES * model.seq * token)
