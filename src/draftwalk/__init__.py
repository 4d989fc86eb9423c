"""Lossless speculative decoding with DFlash and DFlash2 drafters."""
