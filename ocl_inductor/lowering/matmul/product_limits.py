"""From where on ways to lay out a product's operands pay, on CPUs."""

from __future__ import annotations

from dataclasses import dataclass

from ocl_inductor.templates.tuned_values import tuned_values


@dataclass(frozen=True, slots=True)
class ProductLimits:
    """Counts of elements, rows and terms; bytes, or shares of a cache, where it is said."""

    #: A whose steps along K are longer than one element is packed, a tile to a run, where at least
    #: this many panels of columns read it; else it is prefetched where it lies.
    min_panels: int
    #: Elements this many bytes apart fall into one set of the first-level cache, which holds about
    #: a dozen lines: such an A is packed for two panels already.
    set_bytes: int
    #: A sum of more terms is added up in parts, which is faster, and holds no A twice: 3072 columns
    #: in A, 256 in B, 3200 terms: packed 201 GFLOP/s, in parts 395. 1024 terms, 1024 columns: 426
    #: and 384.
    max_packed_terms: int
    #: A larger A is read in place, or a training step would hold it twice: the gradients of the
    #: logits of 256 tokens, GPT-2's vocabulary, are 49 MiB.
    max_packed_bytes: int
    #: B is read where it lies when it has unit stride along the columns and at most this many rows:
    #: each row of a tile is another page.
    max_unpacked_rows: int
    #: Shares of a second-level cache. A longer panel of B than this is cut into parts of half of
    #: it.
    max_panel: float
    #: Work-items of so many rows pack the panel of B that they need: that costs no time, and
    #: parameters are not kept twice. Packing is as fast as copying (0.3 ns an element and core), so
    #: two percent of a product of 512 rows. Least ms of models with B packed before and with own
    #: panels, on Intel's driver and on PoCL (two cores with AVX-512): BERT of 512 rows 361 and 347,
    #: 760 and 644; GPT-2 of 256 rows 244 and 243, 253 and 252; ViT-tiny of 197 rows 18.3 and 15.4,
    #: 19.4 and 19.7. ResNet-50's strided convolutions, batch 4, on a Zen 5: up to 4 % slower than
    #: packed before, on PoCL 7 %.
    min_rows_of_own_panel: int
    #: With 1 MiB, level with packing before at 768 KiB, 5 to 7 % slower at 1152.
    max_own_panel: float
    #: Neighbouring tiles of rows read the same lines of an A whose rows lie along its columns. Up
    #: to so many of them stay in a cache nearby; a longer sum is added up part by part by all tiles
    #: of a work-item. A^T B with 3072 columns in A and 768 in B, on a Zen 5: 430 GFLOP/s for a sum
    #: of 512 terms; of 3200 terms 163, and 389 in parts.
    max_lines_of_a: int
    #: Lines that are nearer to each other are neighbours in memory, which caches know how to read.
    min_bytes_apart: int
    #: So much of a third-level cache may hold A, the rows of a work-item, from panel to panel: 4 of
    #: 32 MiB, and no more where it is larger, which more cores share. With more, panels that are no
    #: parameters are packed before, and items have fewer rows: 2048 rows of 3072, 768 columns, on a
    #: Zen 5, 419 GFLOP/s instead of 371; 1024 of 1024 lose: 445 and 459.
    max_rows: float
    most_rows_bytes: int
    #: Fewer tiles of rows than this do not read a panel often enough.
    min_tiles_for_parts: int
    #: Of skinny_gemm.py. With more rows packing W, where they need it, takes less time than adding
    #: up lanes.
    skinny_max_rows: int
    #: Elements of a weight from which reading it counts. Very few rows of a smaller one are summed
    #: up where they are computed, which saves a kernel.
    skinny_min_weight: int
    #: Below this many vectors in a row of W, adding up lanes would take most of the time; with more
    #: rows, which do not wait for memory, a good part of it.
    skinny_min_vectors: int
    skinny_min_vectors_of_more: int


product_limits = tuned_values(ProductLimits, "products.json")
