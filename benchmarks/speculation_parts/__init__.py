"""Parts of `speculation.py`: arms, measuring, statistics, report."""
