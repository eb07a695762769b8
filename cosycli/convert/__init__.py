"""A CosyVoice checkpoint → a bundle of ONNX graphs, without PyTorch. Only `cosy convert` and `pull` import it."""
