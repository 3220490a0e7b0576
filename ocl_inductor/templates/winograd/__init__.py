"""3x3 convolutions and their weight gradients by Winograd's algorithm."""
