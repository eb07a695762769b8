"""Speech synthesis at the command line: CosyVoice without PyTorch, streaming on ONNX Runtime."""

__version__ = "0.1.0"
