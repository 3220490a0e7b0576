"""Every architecture of transformers and every family of timm, as small random models."""
