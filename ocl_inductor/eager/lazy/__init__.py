"""``torch.ocl.lazy()``: operators on ``ocl`` tensors are recorded, and compiled as one graph.

**How an operator arrives.** As without it: PyTorch calls our Python kernel, below autograd and
autocast (``eager/compiled.py``), which asks ``resident/deferred.py`` first. So a backward pass, an
optimiser and a hook are recorded like everything else, on the thread that calls them: the record is
one for the process, under a lock.

**A tensor without a value** is a real ``ocl`` tensor over a storage without memory, whose
``block`` is a ``Piece`` of the record. Views, ``detach`` and what autograd saves share the storage,
wherever it is made, in C++ too. When the value is computed, the storage itself gets the memory
(``UntypedStorage._swap_data_ptr_``). The record has weak references to storages: one that is dead
is no result of the graph. What ``empty`` makes gets memory as late, or never.

**Structure.** Steps form a tree (``steps.py``). A step's key is its operator, the numbers of the
storages that its tensors view, and all else that is no number; children of a step are found by it.
So sizes, types and results of a known operator follow from the place in the tree, without any shape
function, and at the end of a record the last step has its plans, by which storages live.

**Numbers** belong to the plan, not to the step, where the operator's arithmetic takes tensors
instead (``eager/changing.py``). The first ones are constants of the first plan; those that turn out
to change are inputs of the next one (``plans.py``).

**Views and writes.** A tensor is a storage and a geometry in it. The graph has the storages' first
geometries, views of these (``views.py``), and in-place operators as they came; AOTAutograd makes it
functional. What this cannot express ends the record before it: memory of an argument seen through
gaps of another view, sizes that depend on data, random numbers (which are eager's, in the order of
their calls), complex numbers, operators without a lowering.

**Who needs a value** asks for an address or a storage: ``Tensor.data_ptr`` and
``Tensor.untyped_storage`` compute what is recorded first, if the tensor takes part in it
(``gates.py``). Kernels of single operators, compiled functions, copies, ``torch.save`` and printing
all come through these.

**Limits.** A record ends after some number of operators or bytes, and after an optimiser's step. A
loop without an optimiser that never asks for a value is cut where it comes around: at the call that
began the record, once that is long enough, so that all rounds have few structures. Structures that
keep changing exhaust a budget of compilations (``budget.py``); then they run operator by operator.

**Errors.** What PyTorch's shape functions refuse is raised by the call, as in eager. Later errors
name the line of the call (``sites.py``); tensors whose computation failed raise it again when they
are used.
"""
