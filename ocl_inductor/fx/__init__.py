"""What FX graphs of aten say, for the stages that read and rewrite them."""
