"""Connectionist temporal classification as operators whose results have shapes known beforehand.

``aten._ctc_loss`` returns a table of states as wide as its longest target, which depends on data,
so that Dynamo and the fake tensors refuse it. Here the states of all sequences lie side by side in
as many columns as the sizes of ``targets`` allow for.

What the states are: A. Graves et al., "Connectionist Temporal Classification" (2006). A target of
L labels has 2 L + 1 states, namely its labels and the blanks before, between and after them. The
columns of sequence b begin at ``2 * (first + b)``, where ``first`` is where its target begins among
all targets: one that is minus infinity, L labels, L + 1 blanks. There is a row for each step of the
longest input, and another one that begins with the negative log-likelihoods.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ocl_inductor.operators.library import LIBRARY, ops
from ocl_inductor.templates.ctc.ctc import ctc_columns

aten = torch.ops.aten

LIBRARY.define(
    "ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
    "int blank, bool zero_infinity) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
LIBRARY.define(
    "ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, Tensor input_lengths, "
    "Tensor target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, "
    "bool zero_infinity) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
CTC_LOSS = ops.ctc_loss.default
CTC_LOSS_BACKWARD = ops.ctc_loss_backward.default


def _shapes_agree(log_probs: Tensor, targets: Tensor, lengths: tuple[Tensor, ...]) -> None:
    """Raises for what eager refuses whatever the data are."""
    batch = log_probs.shape[1]
    torch._check(targets.dim() == 1 or targets.shape[0] == batch, lambda: "a target a sequence")
    for length in lengths:
        torch._check(length.shape[0] == batch, lambda: "lengths must be of size batch_size")


@torch.library.register_fake("ocl_inductor::ctc_loss", lib=LIBRARY)
def _loss_shapes(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    zero_infinity: bool,
) -> tuple[Tensor, Tensor]:
    _shapes_agree(log_probs, targets, (input_lengths, target_lengths))
    torch._check(0 <= blank < log_probs.shape[2], lambda: "blank must be in label range")
    steps, batch = log_probs.shape[:2]
    return (
        log_probs.new_empty((batch,)),
        log_probs.new_empty((steps + 1, ctc_columns(targets.numel(), batch))),
    )


@torch.library.register_fake("ocl_inductor::ctc_loss_backward", lib=LIBRARY)
def _gradient_shape(grad: Tensor, log_probs: Tensor, *_: object) -> Tensor:
    return log_probs.new_empty(log_probs.shape)


def _pieces(targets: Tensor, target_lengths: list[int]) -> Iterator[tuple[int, slice, slice]]:
    """For each sequence: its length, and the columns of its labels and of its blanks."""
    first = 0
    for b, length in enumerate(target_lengths):
        label = 2 * (first + b) + 1
        blank = label + length
        yield length, slice(label, blank), slice(blank, blank + length + 1)
        first += length if targets.dim() == 1 else targets.shape[1]


@torch.library.impl(LIBRARY, "ctc_loss", "CPU")
def _loss_on_host(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    zero_infinity: bool,
) -> tuple[Tensor, Tensor]:
    """The negative log-likelihood of each target, and ``log_alpha`` as described above.

    ``log_probs`` [T, N, C]; ``targets`` int64 [N, S], or the targets of all sequences one after the
    other; the lengths int64 [N]. Raises where ``torch.ctc_loss`` does.
    """
    theirs: tuple[Tensor, Tensor] = aten._ctc_loss.Tensor(
        log_probs, targets, input_lengths, target_lengths, blank, zero_infinity
    )
    loss, table = theirs
    steps, batch = log_probs.shape[:2]
    alpha = log_probs.new_full((steps + 1, ctc_columns(targets.numel(), batch)), -torch.inf)
    alpha[steps, :batch] = loss
    for b, (length, labels, blanks) in enumerate(_pieces(targets, target_lengths.tolist())):
        alpha[:steps, labels] = table[b, :, 1 : 2 * length : 2]
        alpha[:steps, blanks] = table[b, :, 0 : 2 * length + 1 : 2]
    return loss, alpha


@torch.library.impl(LIBRARY, "ctc_loss_backward", "CPU")
def _gradient_on_host(
    grad: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    neg_log_likelihood: Tensor,
    log_alpha: Tensor,
    blank: int,
    zero_infinity: bool,
) -> Tensor:
    """The gradient for ``log_probs``, as ``aten._ctc_loss_backward`` has it: the one for what went
    into the softmax before it."""
    steps, batch = log_probs.shape[:2]
    lengths = target_lengths.tolist()
    table = log_probs.new_full((batch, steps, 2 * max(lengths, default=0) + 1), -torch.inf)
    for b, (length, labels, blanks) in enumerate(_pieces(targets, lengths)):
        table[b, :, 1 : 2 * length : 2] = log_alpha[:steps, labels]
        table[b, :, 0 : 2 * length + 1 : 2] = log_alpha[:steps, blanks]
    result: Tensor = aten._ctc_loss_backward.Tensor(
        grad, log_probs, targets, input_lengths, target_lengths,
        neg_log_likelihood, table, blank, zero_infinity,
    )  # fmt: skip
    return result


def _save(
    ctx: torch.autograd.function.FunctionCtx,
    inputs: tuple[object, ...],
    output: tuple[Tensor, Tensor],
) -> None:
    *tensors, ctx.blank, ctx.zero_infinity = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _backward(
    ctx: torch.autograd.function.FunctionCtx, grad: Tensor | None, _: object
) -> tuple[Tensor | None, ...]:
    if grad is None or not ctx.needs_input_grad[0]:
        return (None,) * 6
    gradient = CTC_LOSS_BACKWARD(grad, *ctx.saved_tensors, ctx.blank, ctx.zero_infinity)
    return gradient, None, None, None, None, None


torch.library.register_autograd(
    "ocl_inductor::ctc_loss", _backward, setup_context=_save, lib=LIBRARY
)
