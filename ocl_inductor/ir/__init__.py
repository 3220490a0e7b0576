"""The loop-level intermediate representation between lowering and code generation.

Grammar::

    Graph    = inputs: Buffer*   nodes: Node*   outputs: name*
    Node     = Loop | Template | Extern          every node writes Buffer(s) with unique names
    Loop     = ranges, reduction_ranges, kind, body: Expr, store: index
    kind     = pointwise | reduction(name) | scan(name) | scatter(mode)
    Template = spec, operands: buffer names, params
    Extern   = aten operator run on the host, arguments as buffer references
    Expr     = const | index | load | masked | cast | op(Expr*)     a DAG of scalar expressions
    index    = sympy integer expression over loop variables v0..vn, size symbols and ind0..indk

Views never appear here: lowering folds them into the indices of ``load``.
"""
