"""From Dynamo's graph to functional graphs of aten operators."""
