"""Imports every module that registers lowerings: a new one gets a line here."""

# ruff: noqa: F401
from __future__ import annotations

import ocl_inductor.lowering.attention.attention
import ocl_inductor.lowering.attention.backward
import ocl_inductor.lowering.attention.written_attention
import ocl_inductor.lowering.conv.backward
import ocl_inductor.lowering.conv.conv
import ocl_inductor.lowering.ctc.ctc
import ocl_inductor.lowering.indexing.compaction
import ocl_inductor.lowering.indexing.embedding_bag
import ocl_inductor.lowering.indexing.embedding_bag_backward
import ocl_inductor.lowering.indexing.embedding_renorm
import ocl_inductor.lowering.indexing.histogram
import ocl_inductor.lowering.indexing.index
import ocl_inductor.lowering.indexing.index_put
import ocl_inductor.lowering.indexing.index_tensor
import ocl_inductor.lowering.indexing.scatter
import ocl_inductor.lowering.indexing.segment_reduce
import ocl_inductor.lowering.matmul.grouped_mm
import ocl_inductor.lowering.matmul.matmul
import ocl_inductor.lowering.matmul.quantised_matmul
import ocl_inductor.lowering.matmul.scaled_mm
import ocl_inductor.lowering.norms.moments
import ocl_inductor.lowering.norms.norms
import ocl_inductor.lowering.norms.softmax
import ocl_inductor.lowering.pointwise.backward
import ocl_inductor.lowering.pointwise.copies
import ocl_inductor.lowering.pointwise.factories
import ocl_inductor.lowering.pointwise.float_parts
import ocl_inductor.lowering.pointwise.foreach
import ocl_inductor.lowering.pointwise.requirements
import ocl_inductor.lowering.pointwise.table
import ocl_inductor.lowering.pooling.backward
import ocl_inductor.lowering.pooling.irregular
import ocl_inductor.lowering.pooling.offsets
import ocl_inductor.lowering.pooling.pool
import ocl_inductor.lowering.pooling.unpool
import ocl_inductor.lowering.random.random_bits
import ocl_inductor.lowering.recurrent.recurrence
import ocl_inductor.lowering.reduce.distance
import ocl_inductor.lowering.reduce.pair_distance
import ocl_inductor.lowering.reduce.reduce
import ocl_inductor.lowering.reduce.scans
import ocl_inductor.lowering.resize.grid_sample
import ocl_inductor.lowering.resize.grid_sample_backward
import ocl_inductor.lowering.resize.upsample
import ocl_inductor.lowering.resize.upsample_antialias
import ocl_inductor.lowering.sort.order_statistics
import ocl_inductor.lowering.sort.searchsorted
import ocl_inductor.lowering.sort.sort
import ocl_inductor.lowering.views.as_strided
import ocl_inductor.lowering.views.concat
import ocl_inductor.lowering.views.replication_backward
import ocl_inductor.lowering.views.strided_scatter
import ocl_inductor.lowering.views.views
