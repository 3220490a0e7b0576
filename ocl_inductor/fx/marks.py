"""What capture notes in the metadata of nodes, for lowering."""

from __future__ import annotations

#: In a placeholder's meta data: true for a weight in training.
TRAINED = "ocl_inductor_trained"
#: In the output's: the input of which a result is a view, by its position, as AOTAutograd says.
VIEWED = "ocl_inductor_viewed"
#: There, too: the results that are new contents of inputs, by the input's position.
RENEWED = "ocl_inductor_renewed"
